"""Groups that are too small to be shown."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, Table, aggregate
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.aggregates.conftest import JSON, error, rows
from tests.support.asking import rights_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


WITHHELD = (
    "Groups of fewer than {} rows are left out, and a measure is null where fewer rows have a value (MIN_GROUP_ROWS)."
)


def test_groups_smaller_than_the_smallest_are_left_out(flights: ModelRights) -> None:
    Flight.objects.filter(pk=1).update(status="delayed")

    with override_settings(MCP={"MIN_GROUP_ROWS": 2}):
        table = aggregate(flights, AggregateQuery(group_by=["status"], limit=2))

    assert table == Table(["status", "count"], [["cancelled", 2], ["on_time", 9]], [WITHHELD.format(2)])


ISOLATING: list[JSON] = [
    {"filter": {"id": 1}},
    {"filter": {"id": 999}},
    {"group_by": ["id"]},
    {"group_by": ["status", "number"], "order_by": ["-sum:distance"], "limit": 1},
    {"group_by": ["origin"], "having": {"count": 1}},
    {"group_by": ["origin"], "filter": {"number": 1000}, "having": {"sum:distance__gt": 0}},
    {"filter": {"number__lt": 1002}, "measures": ["count_distinct:status"]},
]  # fmt: skip


def test_isolating_a_row_below_the_smallest_group(flights: ModelRights) -> None:
    """A row that is there and one that is not are answered alike."""
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        for asked in ISOLATING:
            table = aggregate(flights, AggregateQuery(**asked))
            assert (table.rows, table.notes) == ([], [WITHHELD.format(3)]), asked


def test_isolating_the_one_value_of_a_large_group(flights: ModelRights) -> None:
    """A group may be large, and only one row of it have a value."""
    Flight.objects.update(arrival_delay=None)
    Flight.objects.filter(pk=5).update(arrival_delay=77)
    measures = [f"{name}:arrival_delay" for name in ("count", "count_distinct", "sum", "avg", "stddev")]

    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        totals = rows(flights, measures=["count", *measures])
        groups = rows(flights, group_by=["origin"], measures=["count", *measures])
        found = rows(flights, group_by=["origin"], having={"sum:arrival_delay__gt": 0})
        ordered = rows(flights, group_by=["origin"], order_by=["-sum:arrival_delay"])

    assert totals == [[12, *[None] * 5]]
    assert groups == [[origin, 4, *[None] * 5] for origin in ("EWR", "JFK", "LGA")]
    assert found == []
    assert [row[0] for row in ordered] == ["EWR", "JFK", "LGA"]


ENDS: list[JSON] = [
    {"measures": ["max:distance"]}, {"measures": ["min:notes"]},
    {"group_by": ["origin"], "having": {"max:distance__gt": 1}}, {"group_by": ["origin"], "order_by": ["min:distance"]},
]  # fmt: skip


def test_reading_the_value_of_one_row_as_the_least_or_greatest(flights: ModelRights) -> None:
    message = "min and max show values of single rows, and groups of fewer than 3 rows are hidden here."

    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        assert [asked for asked in ENDS if error(flights, **asked)["message"] != message] == []


def test_a_model_has_a_smallest_group_of_its_own(flights: ModelRights, declared: Declared) -> None:
    declared.model(Flight, min_group_rows=5)
    declared.model(Airport, min_group_rows=1)
    root = User.objects.get()

    with override_settings(MCP={"MIN_GROUP_ROWS": 2}):
        assert rows(rights_on(Flight, root), group_by=["status"]) == [["on_time", 10]]
        assert len(rows(rights_on(Airport, root), group_by=["name"])) == 4


def test_a_smallest_group_that_cannot_be_told_shows_nothing(
    flights: ModelRights, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(ModelMCP):
        def get_min_group_rows(self, request: Any) -> int:
            raise RuntimeError

    declared.model(Flight, Failing)

    assert rows(rights_on(Flight, User.objects.get())) == []
    assert "get_min_group_rows failed" in caplog.text


THROUGH = [
    {"group_by": ["origin__altitude"]},
    {"group_by": ["origin__name"], "measures": ["avg:distance"]},
    {"group_by": ["status"], "measures": ["avg:origin__altitude"]},
    {"group_by": ["status"], "measures": ["avg:diff:origin__altitude-distance"]},
    {"group_by": ["status"], "having": {"sum:origin__altitude__gt": 0}},
    {"group_by": ["status"], "order_by": ["-sum:origin__altitude"]},
    {"group_by": ["status"], "filter": {"origin__altitude": 10}},
    {"group_by": ["status"], "filter": {"any": [{"origin": {"altitude": 10}}, {"not": {"origin__name": "x"}}]}},
    {"group_by": ["status"], "conditions": {"low": {"origin__altitude__lt": 99}}, "measures": ["count", "count@low"]},
    {"group_by": ["status"], "search": "JFK"},
]


def test_asking_for_small_groups_of_a_model_through_another_one(flights: ModelRights, declared: Declared) -> None:
    """Flights are shown one by one, and airports are not: their values would be read from the groups of flights."""
    declared.model(Flight, min_group_rows=1, fields="__all__", search_fields=["number", "origin__name"])
    declared.model(Airport, min_group_rows=100, fields="__all__")
    rights = rights_on(Flight, User.objects.get())

    for asked in THROUGH:
        table = aggregate(rights, AggregateQuery(**asked))
        assert (table.rows, table.notes) == ([], [WITHHELD.format(100)]), asked


POINTED_TO: list[JSON] = [
    {"departures__number": 1001}, {"departures": {"number": 1001}}, {"departures__count__gte": 1},
    {"departures__isnull": False}, {"not": {"departures__status": "cancelled"}},
]  # fmt: skip


def test_isolating_a_row_of_a_model_by_the_rows_that_it_points_to(flights: ModelRights, declared: Declared) -> None:
    declared.model(Flight, min_group_rows=100, fields="__all__")
    declared.model(Airport, min_group_rows=1, fields="__all__")
    airports = rights_on(Airport, User.objects.get())

    for asked in POINTED_TO:
        table = aggregate(airports, AggregateQuery(filter=asked))
        assert (table.rows, table.notes) == ([], [WITHHELD.format(100)]), asked


SINGLE: list[JSON] = [
    {"measures": ["max:origin__altitude"]}, {"measures": ["median:origin__altitude"]},
    {"measures": ["max:distance"], "filter": {"origin__altitude": 10}},
]  # fmt: skip


def test_reading_a_single_value_through_another_model(flights: ModelRights, declared: Declared) -> None:
    declared.model(Airport, min_group_rows=3, fields="__all__")
    rights = rights_on(Flight, User.objects.get())

    for asked in SINGLE:
        message = error(rights, **asked)["message"]
        assert "values of single rows, and groups of fewer than 3 rows are hidden here" in message, asked


def test_a_key_of_a_model_by_itself_is_a_value_of_its_own_row(flights: ModelRights, declared: Declared) -> None:
    declared.model(Airport, min_group_rows=100, fields="__all__")

    found = rows(rights_on(Flight, User.objects.get()), group_by=["origin"], filter={"origin__in": ["JFK", "EWR"]})

    assert found == [["EWR", 4], ["JFK", 4]]
