"""Arguments as frameworks and forms send them: every optional one filled in, and numbers as texts."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest

from tests.shop.models import Tag
from tests.support.asking import DirectPeer, errors_of, text_of
from tests.support.data import make_flights
from tests.support.declared import Declared

pytestmark = pytest.mark.usefixtures("db")

#: A call with the model alone, as a framework sends it that fills in every optional argument.
FILLED_IN: dict[str, dict[str, Any]] = {
    "describe_models": {"model": None, "app": None},
    "find_records": {
        "model": "flights.flight", "filter": None, "search": None, "order_by": None, "fields": None, "limit": None,
        "cursor": None, "total": None, "format": None,
    },
    "get_record": {"model": "flights.flight", "id": 1, "fields": None},
    "aggregate_records": {
        "model": "flights.flight", "group_by": None, "measures": None, "filter": None, "search": None, "having": None,
        "order_by": None, "limit": None, "format": None,
    },
}  # fmt: skip


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(3)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.mark.parametrize("tool", FILLED_IN)
def test_null_counts_as_left_out(root: DirectPeer, tool: str) -> None:
    filled = FILLED_IN[tool]

    assert root.call(tool, **filled) == root.call(tool, **{k: v for k, v in filled.items() if v is not None})


@pytest.mark.parametrize("blanks", [
    {"cursor": "", "search": "", "format": ""}, {"order_by": [], "fields": []}, {"filter": {}},
], ids=["texts", "lists", "object"])  # fmt: skip
def test_a_blank_text_and_an_empty_list_count_as_left_out(root: DirectPeer, blanks: dict[str, Any]) -> None:
    assert root.call("find_records", model="flights.flight", **blanks) == root.call(
        "find_records", model="flights.flight"
    )


def test_a_text_is_no_filter_even_if_it_is_blank(root: DirectPeer) -> None:
    [error] = errors_of(root.call("find_records", model="flights.flight", filter=""))

    assert error["field"] == "filter"


def test_other_tools_take_blanks_too(root: DirectPeer) -> None:
    assert root.call("describe_models", model="") == root.call("describe_models")
    assert root.call("aggregate_records", model="flights.flight", measures=[], group_by=[]) == root.call(
        "aggregate_records", model="flights.flight"
    )


@pytest.mark.parametrize("blank", [None, "", []])
def test_what_is_required_may_not_be_blank(root: DirectPeer, blank: Any) -> None:
    [error] = errors_of(root.call("find_records", model=blank))

    assert error["field"] == "model"


@pytest.mark.parametrize(("limit", "rows"), [("2", 2), (2, 2), ("02", 2)])
def test_an_integer_may_be_a_text(root: DirectPeer, limit: Any, rows: int) -> None:
    result = root.call("find_records", model="flights.flight", limit=limit)

    assert len(result["structuredContent"]["rows"]) == rows


@pytest.mark.parametrize("limit", ["2.0", "two", " 2", "٢", "1e3", True, "9" * 19])
def test_a_text_that_is_no_plain_integer_is_refused(root: DirectPeer, limit: Any) -> None:
    [error] = errors_of(root.call("find_records", model="flights.flight", limit=limit))

    assert error["field"] == "limit"


@pytest.mark.parametrize("key", [1, "1"])
def test_a_key_may_be_a_text_or_an_integer(root: DirectPeer, key: Any) -> None:
    assert root.call("get_record", model="flights.flight", id=key)["structuredContent"]["id"] == 1


@pytest.mark.parametrize("key", [True, None, 1.5, [1], {}])
def test_a_key_is_nothing_else(root: DirectPeer, key: Any) -> None:
    [error] = errors_of(root.call("get_record", model="flights.flight", id=key))

    assert error["field"] == "id"


# Functions: null may mean something there.


def test_null_is_left_out_of_a_function_where_its_schema_allows_none(root: DirectPeer, declared: Declared) -> None:
    def book(request: HttpRequest, seats: int = 4, note: str | None = "none", tag: Tag | None = None) -> str:
        """Book."""
        return f"{seats} {note!r} {tag}"

    declared.tool(book, read_only=True)

    assert text_of(root.call("book", seats=None, note=None, tag=None)) == "4 None None"
    assert errors_of(root.call("book", seats=""))[0]["field"] == "seats"
    assert errors_of(root.call("book", seats="4"))[0]["field"] == "seats"


def test_null_is_left_out_where_a_ready_schema_allows_none(root: DirectPeer, declared: Declared) -> None:
    def book(request: HttpRequest, arguments: dict[str, Any]) -> dict[str, Any]:
        """Book."""
        return arguments

    schema = {
        "type": "object",
        "$defs": {"count": {"type": "integer"}},
        "properties": {"seats": {"$ref": "#/$defs/count"}, "note": {"type": ["string", "null"]}, "any": True},
    }
    declared.tool(book, read_only=True, input_schema=schema)

    result = root.call("book", seats=None, note=None, any=None, unknown=None)

    assert result["structuredContent"] == {"note": None, "any": None, "unknown": None}
