"""Queries that take too long: their error says of which column a part can be asked, and gives away no more."""

from __future__ import annotations

import datetime
import json
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db.models import BooleanField, Q
from django.db.models.expressions import RawSQL
from django.test import override_settings
from django.utils import timezone

from demo_project.flights.models import Disruption, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources import queries
from mcp_django.bridge.resources.aggregates import aggregates
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.reading import rows
from mcp_django.bridge.resources.reading.splitting import explained
from mcp_django.bridge.sites import site
from mcp_django.protocol.errors import TooSlow
from tests.bridge.resources.conftest import each, showing
from tests.bridge.resources.test_reading import A_MINUTE
from tests.support.asking import DirectPeer, request_of
from tests.support.data import make_flights
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

STOPPED = "The query was stopped: it took longer than 5 s (STATEMENT_SECONDS). "
NARROW = "Narrow it: filter by the key or by another indexed field, over a smaller range, and through fewer relations."


@pytest.fixture
def flights(root: DirectPeer) -> None:
    """Flights of a year; the first and the last one are on these days in New York, and not in UTC."""
    made = make_flights(12)
    for month, flight in enumerate(made, 1):
        Flight.objects.filter(pk=flight.pk).update(
            departs_at=datetime.datetime(2013, month, 1, 10, tzinfo=datetime.UTC)
        )
    Flight.objects.filter(pk=12).update(departs_at=datetime.datetime(2014, 1, 1, 3, tzinfo=datetime.UTC))


def advice(root: DirectPeer, model: str = "flights.flight", **arguments: Any) -> str:
    """What the error of a slow query says to do; empty if that is nothing of its own."""
    with (
        pytest.raises(TooSlow) as raised,
        explained(Rights(site, request_of(root.user)), {"model": model, **arguments}),
    ):
        raise TooSlow
    return "".join(error["message"] for error in raised.value.errors)


def test_the_range_of_the_column_is_that_of_the_visible_rows(root: DirectPeer, flights: None) -> None:
    assert advice(root) == (
        "Split it: departs_at runs from 2013-01-01 to 2013-12-31 and is indexed; ask for "
        "departs_at__gte/departs_at__lt of a part, e.g. one quarter at a time."
    )


RANGES: list[tuple[Any, str]] = [
    ({"departs_at__gte": "2013-02-01", "departs_at__lt": "2013-04-30"}, "from 2013-02-01 to 2013-04-30, one month"),
    ({"departs_at__range": ["2013-02-01", "2013-02-20"]}, "from 2013-02-01 to 2013-02-20, one week"),
    ({"departs_at__range": "2013-02-01,2013-02-05T10:00:00Z"}, "from 2013-02-01 to 2013-02-05, one day"),
    ({"departs_at__date": "2013-02-01"}, "from 2013-02-01 to 2013-02-01, one hour"),
    ({"departs_at__year": "2012"}, "from 2012-01-01 to 2012-12-31, one quarter"),
    ({"departs_at__gt": "2010-06-01"}, "from 2010-06-01 to 2013-12-31, one year"),
    ({"departs_at__lte": "2013-06-01T10:00:00Z"}, "from 2013-01-01 to 2013-06-01, one month"),
    ({"id__gte": 3, "id__lt": 9}, "from 3 to 9, a tenth of it"),
    ({"id__gte": 0, "id__lt": 9}, "from 0 to 9, a tenth of it"),
    ({"status": "on_time", "id__in": [1]}, "from 2013-01-01 to 2013-12-31, one quarter"),
]  # fmt: skip


def test_the_range_is_that_of_the_filter_where_it_has_one(root: DirectPeer, flights: None) -> None:
    for asked, runs in RANGES:
        said = advice(root, filter=asked)
        ends, _, part = runs.rpartition(", ")
        assert f" runs {ends} and is indexed; " in said, asked
        assert said.endswith(f", e.g. {part} at a time."), asked


