"""Measures of the rows that meet a condition, and what they must not reveal."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import User
from django.test import override_settings

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, Table, aggregate
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import ModelRights
from tests.bridge.resources.aggregates.conftest import JSON, error, rows, scoped
from tests.support.asking import DirectPeer, rights_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

CANCELLED: JSON = {"cancelled": {"status": "cancelled"}}


def test_counts_shares_and_means_of_a_condition(flights: ModelRights) -> None:
    measures = ["count", "count@cancelled", "share@cancelled", "avg@cancelled:distance", "max@cancelled:number"]

    table = aggregate(flights, AggregateQuery(group_by=["origin"], measures=measures, conditions=CANCELLED))

    assert table == Table(
        ["origin", *measures],
        [["EWR", 4, 1, 0.25, 1404.0, 1004], ["JFK", 4, 1, 0.25, 1409.0, 1009], ["LGA", 4, 0, 0.0, None, None]],
        [],
    )


def test_a_share_of_no_rows_is_null(flights: ModelRights) -> None:
    assert rows(flights, filter={"id__in": []}, measures=["share@cancelled"], conditions=CANCELLED) == [[None]]


def test_having_and_order_name_measures_of_a_condition(flights: ModelRights) -> None:
    having = {"share@cancelled__gt": 0.2, "count@cancelled": 1}
    found = rows(
        flights, group_by=["origin"], measures=["count@cancelled"], conditions=CANCELLED, having=having,
        order_by=["-avg@cancelled:distance"],
    )  # fmt: skip

    assert found == [["JFK", 1], ["EWR", 1]]


def test_a_condition_is_a_filter_with_relations_any_and_not(flights: ModelRights) -> None:
    conditions = {
        "united": {"carrier__name": "United"},
        "other": {"not": {"any": [{"carrier__name": "United"}, {"status": "cancelled"}]}},
        "busy": {"origin__departures__count__gte": 4},
    }

    assert rows(flights, measures=["count@united", "count@other", "share@busy"], conditions=conditions) == [[6, 5, 1.0]]


WRONG: list[tuple[JSON, str, str]] = [
    ({"measures": ["share@late"]}, "measures",
     """no condition 'late'. Define it: "conditions": {"late": {"number__gt": 60}}"""),
    ({"measures": ["share@cancled"], "conditions": CANCELLED}, "measures",
     "no condition 'cancled'. Did you mean cancelled?"),
    ({"measures": ["share"], "conditions": CANCELLED}, "measures", "no measure 'share'. Allowed: count, count:field, "),
    ({"measures": ["share@cancelled:number"], "conditions": CANCELLED}, "measures", "no measure 'share@cancelled:num"),
    ({"measures": ["avg@cancelled"], "conditions": CANCELLED}, "measures", "no measure 'avg@cancelled'."),
    ({"group_by": ["origin"], "order_by": ["-count@late"]}, "order_by", "no condition 'late'."),
    ({"group_by": ["origin"], "having": {"share@late__gt": 1}}, "having.share@late__gt", "no condition 'late'."),
    ({"conditions": {"late": {"statsu": "x"}}}, "conditions.late.statsu", "no field 'statsu'. Did you mean status?"),
    ({"conditions": {"late": {}}}, "conditions.late", "must not be empty"),
    ({"conditions": {"late": []}}, "conditions.late", "must be an object, as "),
    *(({"conditions": {name: {"status": "x"}}}, f"conditions.{name}", "a name has up to 30 small letters, digits ")
      for name in ("", "Late", "1st", "a b", "a__gt", "x" * 31, "näher", "late\n")),
    ({"conditions": {f"c{number}": {"status": "x"} for number in range(11)}}, "conditions", "at most 10."),
]  # fmt: skip


def test_conditions_that_are_wrong(flights: ModelRights) -> None:
    for asked, field, message in WRONG:
        found = error(flights, **asked)
        assert (found["field"], found["message"][: len(message)]) == (field, message)


def test_all_mistakes_of_filter_and_conditions_are_told_at_once(flights: ModelRights) -> None:
    query = AggregateQuery(filter={"statsu": 1}, conditions={"late": {"number": "x"}, "other": {"nothing": 1}})

    with pytest.raises(InvalidQuery) as raised:
        aggregate(flights, query)

    fields = [wrong["field"] for wrong in raised.value.errors]
    assert fields == ["filter.statsu", "conditions.late.number", "conditions.other.nothing"]


def test_more_conditions_or_relations_than_one_query_may_have(flights: ModelRights) -> None:
    many = {f"c{number}": {"all": [{"number": 1}] * 4} for number in range(10)}
    related = {f"c{number}": {"carrier__name": "x"} for number in range(10)}

    assert error(flights, filter={"number": 1}, conditions=many)["message"] == "more than 50 conditions."
    assert len(rows(flights, conditions=related)) == 1
    found = error(flights, filter={"carrier__name": "x"}, conditions=related)
    assert found["message"] == "more than 10 conditions on related rows."


def test_a_condition_that_no_row_can_meet(flights: ModelRights) -> None:
    for field in ("distance", "departs_at", "status", "plane", "plane__seats"):
        functions = ["count", "count_distinct"] + ["max"] * (field != "plane")
        functions += ["sum", "avg", "stddev", "median"] * (field in ("distance", "plane__seats"))
        measures = [f"{function}@none:{field}" for function in functions]
        found = rows(flights, measures=measures, conditions={"none": {"id__in": []}})
        assert found == [[0, 0, *[None] * (len(functions) - 2)]], field


def test_the_tool_takes_conditions(flights: ModelRights) -> None:
    result = DirectPeer(User.objects.get()).call(
        "aggregate_records", model="flights.flight", measures=["share@cancelled"], conditions=CANCELLED
    )

    assert result["structuredContent"]["rows"] == [[pytest.approx(1 / 6, abs=1e-6)]]


# What they must not reveal.


def test_finding_a_hidden_related_row_by_a_condition(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())
    conditions = {"united": {"carrier__name": "United"}, "seats": {"plane__seats__gte": 0}}
    measures = ["count@united", "count@seats", "share@seats", "max@united:plane__seats"]

    assert rows(rights, measures=measures, conditions=conditions) == [[0, 0, 0.0, None]]


def test_finding_the_key_of_a_hidden_related_row_by_a_condition(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())

    hidden, absent = (error(rights, conditions={"x": {"carrier": key}}) for key in ("UA", "ZZ"))

    assert hidden["message"] == "no visible flights.airline has the key 'UA'."
    assert absent["message"] == "no visible flights.airline has the key 'ZZ'."


def test_guessing_a_hidden_field_by_a_condition_a_group_or_a_measure(products: ModelRights) -> None:
    def answers(name: str) -> str:
        asked: list[JSON] = [
            {"measures": ["count@x"], "conditions": {"x": {f"{name}__startswith": "sk-"}}},
            {"measures": ["share@x"], "conditions": {"x": {"not": {name: "sk-secret"}}}},
            {"measures": [f"count@x:{name}"], "conditions": {"x": {"active": True}}},
            {"measures": [f"median:{name}"]}, {"measures": [f"avg:diff:stock-{name}"]},
            {"group_by": [f"{name}__bucket_5"]}, {"group_by": [name]}, {"measures": [f"max:{name}"]},
            {"filter": {name: "x"}}, {"group_by": ["active"], "having": {f"max:{name}": "x"}},
            {"group_by": ["active"], "order_by": [f"max:{name}"]},
        ]  # fmt: skip
        return json.dumps([error(products, **question) for question in asked]).replace(name, "x")

    assert answers("api_key") == answers("zzzzzzz")


def test_comparing_by_a_condition_what_a_filter_may_not_compare(flights: ModelRights, declared: Declared) -> None:
    declared.model(Flight, filter_fields=["status"])

    found = error(rights_on(Flight, User.objects.get()), conditions={"x": {"distance__gt": 1}})

    assert found["message"].startswith("no field 'distance'.")


ISOLATING: list[JSON] = [
    {"id": 1}, {"id": 999}, {"id__gt": 2}, {"id__gte": 1}, {"not": {"id": 1}}, {"id__in": []}, {"id__lte": 12},
]  # fmt: skip


def test_isolating_a_row_by_a_condition_or_by_its_rest(flights: ModelRights) -> None:
    """One row that matches, one that does not, none and all are answered alike."""
    functions = ("count", "count_distinct", "sum", "avg")
    measures = ["count@x", "share@x", *(f"{function}@x:distance" for function in functions)]

    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        for condition in ISOLATING:
            totals = rows(flights, measures=["count", *measures], conditions={"x": condition})
            assert totals == [[12, *[None] * 6]], condition


def test_a_condition_that_enough_rows_meet_and_enough_do_not(flights: ModelRights) -> None:
    measures = ["count@x", "share@x", "sum@x:number"]

    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        found = rows(flights, measures=measures, conditions={"x": {"id__lte": 3}})

    assert found == [[3, 0.25, 3003]]


def test_isolating_the_one_value_that_does_not_meet_a_condition(flights: ModelRights) -> None:
    """The sum of all less that of the condition would be the value of one row."""
    Flight.objects.filter(pk__gt=7).update(arrival_delay=None)
    Flight.objects.filter(pk__lte=7).update(arrival_delay=5)
    Flight.objects.filter(pk=7).update(arrival_delay=77)

    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        found = rows(
            flights, measures=["count@x", "sum:arrival_delay", "sum@x:arrival_delay"], conditions={"x": {"id__lte": 6}}
        )

    assert found == [[6, 107, None]]


def test_finding_a_withheld_share_by_having_or_order(flights: ModelRights) -> None:
    conditions = {"x": {"id": 1}}
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        found = [
            rows(flights, group_by=["origin"], conditions=conditions, having={having: value})
            for having, value in (("count@x", 1), ("count@x", 0), ("share@x__gt", 0), ("sum@x:number__gte", 0))
        ]
        orders = [
            [row[0] for row in rows(flights, group_by=["origin"], conditions=conditions, order_by=[order])]
            for order in ("count@x", "-count@x", "-share@x", "avg@x:distance")
        ]

    assert found == [[]] * 4
    assert orders == [["EWR", "JFK", "LGA"]] * 4


PERCENTILES: list[JSON] = [
    {"measures": ["median:distance"]}, {"measures": ["p1:distance"]}, {"measures": ["p99@x:distance"]},
    {"measures": ["median:diff:arrival_delay-departure_delay"]},
    {"group_by": ["origin"], "having": {"p50:distance__gt": 1}},
    {"group_by": ["origin"], "order_by": ["-p99:distance"]},
]  # fmt: skip


def test_reading_the_value_of_one_row_as_a_percentile(flights: ModelRights) -> None:
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        for asked in PERCENTILES:
            refused = error(flights, conditions={"x": {"status": "on_time"}}, **asked)
            assert refused["message"] == (
                "median and percentiles show values of single rows, and groups of fewer than 3 rows are hidden here."
            ), asked
