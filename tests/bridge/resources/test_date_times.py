"""Date-times as they are written: instants in the time zone in which filters are read, with its offset."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import User
from django.test import override_settings
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.kinds import DATETIME, INTEGER
from mcp_django.bridge.sites import MCPSite, site
from mcp_django.push.identities import identity_of
from mcp_django.push.live_answers import Viewer
from tests.shop.models import Product
from tests.support.asking import DirectPeer, described, request_of
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


def depart(moment: datetime.datetime) -> None:
    make_flights(1)
    Flight.objects.update(departs_at=moment)


def departure(root: DirectPeer) -> Any:
    """When the flight leaves, as a page, a record, a resource and a measure have it, which is the same."""
    [[_, of_page]] = root.call("find_records", model="flights.flight", fields=["departs_at"])["structuredContent"][
        "rows"
    ]
    of_record = root.call("get_record", model="flights.flight", id=1)["structuredContent"]["departs_at"]
    of_resource = root.read("db://flights/flight/1")["departs_at"]
    [[measured]] = root.call("aggregate_records", model="flights.flight", measures=["max:departs_at"])[
        "structuredContent"
    ]["rows"]
    [found] = {of_page, of_record, of_resource, measured}
    return found


ZONES = [
    ("America/New_York", "2013-07-01T08:00:00.000005-04:00"), ("Asia/Kathmandu", "2013-07-01T17:45:00.000005+05:45"),
    ("Africa/Abidjan", "2013-07-01T12:00:00.000005+00:00"), ("UTC", "2013-07-01T12:00:00.000005Z"),
    ("Etc/UTC", "2013-07-01T12:00:00.000005Z"),
]  # fmt: skip


def test_a_date_time_is_written_in_the_zone_that_is_active_which_is_said(root: DirectPeer) -> None:
    depart(datetime.datetime(2013, 7, 1, 12, 0, 0, 5, tzinfo=datetime.UTC))

    for zone, written in ZONES:
        with timezone.override(ZoneInfo(zone)):
            assert departure(root) == written
            assert described(root)["time_zone"] == f"Date-times are in {zone.removeprefix('Etc/')}."
    assert "time_zone" not in described(root, "flights.airline")


def test_a_date_time_that_is_written_finds_its_row(root: DirectPeer) -> None:
    depart(datetime.datetime(2013, 11, 3, 6, 30, 0, 5, tzinfo=datetime.UTC))  # The second 01:30 of that day.
    written = departure(root)

    found = root.call("find_records", model="flights.flight", filter={"departs_at": written})["structuredContent"]

    assert written == "2013-11-03T01:30:00.000005-05:00"
    assert len(found["rows"]) == 1


UNWRITABLE = [
    ("Asia/Tokyo", "9999-12-31T23:59:59+00:00", "9999-12-31T23:59:59Z"),
    ("America/New_York", "0001-01-01T00:00:00+00:00", "0001-01-01T00:00:00Z"),
    ("America/New_York", "1800-01-01T12:00:00+00:00", "1800-01-01T12:00:00Z"),
    ("America/New_York", "1800-01-01T12:00:00.000005+00:00", "1800-01-01T12:00:00.000005Z"),
]  # fmt: skip


def test_what_a_zone_cannot_write_is_written_in_utc() -> None:
    for zone, moment, written in UNWRITABLE:
        with timezone.override(ZoneInfo(zone)):
            assert DATETIME.write(datetime.datetime.fromisoformat(moment)) == written


@override_settings(USE_TZ=False)
def test_without_time_zones_there_is_no_offset() -> None:
    naive = datetime.datetime.fromisoformat("2013-01-31T08:30:00")

    assert DATETIME.write(naive) == "2013-01-31T08:30:00"
    assert DATETIME.write(naive.replace(tzinfo=datetime.UTC)) == "2013-01-31T03:30:00"


def test_a_zone_is_looked_up_once_for_a_column(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[None] = []
    given = timezone.get_current_timezone
    monkeypatch.setattr(timezone, "get_current_timezone", lambda: looked.append(None) or given())

    write = DATETIME.writer()
    written = [write(datetime.datetime(2013, 1, day, tzinfo=datetime.UTC)) for day in range(1, 29)]

    assert (len(looked), written[0]) == (1, "2012-12-31T19:00:00-05:00")
    assert INTEGER.writer() is INTEGER.write


def test_a_computed_date_time_is_written_alike(root: DirectPeer, declared: Declared) -> None:
    class Products(ModelAdmin[Product]):
        list_display = ("name", "made")

        def made(self, product: Product) -> datetime.datetime:
            return datetime.datetime(2013, 1, 31, 8, 30, tzinfo=datetime.UTC)

    declared.admin(Product, Products)
    Product.objects.create(name="lamp")

    page = root.call("find_records", model="shop.product", fields=["made"])["structuredContent"]

    assert page["rows"][0][1] == "2013-01-31T03:30:00-05:00"


def test_pages_go_on_in_another_zone(root: DirectPeer) -> None:
    make_flights(4)
    asked: Any = {"model": "flights.flight", "order_by": ["departs_at"], "fields": ["id"], "limit": 2}

    cursor = root.call("find_records", **asked)["structuredContent"]["next_cursor"]
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        page = root.call("find_records", **asked, cursor=cursor)["structuredContent"]

    assert [row[0] for row in page["rows"]] == [3, 4]


def test_each_user_is_answered_in_the_zone_that_call_context_activates(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    depart(datetime.datetime(2013, 1, 1, 4, 0, tzinfo=datetime.UTC))
    tokyo = DirectPeer(User.objects.create_superuser("tokyo"))

    @contextmanager
    def call_context(self: MCPSite, request: Any) -> Iterator[None]:
        with timezone.override(ZoneInfo("Asia/Tokyo") if request.user.username == "tokyo" else None):
            yield

    monkeypatch.setattr(MCPSite, "call_context", call_context)

    def found(peer: DirectPeer) -> Any:
        asked = {"departs_at": "2013-01-01"}
        return peer.call("find_records", model="flights.flight", filter=asked, fields=["departs_at"])[
            "structuredContent"
        ]["rows"]

    assert found(tokyo) == [[1, "2013-01-01T13:00:00+09:00"]]
    assert found(root) == []
    assert departure(root) == "2012-12-31T23:00:00-05:00"


# Who shares an answer.


def test_listeners_in_two_zones_share_no_answer(root: DirectPeer) -> None:
    request = request_of(root.user)

    def identity() -> object:
        return identity_of(site, request.mcp.principal, request)

    here = identity()
    with timezone.override(ZoneInfo("Asia/Tokyo")):
        there = identity()

    assert here is identity()
    assert there is not here


def test_a_live_answer_is_another_one_in_another_zone(root: DirectPeer) -> None:
    depart(datetime.datetime(2013, 1, 1, 4, 0, tzinfo=datetime.UTC))

    for query in ("departs_at=2013-01-01&fields=id", "fields=departs_at&limit=5", "group_by=departs_at__date"):
        target = uris.parse(f"db://flights/flight?{query}")
        assert target is not None

        def digest(target: uris.Target = target) -> str:
            found = Viewer(site, request_of(root.user)).answer(target)
            assert found is not None
            return found.digest

        here = digest()
        with timezone.override(ZoneInfo("Asia/Tokyo")):
            there = digest()
        assert here == digest()
        assert there != here, query
