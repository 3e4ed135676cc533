"""Aggregates: every group and every measure against plain Python over the visible rows, and attempts to learn more."""

from __future__ import annotations

import datetime
import json
import random
import statistics
from collections import defaultdict
from collections.abc import Callable
from decimal import Decimal
from functools import cmp_to_key
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection
from django.db.models import Count
from django.test import override_settings
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from demo_project.flights.admin import JFK_OPERATIONS
from demo_project.flights.models import Airline, Airport, Disruption, Flight, Plane
from mcp_django import ModelMCP
from mcp_django.protocol.jsonrpc import encode
from mcp_django.resources.aggregates import AggregateQuery, Table, aggregate
from mcp_django.resources.errors import InvalidQuery
from mcp_django.resources.measures import PARTS
from mcp_django.resources.policy import ModelRights
from tests.shop.models import Book, Product, Tag
from tests.support.asking import DirectPeer, errors_of, rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

JSON = dict[str, Any]

WITHHELD = (
    "Groups of fewer than {} rows are left out, and a measure is null where fewer rows have a value (MIN_GROUP_ROWS)."
)


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


@pytest.fixture
def flights(root: User) -> ModelRights:
    make_flights(12)
    return rights_on(Flight, root)


@pytest.fixture
def products(root: User) -> ModelRights:
    Product.objects.create(
        name="lamp", price=Decimal("10.10"), weight=0.5, stock=3, launched=datetime.date(2013, 1, 31),
        opens=datetime.time(8, 30), lead_time=datetime.timedelta(days=1),
    )  # fmt: skip
    Product.objects.create(
        name="chair", price=Decimal("20.00"), weight=7.25, stock=4, launched=datetime.date(2014, 6, 1),
        opens=datetime.time(9, 0), lead_time=datetime.timedelta(hours=2),
    )  # fmt: skip
    Product.objects.create(name="void", active=False)
    return rights_on(Product, root)


def rows(rights: ModelRights, **asked: Any) -> list[list[Any]]:
    return aggregate(rights, AggregateQuery(**asked)).rows


def error(rights: ModelRights, **asked: Any) -> JSON:
    """The one thing that is wrong with a question."""
    with pytest.raises(InvalidQuery) as raised:
        aggregate(rights, AggregateQuery(**asked))
    [found] = raised.value.errors
    return dict(found)


# Measures and groups.


def test_without_groups_there_is_one_row_of_totals(flights: ModelRights) -> None:
    assert aggregate(flights, AggregateQuery()) == Table(["count"], [[12]], [])


def test_totals_of_no_rows(flights: ModelRights) -> None:
    nothing = {"id__in": []}

    assert rows(flights, filter=nothing, measures=["count", "sum:distance", "count:distance"]) == [[0, None, 0]]
    assert rows(flights, filter=nothing, group_by=["status"]) == []


@pytest.mark.parametrize(("measure", "expected"), [
    ("count", 3), ("count:price", 2), ("count_distinct:active", 2), ("count_distinct:sku", 3),
    ("sum:stock", 7), ("avg:stock", 7 / 3), ("min:stock", 0), ("max:stock", 4),
    ("stddev:stock", statistics.pstdev([3, 4, 0])),
    ("sum:price", "30.10"), ("avg:price", "15.050000"), ("min:price", "10.10"), ("max:price", "20.00"),
    ("stddev:price", 4.95), ("sum:weight", 7.75), ("avg:weight", 3.875), ("stddev:weight", 3.375),
    ("min:weight", 0.5), ("min:launched", "2013-01-31"), ("max:launched", "2014-06-01"), ("min:opens", "08:30:00"),
    ("sum:lead_time", "P1DT02H00M00S"), ("avg:lead_time", "P0DT13H00M00S"), ("max:lead_time", "P1DT00H00M00S"),
    ("min:name", "chair"), ("max:name", "void"),
])  # fmt: skip
def test_measures(products: ModelRights, measure: str, expected: Any) -> None:
    expected = pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected

    assert rows(products, measures=[measure]) == [[expected]]


