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


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(3)
    return DirectPeer(User.objects.create_superuser("root"))


def test_null_a_blank_text_and_an_empty_list_count_as_left_out(root: DirectPeer) -> None:
    flights = {"model": "flights.flight"}
    blanks: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
        ("describe_models", {}, {"model": None, "app": None}),
        ("describe_models", {}, {"model": ""}),
        (
            "find_records",
            flights,
            dict.fromkeys(("filter", "search", "order_by", "fields", "limit", "cursor", "total")),
        ),
        ("find_records", flights, {"cursor": "", "search": "", "format": ""}),
        ("find_records", flights, {"order_by": [], "fields": []}),
        ("find_records", flights, {"filter": {}, "format": None}),
        ("get_record", {**flights, "id": 1}, {"fields": None}),
        ("aggregate_records", flights, dict.fromkeys(("group_by", "measures", "filter", "search", "having", "limit"))),
        ("aggregate_records", flights, {"measures": [], "group_by": [], "order_by": None, "format": None}),
    ]

    for tool, given, blank in blanks:
        assert root.call(tool, **given, **blank) == root.call(tool, **given), (tool, blank)


def test_an_integer_and_a_key_may_be_a_text_or_an_integer(root: DirectPeer) -> None:
    for limit in ("2", 2, "02"):
        result = root.call("find_records", model="flights.flight", limit=limit)
        assert len(result["structuredContent"]["rows"]) == 2
    for key in ("1", 1):
        assert root.call("get_record", model="flights.flight", id=key)["structuredContent"]["id"] == 1


def test_a_blank_or_a_text_where_it_says_nothing_is_refused(root: DirectPeer) -> None:
    wrong: dict[tuple[str, str], list[Any]] = {
        ("find_records", "limit"): ["2.0", "two", " 2", "٢", "1e3", True, "9" * 19],
        ("find_records", "model"): [None, "", []],
        ("get_record", "id"): [True, None, 1.5, [1], {}],
    }

    for (tool, name), values in wrong.items():
        for value in values:
            [error] = errors_of(root.call(tool, **{"model": "flights.flight", name: value}))
            assert error["field"] == name, (name, value)


# Functions: null may mean something there.


def test_null_is_left_out_of_a_function_where_its_schema_allows_none(root: DirectPeer, declared: Declared) -> None:
    def book(request: HttpRequest, seats: int = 4, note: str | None = "none", tag: Tag | None = None) -> str:
        """Book."""
        return f"{seats} {note!r} {tag}"

    declared.tool(book, read_only=True)

    assert text_of(root.call("book", seats=None, note=None, tag=None)) == "4 None None"
    assert errors_of(root.call("book", seats=""))[0]["field"] == "seats"
    assert errors_of(root.call("book", seats="four"))[0]["field"] == "seats"


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
