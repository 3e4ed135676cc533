"""Measures, groups, their order and their limits."""

from __future__ import annotations

import datetime

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.aggregates.aggregates import AggregateQuery, Table, aggregate
from mcp_django.bridge.resources.fields.date_parts import PARTS
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.protocol.jsonrpc import encode
from tests.bridge.resources.aggregates.conftest import JSON, MOMENT, error, rows
from tests.shop.models import Book, Product
from tests.support.asking import DirectPeer, errors_of, rights_on
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database


# Measures and groups.


def test_without_groups_there_is_one_row_of_totals(flights: ModelRights) -> None:
    assert aggregate(flights, AggregateQuery()) == Table(["count"], [[12]], [])


def test_totals_of_no_rows(flights: ModelRights) -> None:
    nothing = {"id__in": []}

    assert rows(flights, filter=nothing, measures=["count", "sum:distance", "count:distance"]) == [[0, None, 0]]
    assert rows(flights, filter=nothing, group_by=["status"]) == []


MEASURES = [
    ("count", 3), ("count:price", 2), ("count_distinct:active", 2), ("count_distinct:sku", 3),
    ("sum:stock", 7), ("avg:stock", 2.3333), ("min:stock", 0), ("max:stock", 4),
    ("stddev:stock", 1.6997),
    ("sum:price", "30.10"), ("avg:price", "15.050000"), ("min:price", "10.10"), ("max:price", "20.00"),
    ("stddev:price", 4.95), ("sum:weight", 7.75), ("avg:weight", 3.875), ("stddev:weight", 3.375),
    ("min:weight", 0.5), ("min:launched", "2013-01-31"), ("max:launched", "2014-06-01"), ("min:opens", "08:30:00"),
    ("sum:lead_time", "P1DT02H00M00S"), ("avg:lead_time", "P0DT13H00M00S"), ("max:lead_time", "P1DT00H00M00S"),
    ("min:name", "chair"), ("max:name", "void"),
]  # fmt: skip


def test_measures(products: ModelRights) -> None:
    assert {measure: rows(products, measures=[measure]) for measure, _ in MEASURES} == {
        measure: [[pytest.approx(value, rel=1e-12) if isinstance(value, float) else value]]
        for measure, value in MEASURES
    }


def test_measures_of_one_group_have_the_same_form(products: ModelRights) -> None:
    measures = ["sum:price", "avg:price", "max:price", "stddev:price", "sum:lead_time", "avg:stock"]

    assert rows(products, group_by=["active"], measures=measures) == [
        [False, None, None, None, None, None, 0.0],
        [True, "30.10", "15.050000", "20.00", 4.95, "P1DT02H00M00S", 3.5],
    ]


GROUPS = [
    ("price", ["10.10", "20.00", None]), ("weight", [0.5, 7.25, None]), ("stock", [0, 3, 4]),
    ("launched", ["2013-01-31", "2014-06-01", None]), ("opens", ["08:30:00", "09:00:00", None]),
    ("lead_time", ["P0DT02H00M00S", "P1DT00H00M00S", None]), ("name", ["chair", "lamp", "void"]),
    ("launched__year", [2013, 2014, None]), ("launched__month", [1, 6, None]), ("launched__quarter", [1, 2, None]),
    ("launched__day", [1, 31, None]), ("launched__week_day", [1, 5, None]), ("opens__hour", [8, 9, None]),
    ("opens__minute", [0, 30, None]), ("launched__trunc_month", ["2013-01-01", "2014-06-01", None]),
    ("launched__trunc_week", ["2013-01-28", "2014-05-26", None]),
    ("launched__trunc_quarter", ["2013-01-01", "2014-04-01", None]),
]  # fmt: skip


def test_groups_of_products(products: ModelRights) -> None:
    assert {group: rows(products, group_by=[group]) for group, _ in GROUPS} == {
        group: [[value, 1] for value in expected] for group, expected in GROUPS
    }


OF_MOMENT = [
    ("year", 2012), ("quarter", 4), ("month", 12), ("week", 1), ("day", 31), ("week_day", 2), ("iso_year", 2013),
    ("iso_week_day", 1), ("hour", 22), ("minute", 30), ("date", "2012-12-31"), ("trunc_year", "2012-01-01"),
    ("trunc_quarter", "2012-10-01"), ("trunc_month", "2012-12-01"), ("trunc_week", "2012-12-31"),
    ("trunc_hour", "2012-12-31T22:00:00-05:00"),
]  # fmt: skip


def test_parts_of_a_moment_are_those_of_the_projects_time_zone(flights: ModelRights) -> None:
    Flight.objects.filter(number__lt=1003).update(departs_at=MOMENT + datetime.timedelta(seconds=59))
    Flight.objects.filter(number__lt=1002).update(departs_at=MOMENT)

    found = {part: rows(flights, group_by=[f"departs_at__{part}"], filter={"number__lt": 1003}) for part in PARTS}

    assert found == {part: [[expected, 3]] for part, expected in OF_MOMENT}