def test_measures_of_one_group_have_the_same_form(products: ModelRights) -> None:
    measures = ["sum:price", "avg:price", "max:price", "stddev:price", "sum:lead_time", "avg:stock"]

    assert rows(products, group_by=["active"], measures=measures) == [
        [False, None, None, None, None, None, 0.0],
        [True, "30.10", "15.050000", "20.00", 4.95, "P1DT02H00M00S", 3.5],
    ]


@pytest.mark.parametrize(("group", "expected"), [
    ("price", ["10.10", "20.00", None]), ("weight", [0.5, 7.25, None]), ("stock", [0, 3, 4]),
    ("launched", ["2013-01-31", "2014-06-01", None]), ("opens", ["08:30:00", "09:00:00", None]),
    ("lead_time", ["P0DT02H00M00S", "P1DT00H00M00S", None]), ("name", ["chair", "lamp", "void"]),
    ("launched__year", [2013, 2014, None]), ("launched__month", [1, 6, None]), ("launched__quarter", [1, 2, None]),
    ("launched__day", [1, 31, None]), ("launched__week_day", [1, 5, None]), ("opens__hour", [8, 9, None]),
    ("opens__minute", [0, 30, None]), ("launched__trunc_month", ["2013-01-01", "2014-06-01", None]),
    ("launched__trunc_week", ["2013-01-28", "2014-05-26", None]),
    ("launched__trunc_quarter", ["2013-01-01", "2014-04-01", None]),
])  # fmt: skip
def test_groups_of_products(products: ModelRights, group: str, expected: list[Any]) -> None:
    assert rows(products, group_by=[group]) == [[value, 1] for value in expected]


#: A moment that is another year, month, day and week in New York: 2012-12-31 22:30 there.
MOMENT = datetime.datetime(2013, 1, 1, 3, 30, tzinfo=datetime.UTC)


@pytest.mark.parametrize(("part", "expected"), [
    ("year", 2012), ("quarter", 4), ("month", 12), ("week", 1), ("day", 31), ("week_day", 2), ("iso_year", 2013),
    ("iso_week_day", 1), ("hour", 22), ("minute", 30), ("date", "2012-12-31"), ("trunc_year", "2012-01-01"),
    ("trunc_quarter", "2012-10-01"), ("trunc_month", "2012-12-01"), ("trunc_week", "2012-12-31"),
    ("trunc_hour", "2013-01-01T03:00:00Z"),
])  # fmt: skip
def test_parts_of_a_moment_are_those_of_the_projects_time_zone(flights: ModelRights, part: str, expected: Any) -> None:
    Flight.objects.filter(number__lt=1003).update(departs_at=MOMENT + datetime.timedelta(seconds=59))
    Flight.objects.filter(number__lt=1002).update(departs_at=MOMENT)

    assert rows(flights, group_by=[f"departs_at__{part}"], filter={"number__lt": 1003}) == [[expected, 3]]


def test_every_part_is_tested() -> None:
    marks = test_parts_of_a_moment_are_those_of_the_projects_time_zone.pytestmark  # type: ignore[attr-defined]

    assert [part for part, _ in marks[0].args[1]] == list(PARTS)


