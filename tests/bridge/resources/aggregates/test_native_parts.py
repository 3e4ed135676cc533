"""Date parts that SQLite computes are those that Django computes."""

from __future__ import annotations

import datetime
import random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from demo_project.flights.models import Disruption, Flight
from mcp_django.bridge.resources.aggregates import groups
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, aggregate
from mcp_django.bridge.resources.fields.date_parts import PARTS
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.aggregates.conftest import rows, scoped
from tests.bridge.resources.conftest import showing
from tests.shop.models import Product
from tests.support.asking import rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases know time zones")

#: With whole hours, halves and quarters, over both ends of the summer, to the other side of the date line, and none.
ZONES = [
    "America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "America/St_Johns",
    "Asia/Tokyo", "UTC", "Africa/Casablanca",
]  # fmt: skip

#: Changes of the clocks, the ends of years, days and weeks, and leap days.
MOMENTS = [
    "2013-03-10T06:59:59.999999", "2013-03-10T07:00:00", "2013-11-03T05:59:59.999999", "2013-11-03T06:00:00",
    "2011-12-30T09:59:59.9995", "2011-12-30T10:00:00", "2010-11-07T02:30:59", "2010-11-07T02:31:01",
    "2012-02-29T23:59:59.9999",
    "2012-12-31T23:59:59.999999", "2013-01-01T00:00:00", "2015-12-31T12:00:00", "2016-01-03T23:30:00",
    "2016-01-04T00:30:00", "2020-12-31T23:59:59.5", "2021-01-03T12:00:00",
]  # fmt: skip


@pytest.fixture
def moments(root: User) -> ModelRights:
    make_flights(1)
    chance = random.Random(15)
    start = datetime.datetime(2009, 1, 1, tzinfo=datetime.UTC)
    chosen = [datetime.datetime.fromisoformat(text).replace(tzinfo=datetime.UTC) for text in MOMENTS]
    chosen += [start + datetime.timedelta(microseconds=chance.randrange(12 * 366 * 86_400 * 10**6)) for _ in range(300)]
    Flight.objects.all().delete()
    Flight.objects.bulk_create(
        Flight(carrier_id="UA", number=number, distance=1, origin_id="JFK", destination_id="IAH", departs_at=moment)
        for number, moment in enumerate(chosen)
    )
    return rights_on(Flight, root)


def by_both(rights: ModelRights, monkeypatch: pytest.MonkeyPatch, **asked: Any) -> tuple[Any, Any]:
    native = aggregate(rights, AggregateQuery(**asked))
    with monkeypatch.context() as patched:
        patched.setattr(groups, "native_parts", lambda queryset, wanted: [None] * len(wanted))
        return native, aggregate(rights, AggregateQuery(**asked))


def statements(rights: ModelRights, **asked: Any) -> str:
    with CaptureQueriesContext(
        connection,
    ) as captured:
        rows(rights, **asked)
    return "\n".join(query["sql"] for query in captured.captured_queries)


@pytest.mark.parametrize("zone", ZONES)
def test_a_part_is_that_of_django_in_every_zone(
    moments: ModelRights, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    with timezone.override(ZoneInfo(zone)):
        for part in PARTS:
            native, django = by_both(moments, monkeypatch, group_by=["number", f"departs_at__{part}"], limit=200)
            asked = statements(moments, group_by=[f"departs_at__{part}"])

            assert native == django, part
            assert "django_datetime" not in asked, part


def test_a_part_in_a_zone_of_one_offset(moments: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    for minutes in (345, 0, -300):
        with timezone.override(datetime.timezone(datetime.timedelta(minutes=minutes))):
            native, django = by_both(moments, monkeypatch, group_by=["departs_at__date", "departs_at__minute"])
        assert native == django, minutes


OF_DATES = [
    *(f"launched__{part}" for part in PARTS if part not in ("hour", "minute", "date", "trunc_hour")),
    "opens__hour", "opens__minute",
]  # fmt: skip


def test_parts_of_dates_and_times(products: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    late = datetime.time(23, 59, 59, 999_999)
    for year in range(2008, 2022):
        Product.objects.create(name="x", launched=datetime.date(year, 12, 31), opens=late)
        Product.objects.create(name="x", launched=datetime.date(year, 1, 1), opens=None)

    for group in OF_DATES:
        native, django = by_both(products, monkeypatch, group_by=[group])
        assert native == django, group
        assert "django_" not in statements(products, group_by=[group]).replace("django_content_type", ""), group


def test_moments_without_zones_are_not_shifted(moments: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    with override_settings(USE_TZ=False):
        native, django = by_both(moments, monkeypatch, group_by=["departs_at__hour", "departs_at__trunc_week"])
        asked = statements(moments, group_by=["departs_at__hour"])

    assert native == django
    assert "CASE" not in asked and "django_datetime" not in asked


@pytest.mark.every_case
@pytest.mark.parametrize("stored", ["America/New_York", "Europe/Berlin"])
def test_moments_that_are_stored_in_a_zone_of_the_database(
    moments: ModelRights, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", stored)
    forget_zone()
    try:
        native, django = by_both(moments, monkeypatch, group_by=["departs_at__hour", "departs_at__trunc_hour"])
        asked = statements(moments, group_by=["departs_at__hour"])
    finally:
        monkeypatch.undo()
        forget_zone()

    assert native == django
    # The text is that of the zone, or of one that has hours which stand for two.
    assert "CASE" not in asked
    assert ("django_datetime_extract" in asked) == (stored == "Europe/Berlin")


def forget_zone() -> None:
    """Let the connection read its time zone from the settings again."""
    for name in ("timezone", "timezone_name"):
        vars(connections["default"]).pop(name, None)


def test_more_offsets_than_a_statement_should_hold(moments: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    Flight.objects.filter(number=0).update(departs_at=datetime.datetime(1950, 1, 1, tzinfo=datetime.UTC))

    native, django = by_both(moments, monkeypatch, group_by=["departs_at__year"])

    assert native == django
    assert "django_datetime_extract" in statements(moments, group_by=["departs_at__year"])
    assert "django_" not in statements(moments, group_by=["departs_at__year"], filter={"departs_at__gte": "2009-01-01"})


def test_moments_at_the_ends_of_the_calendar(moments: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    for year in (1, 9999):
        Flight.objects.update(departs_at=datetime.datetime(year, 6, 1, tzinfo=datetime.UTC))
        native, django = by_both(moments, monkeypatch, group_by=["departs_at__year"])
        assert native == django, year


def test_text_that_is_no_moment_is_null(moments: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    with connection.cursor() as cursor:
        cursor.execute("UPDATE flights_flight SET departs_at = 'unknown' WHERE number = 3")

    native, django = by_both(moments, monkeypatch, group_by=["departs_at__year"])

    assert native == django
    assert [None, 1] in native.rows


def test_the_first_and_the_last_moment_are_those_of_visible_rows(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())

    asked = statements(rights, group_by=["departs_at__hour"])

    [ends] = [statement for statement in asked.splitlines() if "MIN(" in statement]
    assert "MAX(" in ends and "LGA" in ends


def test_reading_a_hidden_moment_by_its_parts(flights: ModelRights, declared: Declared) -> None:
    Disruption.objects.bulk_create(Disruption(flight_id=key, kind="crew") for key in (1, 2))
    declared.model(Flight, showing(lambda every: every.exclude(pk=1)))
    rights = rights_on(Disruption, User.objects.get())

    hour = timezone.localtime(Flight.objects.get(pk=2).departs_at).hour
    assert rows(rights, group_by=["flight__departs_at__hour"]) == [[hour, 1], [None, 1]]