def test_hours_of_the_same_name_stay_two_where_the_clock_is_put_back(flights: ModelRights) -> None:
    for key, hour in ((1, 5), (2, 6)):
        moment = datetime.datetime(2013, 11, 3, hour, 30, tzinfo=datetime.UTC)
        Flight.objects.filter(pk=key).update(departs_at=moment)

    found = {"id__lte": 2}

    assert rows(flights, group_by=["departs_at__hour"], filter=found) == [[1, 2]]
    assert rows(flights, group_by=["departs_at__trunc_hour"], filter=found) == [
        ["2013-11-03T01:00:00-04:00", 1],
        ["2013-11-03T01:00:00-05:00", 1],
    ]


def test_sums_beyond_what_javascript_counts_are_text(products: ModelRights) -> None:
    Product.objects.filter(name="lamp").update(stock=2**53)

    assert rows(products, measures=["sum:stock"]) == [[str(2**53 + 4)]]


def test_a_sum_that_the_database_cannot_hold_is_told_in_words(products: ModelRights) -> None:
    Product.objects.update(stock=2**62, weight=1.7e308)

    # Each database has another end: SQLite that of its integers, PostgreSQL that of floats.
    if connection.vendor != "sqlite":
        assert rows(products, measures=["sum:stock"]) == [[str(3 * 2**62)]]
    if connection.vendor != "mysql":
        found = error(products, measures=["sum:stock" if connection.vendor == "sqlite" else "sum:weight"])
        assert found["field"] == "measures"
        assert found["message"] == "the values are too large for the database to compute with. Narrow the filter."


def test_a_child_by_inheritance_is_grouped_by_columns_of_its_parent(root: User) -> None:
    for number in range(3):
        Book.objects.create(name=f"book {number % 2}", author="someone", stock=number)

    assert rows(rights_on(Book, root), group_by=["name", "author"], measures=["count", "sum:stock"]) == [
        ["book 0", "someone", 2, 2],
        ["book 1", "someone", 1, 1],
    ]


def test_search_and_filter_say_which_rows_count(flights: ModelRights) -> None:
    assert rows(flights, search="n14228 united") == [[4]]
    assert rows(flights, search="united", filter={"plane__seats__gte": 100}, group_by=["origin"]) == [
        ["EWR", 2],
        ["LGA", 2],
    ]


# Order, having, limit.


def test_an_order_by_a_measure_that_is_not_shown_and_groups_for_ties(flights: ModelRights) -> None:
    found = rows(flights, group_by=["origin"], measures=["count"], order_by=["-count", "-max:distance"])

    assert found == [["LGA", 4], ["EWR", 4], ["JFK", 4]]
    assert [row[0] for row in rows(flights, group_by=["origin"], order_by=["-count"])] == ["EWR", "JFK", "LGA"]


def test_nulls_come_last_on_every_database(flights: ModelRights) -> None:
    for sign in ("-", ""):
        by_group = rows(flights, group_by=["plane"], order_by=[f"{sign}plane"])
        measure = "max:plane__seats"
        by_measure = rows(flights, group_by=["origin"], measures=[measure], order_by=[f"{sign}{measure}"])
        assert by_group == [["N14228", 8], [None, 4]]
        assert by_measure == [["EWR", 149], ["LGA", 149], ["JFK", None]]


HAVING: list[tuple[JSON, list[str]]] = [
    ({"count": 4}, ["LGA"]), ({"count__exact": "4"}, ["LGA"]), ({"count__gt": 3, "count__lt": 5}, ["LGA"]),
    ({"count__lte": 1}, []), ({"count__gte": 3}, ["EWR", "JFK", "LGA"]),
    ({"avg:distance__gt": 1405.5}, ["EWR", "LGA"]), ({"avg:distance": 1406}, ["EWR"]),
    ({"sum:departure_delay__lt": 100, "count__gt": 0}, ["EWR", "JFK", "LGA"]),
    ({"max:plane__seats": None}, ["JFK"]), ({"max:plane__seats__isnull": False}, ["EWR", "LGA"]),
    ({"min:departs_at__gt": "2013-01-01T10:30:00Z"}, ["EWR", "LGA"]), ({"max:tailnum": "N14228"}, ["EWR", "LGA"]),
    ({"count__gt": 2**60}, []), ({"sum:distance__gt": 2**62}, []),
]  # fmt: skip


def test_having(flights: ModelRights) -> None:
    for having, expected in HAVING:
        found = rows(flights, group_by=["origin"], having=having, filter={"status": "on_time"})
        assert [row[0] for row in found] == expected, having