def test_hours_of_the_same_name_stay_two_where_the_clock_is_put_back(flights: ModelRights) -> None:
    for key, hour in ((1, 5), (2, 6)):
        moment = datetime.datetime(2013, 11, 3, hour, 30, tzinfo=datetime.UTC)
        Flight.objects.filter(pk=key).update(departs_at=moment)

    found = {"id__lte": 2}

    assert rows(flights, group_by=["departs_at__hour"], filter=found) == [[1, 2]]
    assert rows(flights, group_by=["departs_at__trunc_hour"], filter=found) == [
        ["2013-11-03T05:00:00Z", 1],
        ["2013-11-03T06:00:00Z", 1],
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


def test_the_order_is_that_of_the_groups(flights: ModelRights) -> None:
    assert rows(flights, group_by=["origin", "status"]) == [
        ["EWR", "cancelled", 1], ["EWR", "on_time", 3], ["JFK", "cancelled", 1], ["JFK", "on_time", 3],
        ["LGA", "on_time", 4],
    ]  # fmt: skip


def test_an_order_by_a_measure_that_is_not_shown_and_groups_for_ties(flights: ModelRights) -> None:
    found = rows(flights, group_by=["origin"], measures=["count"], order_by=["-count", "-max:distance"])

    assert found == [["LGA", 4], ["EWR", 4], ["JFK", 4]]
    assert [row[0] for row in rows(flights, group_by=["origin"], order_by=["-count"])] == ["EWR", "JFK", "LGA"]


@pytest.mark.parametrize("sign", ["", "-"])
def test_nulls_come_last_on_every_database(flights: ModelRights, sign: str) -> None:
    by_group = rows(flights, group_by=["plane"], order_by=[f"{sign}plane"])
    by_measure = rows(flights, group_by=["origin"], measures=["max:plane__seats"], order_by=[f"{sign}max:plane__seats"])

    assert by_group == [["N14228", 8], [None, 4]]
    assert by_measure == [["EWR", 149], ["LGA", 149], ["JFK", None]]


@pytest.mark.parametrize(("having", "expected"), [
    ({"count": 4}, ["LGA"]), ({"count__exact": "4"}, ["LGA"]), ({"count__gt": 3, "count__lt": 5}, ["LGA"]),
    ({"count__lte": 1}, []), ({"count__gte": 3}, ["EWR", "JFK", "LGA"]),
    ({"avg:distance__gt": 1405.5}, ["EWR", "LGA"]), ({"avg:distance": 1406}, ["EWR"]),
    ({"sum:departure_delay__lt": 100, "count__gt": 0}, ["EWR", "JFK", "LGA"]),
    ({"max:plane__seats": None}, ["JFK"]), ({"max:plane__seats__isnull": False}, ["EWR", "LGA"]),
    ({"min:departs_at__gt": "2013-01-01T10:30:00Z"}, ["EWR", "LGA"]), ({"max:tailnum": "N14228"}, ["EWR", "LGA"]),
    ({"count__gt": 2**60}, []), ({"sum:distance__gt": 2**62}, []),
])  # fmt: skip
def test_having(flights: ModelRights, having: JSON, expected: list[str]) -> None:
    found = rows(flights, group_by=["origin"], having=having, filter={"status": "on_time"})

    assert [row[0] for row in found] == expected


@pytest.mark.parametrize(("having", "expected"), [
    ({"sum:price__gt": "30.09"}, [True]), ({"sum:price__gt": "1e30"}, []), ({"avg:price__lt": 15.06}, [True]),
    ({"avg:price__gt": "15.0499999"}, [True]), ({"sum:price": "30.1"}, [True]),
    ({"avg:lead_time__gt": "PT12H"}, [True]),
    ({"max:launched__gte": "2014-06-01"}, [True]), ({"min:opens__lt": "08:31:00"}, [True]),
    ({"stddev:weight__gt": 3}, [True]), ({"sum:stock__lte": 0}, [False]),
])  # fmt: skip
def test_having_of_every_kind(products: ModelRights, having: JSON, expected: list[bool]) -> None:
    assert [row[0] for row in rows(products, group_by=["active"], having=having)] == expected


def test_more_groups_than_the_limit_are_told_of(flights: ModelRights) -> None:
    asked = aggregate(flights, AggregateQuery(group_by=["number"], limit=2))
    with override_settings(MCP={"MAX_GROUPS": 3}):
        bounded = aggregate(flights, AggregateQuery(group_by=["number"], limit=50))
    whole = aggregate(flights, AggregateQuery(group_by=["number"], limit=12))

    assert asked.rows == [[1000, 1], [1001, 1]]
    assert asked.notes == [
        "There are more groups than these 2. Ask for a higher limit, or narrow the query with filter or having."
    ]
    assert len(bounded.rows) == 3
    assert bounded.notes == ["There are more groups than these 3. Narrow the query with filter or having."]
    assert (len(whole.rows), whole.notes) == (12, [])


def test_long_texts_and_large_tables_are_cut_and_say_so(flights: ModelRights) -> None:
    for flight in Flight.objects.all():
        Flight.objects.filter(pk=flight.pk).update(notes=f"{flight.number}{'x' * 900}")

    with override_settings(MCP={"MAX_TEXT": 100}):
        texts = aggregate(flights, AggregateQuery(group_by=["notes"], limit=12))
    with override_settings(MCP={"MAX_RESULT_BYTES": 6_000}):
        table = aggregate(flights, AggregateQuery(group_by=["notes"]))

    assert texts.rows[0] == [f"1000{'x' * 96}…", 1]
    assert texts.notes == ["Values of notes ending in … were cut at 100 characters."]
    assert len(table.rows) == 2
    assert table.notes == ["The table was cut at 2 groups, since more would exceed 2000 bytes."]


# What cannot be asked.


@pytest.mark.parametrize(("asked", "field", "message"), [
    ({"group_by": ["statsu"]}, "group_by", "no field to group by 'statsu'. Did you mean status? Allowed: id, "),
    ({"group_by": ["carrier__nmae"]}, "group_by", "no field 'carrier__nmae'. Did you mean carrier__name?"),
    ({"group_by": ["departs_at__mnth"]}, "group_by", "no part of departs_at 'mnth'. Did you mean month? Allowed: "),
    ({"group_by": ["number__year"]}, "group_by", "no part of number 'year'. Allowed: none."),
    ({"group_by": ["disruptions__kind"]}, "group_by",
     "disruptions leads to many rows of flights.disruption, so that a row would count more than once. "
     "Ask flights.disruption itself, grouped by flight."),
    ({"measures": ["count:disruptions"]}, "measures", "disruptions leads to many rows of flights.disruption, "),
    ({"measures": ["avg"]}, "measures", "no measure 'avg'. Allowed: count, count:field, count_distinct:field, "),
    ({"measures": ["distance__avg"]}, "measures", "no measure 'distance__avg'. Allowed: count, count:field, "),
    ({"measures": ["avg:distence"]}, "measures", "no field for avg 'distence'. Did you mean distance? Allowed: "),
    ({"measures": ["sum:status"]}, "measures", "sum takes no text values. Allowed: number, "),
    ({"measures": ["avg:carrier"]}, "measures", "avg takes no keys. Allowed: number, "),
    ({"measures": ["sum:id"]}, "measures", "sum takes no keys. Allowed: number, "),
    ({"measures": ["sum:departs_at"]}, "measures", "sum takes no datetime values. Allowed: number, "),
    ({"having": {"count__gt": 1}}, "having", "is a condition on groups: give group_by too."),
    ({"group_by": ["status"], "having": {"count__gt": "many"}}, "having.count__gt", "must be an integer."),
    ({"group_by": ["status"], "having": {"cuont": 1}}, "having.cuont", "no measure 'cuont'. Did you mean count?"),
    ({"group_by": ["status"], "having": {"count__in": [1]}}, "having.count__in", "no measure 'count__in'."),
    ({"group_by": ["status"], "order_by": ["origin"]}, "order_by",
     "no column to order by 'origin'. Allowed: status, count."),
    ({"filter": {"statsu": "x"}}, "filter.statsu", "no field 'statsu'. Did you mean status?"),
])  # fmt: skip
def test_a_question_that_cannot_be_asked(flights: ModelRights, asked: JSON, field: str, message: str) -> None:
    found = error(flights, **asked)

    assert found["field"] == field
    assert found["message"].startswith(message)


@pytest.mark.parametrize("name", ["details", "manual", "blob"])
def test_values_that_cannot_be_compared_make_no_groups(products: ModelRights, name: str) -> None:
    group, measure = error(products, group_by=[name]), error(products, measures=[f"count_distinct:{name}"])

    assert (group["field"], measure["field"]) == ("group_by", "measures")
    assert group["message"].endswith(
        "Allowed: id, name, sku, price, weight, stock, launched, opens, lead_time, active."
    )


def test_a_many_to_many_field_is_no_group(root: User, declared: Declared) -> None:
    declared.model(Product, fields=["name", "tags"])

    assert error(rights_on(Product, root), group_by=["tags"])["message"] == (
        "tags leads to many rows of shop.tag, so that a row would count more than once. Name its rows in filter, one "
        "call after the other, or ask shop.tag itself."
    )


def test_a_model_whose_permission_is_asked_of_each_row_has_no_aggregates(
    flights: ModelRights, declared: Declared
) -> None:
    class Checked(ModelMCP):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.pk != 1

    declared.model(Flight, Checked)
    root = User.objects.get()

    assert error(rights_on(Flight, root)) == {
        "field": "model",
        "message": "the permission is checked for each row of flights.flight: use find_records and count its rows.",
        "received": "flights.flight",
    }


# Attacks.


def scoped(declared: Declared) -> None:
    """United, and the one plane, are hidden; flights are joined, counted and doubled by their queryset."""

    class Airlines(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(pk="UA")

    class Planes(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).exclude(pk="N14228")

    class Flights(ModelMCP):
        fields = (
            "carrier", "plane", "origin", "number", "departure_delay", "distance", "departs_at", "status",
        )  # fmt: skip

        def get_queryset(self, request: Any) -> Any:
            joined = super().get_queryset(request).exclude(origin="LGA").filter(origin__departures__isnull=False)
            return joined.annotate(reports=Count("disruptions"), departures=Count("origin__departures"))

    declared.model(Airline, Airlines)
    declared.model(Plane, Planes)
    declared.model(Flight, Flights)


def test_an_annotated_queryset_counts_no_row_twice(flights: ModelRights, declared: Declared) -> None:
    for flight in Flight.objects.filter(pk__lte=4):
        Disruption.objects.bulk_create([Disruption(flight=flight, kind="crew") for _ in range(3)])
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())

    assert rows(rights, group_by=["origin"], measures=["count", "sum:distance"]) == [["EWR", 4, 5622], ["JFK", 4, 5618]]
    assert rows(rights, measures=["count", "sum:number"]) == [[8, 8040]]


def test_a_distinct_queryset_counts_no_row_twice(root: User, declared: Declared) -> None:
    class Tagged(ModelMCP):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(tags__name__startswith="t").distinct()

    product = Product.objects.create(name="lamp", stock=2)
    product.tags.set([Tag.objects.create(name="t1"), Tag.objects.create(name="t2")])
    declared.model(Product, Tagged)

    assert rows(rights_on(Product, root), group_by=["name"], measures=["count", "sum:stock"]) == [["lamp", 1, 2]]


def test_reading_hidden_related_rows_by_groups_and_measures(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())
    measures = ["count", "count:carrier", "count_distinct:carrier__name", "max:carrier__name", "sum:plane__seats"]

    for name in ("carrier", "carrier__name"):
        [shown, hidden] = rows(rights, group_by=[name], measures=measures)
        assert shown[1:] == [4, 4, 1, "American", None]
        assert hidden == [None, 4, 0, 0, None, None]
    assert rows(rights, group_by=["plane__model"], measures=["count", "stddev:plane__seats"]) == [[None, 8, None]]


def test_finding_hidden_related_rows_by_having_or_order(flights: ModelRights, declared: Declared) -> None:
    scoped(declared)
    rights = rights_on(Flight, User.objects.get())

    assert rows(rights, group_by=["origin"], having={"max:plane__seats__gte": 0}) == []
    assert rows(rights, group_by=["origin"], having={"max:carrier": "UA"}) == []
    assert rows(rights, group_by=["origin"], order_by=["-max:plane__seats"]) == [["EWR", 4], ["JFK", 4]]


def test_the_jfk_team_counts_its_own_flights(flights: ModelRights) -> None:
    ops = make_staff("ops", *(f"flights.view_{name}" for name in ("flight", "airport", "airline", "plane")))
    ops.groups.add(Group.objects.create(name=JFK_OPERATIONS))
    rights = rights_on(Flight, ops)

    assert rows(rights) == [[4]]
    assert rows(rights, group_by=["origin__name", "carrier__name"]) == [["JFK", "American", 2], ["JFK", "United", 2]]
    assert rows(rights, filter={"origin": "EWR"}) == [[0]]


NAMES = [
    "api_key", "__class__", "_meta", "pk__in__x", "tags__api_key", "objects", "_state", "_mcp_g0", "_mcp_m0", "", "__",
    "price__exact", "launched__regex", "name\x00", 'name"; DROP TABLE shop_product; --', "name) FROM auth_user --",
    "details__a", "launched__year__gt", "Name", "nämé", "*", "1", "x" * 10_000,
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names_that_are_no_readable_field(products: ModelRights, name: str) -> None:
    by_group = error(products, group_by=[name])
    by_measure = error(products, measures=[f"max:{name}"])
    by_having = error(products, group_by=["active"], having={f"max:{name}__gt": "sk-"})
    by_order = error(products, group_by=["active"], order_by=[f"-max:{name}"])
    by_column = error(products, group_by=["active"], order_by=[name])

    fields = [found["field"] for found in (by_group, by_measure, by_having, by_order, by_column)]
    assert fields == ["group_by", "measures", f"having.{f'max:{name}__gt'[:100]}", "order_by", "order_by"]
    for found in (by_group, by_measure, by_having, by_order, by_column):
        assert "api_key" not in found["message"].replace(repr(name), "")
        assert len(found["message"]) < 500


def test_a_hidden_field_is_answered_as_one_that_is_not_there(products: ModelRights) -> None:
    def answers(name: str) -> str:
        asked: list[JSON] = [
            {"group_by": [name]}, {"measures": [f"max:{name}"]}, {"filter": {name: "x"}},
            {"group_by": ["active"], "having": {f"max:{name}": "x"}},
            {"group_by": ["active"], "order_by": [f"max:{name}"]},
        ]  # fmt: skip
        return json.dumps([error(products, **question) for question in asked]).replace(name, "x")

    assert answers("api_key") == answers("zzzzzzz")


def test_relations_deeper_than_allowed_and_to_models_that_may_not_be_viewed(flights: ModelRights) -> None:
    clerk = make_staff("clerk", "flights.view_flight", "flights.view_disruption")
    rights = rights_on(Disruption, clerk)

    assert error(rights, group_by=["flight__carrier__name"])["field"] == "group_by"
    assert error(rights, group_by=["flight__carrier"])["field"] == "group_by"
    assert error(rights, measures=["max:reported_by__password"])["field"] == "measures"
    with override_settings(MCP={"MAX_RELATION_DEPTH": 1}):
        found = error(rights_on(Disruption, User.objects.get(username="root")), group_by=["flight__carrier__name"])
    assert found["message"] == "follows relations more than 1 deep (MAX_RELATION_DEPTH)."


def test_more_joins_than_allowed(flights: ModelRights, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.resources.aggregates.MAX_RELATIONS", 2)
    fine = rows(flights, group_by=["carrier__name", "origin__name"], limit=1)
    refused = error(flights, group_by=["carrier__name", "origin__name"], measures=["max:plane__seats"])

    assert fine == [["American", "EWR", 2]]
    assert refused["message"] == "follow more than 2 relations."


# The smallest group.


def test_groups_smaller_than_the_smallest_are_left_out(flights: ModelRights) -> None:
    Flight.objects.filter(pk=1).update(status="delayed")

    with override_settings(MCP={"MIN_GROUP_ROWS": 2}):
        table = aggregate(flights, AggregateQuery(group_by=["status"], limit=2))

    assert table == Table(["status", "count"], [["cancelled", 2], ["on_time", 9]], [WITHHELD.format(2)])


@pytest.mark.parametrize("asked", [
    {"filter": {"id": 1}},
    {"filter": {"id": 999}},
    {"group_by": ["id"]},
    {"group_by": ["status", "number"], "order_by": ["-sum:distance"], "limit": 1},
    {"group_by": ["origin"], "having": {"count": 1}},
    {"group_by": ["origin"], "filter": {"number": 1000}, "having": {"sum:distance__gt": 0}},
    {"filter": {"number__lt": 1002}, "measures": ["count_distinct:status"]},
])  # fmt: skip
def test_isolating_a_row_below_the_smallest_group(flights: ModelRights, asked: JSON) -> None:
    """A row that is there and one that is not are answered alike."""
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        table = aggregate(flights, AggregateQuery(**asked))

    assert (table.rows, table.notes) == ([], [WITHHELD.format(3)])


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


@pytest.mark.parametrize("asked", [
    {"measures": ["max:distance"]}, {"measures": ["min:notes"]},
    {"group_by": ["origin"], "having": {"max:distance__gt": 1}}, {"group_by": ["origin"], "order_by": ["min:distance"]},
])  # fmt: skip
def test_reading_the_value_of_one_row_as_the_least_or_greatest(flights: ModelRights, asked: JSON) -> None:
    with override_settings(MCP={"MIN_GROUP_ROWS": 3}):
        refused = error(flights, **asked)

    assert (
        refused["message"] == "min and max show values of single rows, and groups of fewer than 3 rows are hidden here."
    )


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


# Plain Python.

GROUPS: dict[str, Callable[[Flight], Any]] = {
    "status": lambda flight: flight.status,
    "origin": lambda flight: flight.origin_id,
    "carrier": lambda flight: None if flight.carrier_id == "UA" else flight.carrier_id,
    "carrier__name": lambda flight: None if flight.carrier_id == "UA" else flight.carrier.name,
    "plane__seats": lambda flight: flight.plane.seats if flight.plane_id and flight.plane_id != "N14228" else None,
    "departure_delay": lambda flight: flight.departure_delay,
    "departs_at__month": lambda flight: timezone.localtime(flight.departs_at).month,
    "departs_at__hour": lambda flight: timezone.localtime(flight.departs_at).hour,
    "departs_at__date": lambda flight: timezone.localtime(flight.departs_at).date().isoformat(),
    "departs_at__trunc_month": lambda flight: timezone.localtime(flight.departs_at).replace(day=1).date().isoformat(),
}
NUMBERS = ("departure_delay", "distance", "plane__seats", "number")
DISTANCE: Callable[[Flight], int] = lambda flight: flight.distance  # noqa: E731
VALUES = {**GROUPS, "distance": DISTANCE, "number": lambda flight: flight.number}
FUNCTIONS: dict[str, Callable[[list[Any]], Any]] = {
    "count": len,
    "count_distinct": lambda values: len(set(values)),
    "sum": lambda values: sum(values) if values else None,
    "avg": lambda values: sum(values) / len(values) if values else None,
    "min": lambda values: min(values, default=None),
    "max": lambda values: max(values, default=None),
    "stddev": lambda values: statistics.pstdev(values) if values else None,
}
MEASURES = [
    "count",
    *(f"{function}:{name}" for function in ("count", "count_distinct") for name in VALUES if "departs_at" not in name),
    *(f"{function}:{name}" for function in ("sum", "avg", "min", "max", "stddev") for name in NUMBERS),
    "min:carrier__name", "max:status",
]  # fmt: skip
FILTERS: dict[str, tuple[JSON, Callable[[Flight], bool]]] = {
    "all": ({}, lambda flight: True),
    "some": ({"distance__gte": 30}, lambda flight: flight.distance >= 30),
    "related": ({"carrier__name": "american"}, lambda flight: flight.carrier.name == "american"),
    "hidden": ({"carrier__name": "united"}, lambda flight: False),
    "null": ({"departure_delay": None}, lambda flight: flight.departure_delay is None),
}


def measured(name: str, flights: list[Flight]) -> Any:
    if name == "count":
        return len(flights)
    function, _, field = name.partition(":")
    return FUNCTIONS[function]([value for flight in flights if (value := VALUES[field](flight)) is not None])


def by_python(flights: list[Flight], groups: list[str], measures: list[str], order: list[str], least: int) -> Any:
    found: dict[tuple[Any, ...], list[Flight]] = defaultdict(list)
    for flight in flights:
        found[tuple(GROUPS[name](flight) for name in groups)].append(flight)
    if not groups:
        return [[measured(name, flights) for name in measures]]
    names = {name.removeprefix("-") for name in (*measures, *order)} - set(groups)
    table = [
        {**dict(zip(groups, key, strict=True)), **{name: measured(name, members) for name in names}}
        for key, members in found.items()
        if len(members) >= least
    ]

    def compare(one: JSON, other: JSON) -> int:
        for name in (*order, *groups):
            mine, theirs = one[name.removeprefix("-")], other[name.removeprefix("-")]
            if mine == theirs:
                continue
            if mine is None or theirs is None:
                return 1 if mine is None else -1
            return (1 if mine > theirs else -1) * (-1 if name.startswith("-") else 1)
        return 0

    return [[row[name] for name in (*groups, *measures)] for row in sorted(table, key=cmp_to_key(compare))]


def make_world() -> None:
    """Flights of visible and hidden airlines and planes, over a year, with nulls."""
    make_flights(0)
    for airline in Airline.objects.all():
        Airline.objects.filter(pk=airline.pk).update(name=airline.name.lower())
    plane = Plane.objects.get()
    plane.tailnum, plane.seats = "N2", 20
    plane.save()
    chance = random.Random(7)
    Flight.objects.bulk_create(
        Flight(
            id=number + 1, carrier_id=chance.choice(["UA", "AA"]), number=number, distance=chance.randrange(10, 60),
            plane_id=chance.choice([None, "N14228", "N2"]), origin_id=chance.choice(["JFK", "EWR", "LGA"]),
            destination_id="IAH", status=chance.choice(["on_time", "cancelled"]),
            departure_delay=chance.choice([None, 1, 2, 3]),
            departs_at=MOMENT + datetime.timedelta(hours=chance.randrange(2_000)),
        )
        for number in range(40)
    )  # fmt: skip


@given(data=st.data())
@settings(
    max_examples=80, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
def check_against_python(rights: ModelRights, visible: list[Flight], data: st.DataObject) -> None:
    groups = data.draw(st.lists(st.sampled_from(list(GROUPS)), unique=True, max_size=3))
    measures = data.draw(st.lists(st.sampled_from(MEASURES), unique=True, min_size=1, max_size=4))
    orderable = [*groups, *(name for name in measures if not name.startswith("stddev"))]
    order = (
        [
            data.draw(st.sampled_from(["", "-"])) + name
            for name in data.draw(st.lists(st.sampled_from(orderable), unique=True, max_size=2))
        ]
        if orderable
        else []
    )
    least = data.draw(st.integers(1, 3)) if groups else 1
    asked, holds = FILTERS[data.draw(st.sampled_from(list(FILTERS)))]

    table = aggregate(
        rights,
        AggregateQuery(
            groups, measures, filter=asked, order_by=order, having={"count__gte": least} if groups else {}, limit=200
        ),
    )

    expected = by_python([flight for flight in visible if holds(flight)], groups, measures, order, least)
    close = [
        [pytest.approx(value, rel=1e-9) if isinstance(value, float) else value for value in row] for row in expected
    ]
    assert table == Table([*groups, *measures], close, [])


def test_every_question_is_answered_as_by_plain_python(root: User, declared: Declared) -> None:
    make_world()
    scoped(declared)
    visible = list(Flight.objects.exclude(origin="LGA").select_related("carrier", "plane"))

    check_against_python(rights_on(Flight, root), visible)


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
        "notes": [
            "There are more groups than these 1. Ask for a higher limit, or narrow the query with filter or having."
        ],
    }
    result = message["result"]
    assert result["structuredContent"] == expected
    assert result["content"] == [{"type": "text", "text": encode(expected).decode()}]
    assert result["isError"] is False


def test_the_tool_answers_a_table_as_csv(flights: ModelRights) -> None:
    result = DirectPeer(User.objects.get()).call(
        "aggregate_records", model="flights.flight", group_by=["plane"], format="csv"
    )

    assert result["content"] == [{"type": "text", "text": "plane,count\r\nN14228,8\r\n,4\r\n"}]
    assert result["structuredContent"] == {"columns": ["plane", "count"], "rows": [["N14228", 8], [None, 4]]}


@pytest.mark.parametrize(("asked", "field"), [
    ({"group_by": ["status"] * 6}, "group_by"), ({"measures": ["count"] * 11}, "measures"),
    ({"measures": []}, "measures"),
    ({"measures": ["count"] * 100_000}, "measures"), ({"having": {f"count__{i}": 1 for i in range(11)}}, "having"),
    ({"order_by": ["count"] * 6}, "order_by"), ({"limit": 201}, "limit"), ({"limit": 0}, "limit"),
    ({"group_by": [{"status": 1}]}, "group_by.0"), ({"group_by": "status"}, "group_by"), ({"having": []}, "having"),
    ({"measures": [None]}, "measures.0"), ({"format": "xml"}, "format"), ({"distinct": True}, ""),
    ({"model": "auth.nothing"}, "model"), ({"search": "x" * 201}, "search"),
])  # fmt: skip
def test_arguments_that_are_too_many_or_of_another_type(flights: ModelRights, asked: JSON, field: str) -> None:
    result = DirectPeer(User.objects.get()).call("aggregate_records", **{"model": "flights.flight", **asked})

    assert errors_of(result)[0]["field"] == field