def test_without_a_column_to_split_by_the_error_is_the_common_one(root: DirectPeer) -> None:
    make_flights(1)

    assert [advice(root, "flights.plane"), advice(root, "flights.nothing"), advice(root, id="1")] == ["", "", ""]
    Flight.objects.all().delete()
    assert (
        advice(root) == "Split it: departs_at is indexed; ask for departs_at__gte/departs_at__lt of a part at a time."
    )


def test_the_end_of_the_calendar_is_a_range_too(root: DirectPeer, flights: None) -> None:
    Flight.objects.filter(pk=12).update(departs_at=datetime.datetime(9999, 12, 31, 23, tzinfo=datetime.UTC))

    with timezone.override(ZoneInfo("Asia/Tokyo")):
        said = advice(root)

    assert " from 2013-01-01 to 9999-12-31 " in said


@override_settings(MCP={"STATEMENT_SECONDS": 5.0})
def test_tools_and_resources_say_it_as_an_error_of_the_filter(
    root: DirectPeer, flights: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_slow(*args: Any, **named: Any) -> Any:
        raise TooSlow

    for module, name in ((rows, "find"), (aggregates, "aggregate"), (queries, "answer")):
        monkeypatch.setattr(module, name, too_slow)
    expected = advice(root)
    errors = [{"field": "filter", "message": expected, "received": None}]

    for tool in ("find_records", "aggregate_records"):
        result = root.call(tool, model="flights.flight")
        assert result["isError"] is True
        assert json.loads(result["content"][0]["text"]) == {"error": STOPPED + expected, "errors": errors}
    for query in ("departs_at__year=2013", "measures=count"):
        assert root.error(MODERN, "resources/read", {"uri": f"db://flights/flight?{query}"}) == {
            "code": -32603, "message": STOPPED + expected, "data": {"reason": "TOO_SLOW", "errors": errors},
        }  # fmt: skip


@override_settings(MCP={"STATEMENT_SECONDS": 0.3})
def test_a_query_that_is_really_slow_is_explained_in_time(root: DirectPeer, flights: None, declared: Declared) -> None:
    class Flights(ModelMCP):
        fields = ("departs_at",)

        def get_queryset(self, request: Any) -> Any:
            slow = RawSQL(f"{A_MINUTE} IS NOT NULL", (), output_field=BooleanField())
            return super().get_queryset(request).filter(slow)

    declared.model(Flight, Flights)

    result = root.call("find_records", model="flights.flight")

    [error] = json.loads(result["content"][0]["text"])["errors"]
    assert error["message"] == (
        "Split it: departs_at is indexed; ask for departs_at__gte/departs_at__lt of a part at a time."
    )


# What may not be known is not said.


def test_rows_of_others_do_not_widen_the_range(root: DirectPeer, flights: None, declared: Declared) -> None:
    declared.model(Flight, showing(lambda every: every.filter(Q(id__gte=4, id__lte=6)), fields=("departs_at",)))

    assert " from 2013-04-01 to 2013-06-01 " in advice(root)


def test_a_column_that_may_not_be_read_or_filtered_is_not_named(
    root: DirectPeer, flights: None, declared: Declared
) -> None:
    declared.model(Flight, fields=["id", "status"])
    hidden = advice(root)
    declared.model(Disruption, fields="__all__", filter_fields=["kind"])
    unfiltered = advice(root, "flights.disruption")

    assert "departs_at" not in hidden
    assert unfiltered == ""


def test_small_groups_give_away_no_ends(root: DirectPeer, flights: None) -> None:
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        open_range = advice(root)
        own_range = advice(root, filter={"departs_at__year": 2012})
        half_open = advice(root, filter={"departs_at__gte": "2012-01-01"})

    assert "2013" not in open_range + half_open
    assert " from 2012-01-01 to 2012-12-31 " in own_range


def test_rows_that_are_checked_one_by_one_give_away_no_ends(
    root: DirectPeer, flights: None, declared: Declared
) -> None:
    declared.model(Flight, each(lambda obj: obj.pk == 5, fields=("departs_at",)))

    assert "2013" not in advice(root)