OF_KINDS: list[tuple[JSON, list[bool]]] = [
    ({"sum:price__gt": "30.09"}, [True]), ({"sum:price__gt": "1e30"}, []), ({"avg:price__lt": 15.06}, [True]),
    ({"avg:price__gt": "15.0499999"}, [True]), ({"sum:price": "30.1"}, [True]),
    ({"avg:lead_time__gt": "PT12H"}, [True]),
    ({"max:launched__gte": "2014-06-01"}, [True]), ({"min:opens__lt": "08:31:00"}, [True]),
    ({"stddev:weight__gt": 3}, [True]), ({"sum:stock__lte": 0}, [False]),
]  # fmt: skip


def test_having_of_every_kind(products: ModelRights) -> None:
    for having, expected in OF_KINDS:
        assert [row[0] for row in rows(products, group_by=["active"], having=having)] == expected, having


def test_more_groups_are_told_of_where_no_limit_was_asked_for(flights: ModelRights) -> None:
    asked = aggregate(flights, AggregateQuery(group_by=["number"], limit=2))
    with override_settings(MCP={"MAX_GROUPS": 3}):
        bounded = aggregate(flights, AggregateQuery(group_by=["number"]))
    whole = aggregate(flights, AggregateQuery(group_by=["number"], limit=12))

    assert asked.rows == [[1000, 1], [1001, 1]]
    assert asked.notes == []
    assert len(bounded.rows) == 3
    assert bounded.notes == ["There are more groups than these 3. Narrow the query with filter or having."]
    assert (len(whole.rows), whole.notes) == (12, [])


def test_long_texts_are_cut_and_say_so(flights: ModelRights) -> None:
    for flight in Flight.objects.all():
        Flight.objects.filter(pk=flight.pk).update(notes=f"{flight.number}{'x' * 900}")

    with override_settings(MCP={"MAX_TEXT": 100}):
        texts = aggregate(flights, AggregateQuery(group_by=["notes"], limit=12))

    assert texts.rows[0] == [f"1000{'x' * 96}…", 1]
    assert texts.notes == ["Values of notes ending in … were cut at 100 characters."]


# The tool.


def test_the_tool_answers_text_and_structured_content_alike(flights: ModelRights) -> None:
    peer = DirectPeer(User.objects.get())

    message = peer.request(
        MODERN, "tools/call",
        {
            "name": "aggregate_records",
            "arguments": {
                "model": "flights.flight", "group_by": ["carrier__name", "departs_at__month"],
                "measures": ["count", "avg:departure_delay"], "filter": {"status": "on_time"},
                "having": {"count__gte": 5}, "order_by": ["-avg:departure_delay"], "limit": 1,
            },
        },
    )  # fmt: skip

    expected = {
        "columns": ["carrier__name", "departs_at__month", "count", "avg:departure_delay"],
        "rows": [["American", 1, 5, 11.2]],
    }
    result = message["result"]
    expected["next_cursor"] = result["structuredContent"]["next_cursor"]
    assert result["structuredContent"] == expected
    assert result["content"] == [{"type": "text", "text": encode(expected).decode()}]
    assert result["isError"] is False


def test_the_tool_answers_a_table_as_csv(flights: ModelRights) -> None:
    result = DirectPeer(User.objects.get()).call(
        "aggregate_records", model="flights.flight", group_by=["plane"], format="csv"
    )

    assert result["content"] == [{"type": "text", "text": "plane,count\r\nN14228,8\r\n,4\r\n"}]
    assert result["structuredContent"] == {"columns": ["plane", "count"], "row_count": 2, "rows_in": "text"}


WRONG: list[tuple[JSON, str]] = [
    ({"group_by": ["status"] * 6}, "group_by"), ({"measures": ["count"] * 11}, "measures"),
    ({"measures": ["count"] * 100_000}, "measures"), ({"having": {f"count__{i}": 1 for i in range(11)}}, "having"),
    ({"order_by": ["count"] * 6}, "order_by"), ({"limit": 201}, "limit"), ({"limit": 0}, "limit"),
    ({"group_by": [{"status": 1}]}, "group_by.0"), ({"group_by": "status"}, "group_by"), ({"having": [1]}, "having"),
    ({"measures": [None]}, "measures.0"), ({"format": "xml"}, "format"), ({"distinct": True}, "distinct"),
    ({"model": "auth.nothing"}, "model"), ({"search": "x" * 201}, "search"),
]  # fmt: skip


def test_arguments_that_are_too_many_or_of_another_type(flights: ModelRights) -> None:
    peer = DirectPeer(User.objects.get())

    for asked, field in WRONG:
        result = peer.call("aggregate_records", **{"model": "flights.flight", **asked})
        assert errors_of(result)[0]["field"] == field
