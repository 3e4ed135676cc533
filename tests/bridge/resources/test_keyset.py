"""Pages: put together, they are the rows in the order that the database itself gives them."""

from __future__ import annotations

import datetime
import itertools
import uuid
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import models
from django.http import HttpRequest
from hypothesis import given, settings
from hypothesis import strategies as st

from demo_project.flights.models import Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import cursors, rows
from mcp_django.bridge.resources.reading.selection import order
from tests.shop.models import Product, Tag
from tests.support.asking import all_rows, rights_on
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared
from tests.support.examples import examples

pytestmark = pytest.mark.every_database

checked = settings(max_examples=examples(50))

#: Few values of each kind, so that rows are equal in what they are ordered by.
VALUES: dict[str, list[Any]] = {
    "name": ["a", "b", "ab", ""],
    "sku": [uuid.UUID(int=1), uuid.UUID("f0000000-0000-4000-8000-00000000000f"), uuid.UUID(int=2**127)],
    "price": [None, Decimal("-1.50"), Decimal("0.00"), Decimal("10.10"), Decimal("123456789012.34")],
    "weight": [None, -1.5, 0.1, 1 / 3, 1e300],
    "stock": [0, -1, 2**53 + 1, 2**63 - 1],
    "launched": [None, datetime.date(1970, 1, 1), datetime.date(2013, 12, 31)],
    "opens": [None, datetime.time(0), datetime.time(8, 30, 0, 1)],
    "lead_time": [None, datetime.timedelta(-1, 5), datetime.timedelta(0), datetime.timedelta(400, 1, 1)],
    "active": [True, False],
}

products = st.lists(st.fixed_dictionaries({name: st.sampled_from(found) for name, found in VALUES.items()}), max_size=9)
orders = st.lists(
    st.tuples(st.sampled_from([*VALUES, "id"]), st.booleans()), max_size=3, unique_by=lambda item: item[0]
).map(lambda items: [f"-{name}" if descending else name for name, descending in items])
limits = st.integers(1, 5)


@pytest.fixture
def superuser(db: None) -> User:
    return User.objects.create_superuser("root")


def by_the_database(queryset: models.QuerySet[Any], names: list[str]) -> list[Any]:
    """The keys in an order, ties broken by the key in the direction of the last column."""
    tie = "-pk" if names and names[-1].startswith("-") else "pk"
    return list(queryset.order_by(*names, tie).values_list("pk", flat=True))


def make_products(values: list[dict[str, Any]]) -> None:
    Product.objects.all().delete()
    Product.objects.bulk_create(Product(**one) for one in values)


@checked
@given(values=products, names=orders, limit=limits)
def test_pages_are_the_rows_in_order(
    superuser: User, values: list[dict[str, Any]], names: list[str], limit: int
) -> None:
    make_products(values)

    found = all_rows(Product, superuser, order_by=names, limit=limit, fields=["id"])

    assert [row[0] for row in found] == by_the_database(Product.objects.all(), names)


@checked
@given(values=products, more=products, names=orders, limit=limits)
def test_rows_that_come_between_pages_double_and_hide_nothing(
    superuser: User, values: list[dict[str, Any]], more: list[dict[str, Any]], names: list[str], limit: int
) -> None:
    make_products(values)
    before = by_the_database(Product.objects.all(), names)
    first = rows.find(rights_on(Product, superuser), rows.RecordQuery(order_by=names, limit=limit, fields=["id"]))
    Product.objects.bulk_create(Product(**one) for one in more)

    found = [row[0] for row in first.rows]
    if first.next_cursor is not None:
        cursor: str | None = first.next_cursor
        while cursor is not None:
            page = rows.find(
                rights_on(Product, superuser),
                rows.RecordQuery(order_by=names, limit=limit, fields=["id"], cursor=cursor),
            )
            found += [row[0] for row in page.rows]
            cursor = page.next_cursor
        assert [key for key in found if key in before] == before

    assert len(set(found)) == len(found)


