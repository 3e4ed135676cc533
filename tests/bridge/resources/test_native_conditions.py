"""Conditions on parts of dates find on SQLite what Django's own functions find there, without calling Python."""

from __future__ import annotations

import datetime
import random
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from demo_project.flights.models import Disruption, Flight
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, aggregate
from mcp_django.bridge.resources.reading import rows
from mcp_django.protocol.types import JSON
from tests.shop.models import Product
from tests.support.asking import rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.skipif(connection.vendor != "sqlite", reason="other databases know time zones")

CONDITIONS: list[JSON] = [
    {"departs_at__hour": 23}, {"departs_at__hour__lt": 6}, {"departs_at__hour__in": [0, 12]},
    {"departs_at__month__range": [11, 12]}, {"departs_at__iso_week_day__gte": 6}, {"departs_at__week_day": 1},
    {"departs_at__week": 1}, {"departs_at__week": 53}, {"departs_at__quarter__lte": 1}, {"departs_at__day": 31},
    {"departs_at__minute__gt": 30}, {"departs_at__month__in": [2, 3, 4], "departs_at__hour__gte": 12},
    {"not": {"departs_at__hour": 23}}, {"any": [{"departs_at__month": 1}, {"departs_at__hour": 1}]},
    {"not": {"any": [{"departs_at__month": 1}, {"not": {"departs_at__hour__in": [1, 2]}}]}},
]  # fmt: skip


@pytest.fixture
def moments(db: None) -> None:
    make_flights(1)
    chance = random.Random(12)
    start = datetime.datetime(2009, 1, 1, tzinfo=datetime.UTC)
    chosen = [start + datetime.timedelta(minutes=chance.randrange(12 * 366 * 1_440)) for _ in range(299)]
    of_week_53 = datetime.datetime(2020, 12, 31, 12, tzinfo=datetime.UTC)
    Flight.objects.all().delete()
    Flight.objects.bulk_create(
        Flight(carrier_id="UA", number=number, distance=1, origin_id="JFK", destination_id="IAH", departs_at=moment)
        for number, moment in enumerate([*chosen, of_week_53])
    )


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


def found(root: User, model: Any, asked: JSON) -> list[Any]:
    page = rows.find(rights_on(model, root), rows.RecordQuery(filter=asked, fields=["pk"], limit=500))
    return sorted(row[0] for row in page.rows)


def by_django(monkeypatch: pytest.MonkeyPatch, root: User, model: Any, asked: JSON) -> list[Any]:
    with monkeypatch.context() as patched:
        patched.setattr(rows, "natively", lambda rights, rows, conditions: conditions)
        return found(root, model, asked)


@pytest.mark.parametrize("zone", ["America/New_York", "America/St_Johns", "Pacific/Apia", "Asia/Kathmandu", "UTC"])
def test_a_filter_finds_what_django_finds(
    moments: None, root: User, monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    with timezone.override(ZoneInfo(zone)):
        for asked in CONDITIONS:
            with CaptureQueriesContext(connection) as captured:
                natively = found(root, Flight, asked)

            assert natively == by_django(monkeypatch, root, Flight, asked), asked
            assert 0 < len(natively) < 300, asked
            assert "django_datetime" not in "".join(query["sql"] for query in captured), asked


OF_NULLS: list[JSON] = [
    {"launched__month": 1}, {"not": {"launched__month": 1}}, {"not": {"launched__week__in": [1, 2]}},
    {"opens__hour__lt": 9}, {"not": {"opens__hour": 8}},
]  # fmt: skip


def test_a_null_meets_the_negation_of_each(root: User, declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    declared.model(Product, fields=["name", "launched", "opens"])
    Product.objects.create(name="empty")
    Product.objects.create(name="old", launched="2013-01-02", opens="08:30")
    Product.objects.create(name="new", launched="2014-07-02", opens="09:30")

    for asked in OF_NULLS:
        natively = found(root, Product, asked)
        assert natively == by_django(monkeypatch, root, Product, asked), asked
        assert len(natively) == (2 if "not" in asked else 1), asked


def test_conditions_of_measures_count_what_a_filter_finds(moments: None, root: User) -> None:
    conditions = {f"c{index}": asked for index, asked in enumerate(CONDITIONS[:10])}
    query = AggregateQuery(measures=[f"count@{name}" for name in conditions], conditions=conditions)

    with CaptureQueriesContext(connection) as captured:
        table = aggregate(rights_on(Flight, root), query)

    assert table.rows == [[len(found(root, Flight, asked)) for asked in conditions.values()]]
    assert "django_datetime" not in "".join(query["sql"] for query in captured)


def test_a_part_in_a_related_row_is_left_to_django(moments: None, root: User) -> None:
    flight = Flight.objects.first()
    assert flight is not None
    Disruption.objects.create(flight=flight, kind="weather", severity="minor", note="x", reported_by=root)
    hour = timezone.localtime(flight.departs_at).hour

    assert len(found(root, Disruption, {"flight__departs_at__hour": hour})) == 1
    assert found(root, Disruption, {"flight__departs_at__hour": (hour + 1) % 24}) == []


def test_a_query_that_is_only_checked_asks_nothing(root: User, django_assert_num_queries: Any) -> None:
    rights = rights_on(Flight, root)
    assert rights.rows() is not None  # The queryset of the project's own asks for the user's groups.

    with django_assert_num_queries(0):
        rows.check(rights, rows.RecordQuery(filter={"departs_at__hour": 3}))
        aggregates.check(rights, AggregateQuery(filter={"departs_at__hour": 3}))
