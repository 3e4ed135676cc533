"""How long a page is, where it ends earlier, and which columns it leaves out."""

from __future__ import annotations

import itertools
import tracemalloc
from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Flight
from mcp_django import ModelMCP
from mcp_django.bridge.resources.reading import rows
from tests.shop.models import Product, Tag
from tests.support.asking import DirectPeer, all_rows, rights_on
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

Admin: Any = admin.ModelAdmin


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")


def page_of(model: Any, user: User, **asked: Any) -> rows.Page:
    return rows.find(rights_on(model, user), rows.RecordQuery(**asked))


# Its length.


def test_a_page_has_a_thousand_rows(root: User) -> None:
    Tag.objects.bulk_create(Tag(name=f"{number:04}") for number in range(1_001))

    page = page_of(Tag, root, limit=1_000)

    assert [row[0] for row in page.rows] == [f"{number:04}" for number in range(1_000)]
    assert page.next_cursor is not None
    assert page.notes == []


@pytest.fixture
def slow(declared: Declared, monkeypatch: pytest.MonkeyPatch) -> None:
    """A column of flights that takes a fifth of a request's time."""
    clock = itertools.count(0.0, 12.0)
    now = [next(clock)]
    monkeypatch.setattr(rows, "time", SimpleNamespace(monotonic=lambda: now[0]))

    class Own(Admin):
        list_display = ["number", "took"]

        def took(self, flight: Flight) -> int:
            now[0] = next(clock)
            return flight.number

    declared.admin(Flight, Own)


def test_a_page_ends_where_its_columns_took_half_of_the_time_to_compute(root: User, slow: None) -> None:
    make_flights(7)

    page = page_of(Flight, root, fields=["took"], order_by=["id"], limit=7)
    pages = all_rows(Flight, root, fields=["took"], order_by=["id"], limit=7)

    assert page.rows == [[1, 1000], [2, 1001], [3, 1002]]
    assert page.next_cursor is not None
    assert page.notes == ["The page was cut at 3 rows, since took took long to compute (REQUEST_SECONDS)."]
    assert [row[0] for row in pages] == [*range(1, 8)]


def test_a_page_has_a_row_however_long_it_takes_and_all_without_a_limit(root: User, slow: None, settings: Any) -> None:
    make_flights(7)

    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.001}
    assert page_of(Flight, root, fields=["took"]).rows == [[1, 1000]]
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0}
    assert len(page_of(Flight, root, fields=["took"]).rows) == 7


@pytest.fixture
def checked(declared: Declared) -> list[int]:
    """The keys of the flights whose permission was checked. None may be seen but the first."""
    asked: list[int] = []

    class Checked(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            if obj is not None:
                asked.append(obj.pk)
            return obj is None or obj.pk == 1

    declared.model(Flight, Checked)
    return asked


def test_a_long_page_looks_at_as_many_hidden_rows_as_a_short_one(root: User, checked: list[int]) -> None:
    make_flights(1_200)
    held = "A page holds at most 100 rows of a model whose permission is checked for each row (MAX_ROWS)."

    for limit in (1_000, 100, 1):
        checked.clear()
        page = page_of(Flight, root, fields=["id"], order_by=["id"], limit=limit)
        assert page.rows == [[1]]
        assert len(checked) == 1_000
        assert [note for note in page.notes if "holds at most" in note] == [held] * (limit > 100)


# Empty columns.

FLIGHTS = "Left out are the columns that are null in every row: arrival_delay, air_time."


def test_columns_that_are_null_in_every_row_are_left_out_and_named(root: User) -> None:
    make_flights(3)

    page = page_of(Flight, root)
    read = DirectPeer(root).read("db://flights/flight?number__gte=1000")

    assert page.notes == read["notes"] == [FLIGHTS]
    assert not {"arrival_delay", "air_time"} & {*page.columns, *read["columns"]}
    assert [len(row) for row in page.rows] == [len(page.columns)] * 3
    assert dict(zip(page.columns, page.rows[1], strict=True))["distance"] == 1401


def test_a_column_stays_that_was_named_or_has_a_value_or_may_have_one_elsewhere(root: User) -> None:
    make_flights(3)
    named = {"fields": ["air_time", "number"]}

    for asked in (named, {"limit": 2}, {"filter": {"id": 1}}, {"filter": {"id": 9}}):
        page = page_of(Flight, root, **asked)
        assert "air_time" in page.columns, asked
        assert page.notes == [], asked
    first = page_of(Flight, root, limit=2)
    assert page_of(Flight, root, limit=2, cursor=first.next_cursor).columns == first.columns
    Flight.objects.update(notes="", distance=0)
    Flight.objects.filter(pk=3).update(air_time=5)
    page = page_of(Flight, root)
    assert page.notes == [FLIGHTS.replace(", air_time", "")]
    assert {"notes", "distance"} <= set(page.columns)


def test_a_file_that_no_row_has_is_left_out(root: User) -> None:
    Product.objects.bulk_create([Product(name="a"), Product(name="b", weight=1)])

    [note] = page_of(Product, root).notes

    assert "manual" in note and "weight" not in note


@pytest.mark.parametrize("asked", [
    {"model": "flights.flight", "fields": ["notes"], "limit": 150},
    {"model": "flights.airline", "fields": ["name", "flights__notes"]},
])  # fmt: skip
def test_filling_the_memory_of_the_server_with_long_texts(root: User, asked: Any) -> None:
    make_flights(150)
    Flight.objects.update(notes="x" * 300_000)
    peer = DirectPeer(root)
    peer.call("find_records", **asked)

    tracemalloc.start()
    try:
        answer = peer.call("find_records", **asked)["structuredContent"]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert "were cut at 2000 characters" in str(answer["notes"])
    assert f"{'x' * 2_000}…" in str(answer["rows"])
    # All texts of 150 rows, or of 40 related ones, together would be more than this.
    assert peak < 10_000_000