@checked
@given(
    names=st.lists(
        st.sampled_from([
            "carrier", "-carrier", "departure_delay", "-departure_delay", "plane", "-plane", "departs_at",
            "-departs_at", "arrival_delay", "-status", "id", "-id",
        ]),
        max_size=4, unique_by=lambda name: name.removeprefix("-"),
    ),
    limit=limits,
)  # fmt: skip
def test_flights_in_order_with_relations_and_nulls(superuser: User, names: list[str], limit: int) -> None:
    if not Flight.objects.exists():
        make_flights()
    expected = by_the_database(Flight.objects.all(), [f"{name}_id" if "plane" in name else name for name in names])
    if not names:
        expected = by_the_database(Flight.objects.all(), ["departs_at"])

    found = all_rows(Flight, superuser, order_by=names, limit=limit, fields=["id"])

    assert [row[0] for row in found] == expected


def test_pages_hold_the_rows_of_the_principal_alone(db: None) -> None:
    make_flights()
    viewer = make_staff("jfk", "flights.view_flight", "flights.view_airport")
    viewer.groups.create(name="JFK operations")
    own = by_the_database(Flight.objects.filter(origin="JFK"), ["-departure_delay"])

    for limit in range(1, 6):
        found = all_rows(Flight, viewer, order_by=["-departure_delay"], limit=limit, fields=["id"])
        assert [row[0] for row in found] == own, limit


def test_microseconds_survive_a_cursor(superuser: User) -> None:
    moments = [datetime.datetime(2013, 1, 1, 0, 0, 0, micro, tzinfo=datetime.UTC) for micro in (1, 2, 3)]
    make_flights(3)
    for key, moment in enumerate(moments, 1):
        Flight.objects.filter(pk=key).update(departs_at=moment)

    found = all_rows(Flight, superuser, order_by=["departs_at"], limit=1, fields=["id"])

    assert found == [[1], [2], [3]]


def test_the_last_page_has_no_cursor(superuser: User) -> None:
    make_flights(4)

    pages = [rows.find(rights_on(Flight, superuser), rows.RecordQuery(limit=limit)) for limit in (3, 4, 5)]

    assert [len(page.rows) for page in pages] == [3, 4, 4]
    assert [page.next_cursor is None for page in pages] == [False, True, True]


# Cursors.


def test_a_cursor_goes_on_with_other_columns_and_another_limit(superuser: User) -> None:
    make_flights(6)
    flights = rights_on(Flight, superuser)

    cursor = rows.find(flights, rows.RecordQuery(limit=2)).next_cursor
    page = rows.find(flights, rows.RecordQuery(cursor=cursor, limit=3, fields=["number"]))

    assert [row[0] for row in page.rows] == [3, 4, 5]


def test_a_cursor_says_nothing_of_hidden_columns(db: None, declared: Declared) -> None:
    make_flights(3)
    viewer = make_staff("few", "flights.view_flight")
    declared.model(Flight, ordering=["carrier", "departs_at"])

    names = [order.name for order in order(rights_on(Flight, viewer), None)]

    assert names == ["departs_at", "id"]


def test_a_text_fits_into_a_cursor_whether_it_is_compressed_or_not() -> None:
    digest, line = cursors.query_digest("shop.product"), f"user:{uuid.UUID(int=0)}"

    for length in (24, 25, 300):
        values = ["\N{WAVING HAND SIGN}" * length, None]
        cursor = cursors.make_cursor(values, digest, line)
        assert cursor is not None
        assert cursor.startswith(".") == (length > 24)
        assert cursors.read_values(cursor, digest, line) == values


class Reversed(ModelMCP):
    """Gives its rows in the order that Django turns around once more for every later ``order_by``."""

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).order_by("name").reverse()


def test_a_queryset_that_was_turned_around_has_the_order_that_was_asked_for(
    superuser: User, declared: Declared
) -> None:
    Tag.objects.bulk_create(Tag(name=name) for name in "bdace")
    declared.model(Tag, Reversed)

    for limit, asked, names in itertools.product((2, 50), ({}, {"name__gt": "a"}), (["name"], ["-name"])):
        found = [name for (name,) in all_rows(Tag, superuser, order_by=names, limit=limit, filter=asked)]
        expected = [name for name in "abcde" if not asked or name > "a"]
        assert found == (expected if names == ["name"] else expected[::-1]), (limit, asked)
