"""Collections, schemas and plain resources, as resources/list names them and resources/read gives them."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import override_settings
from pydantic import AnyUrl

from demo_project.flights.models import Flight, Plane
from mcp_django import resource, site
from tests.shop.models import Tag
from tests.support.asking import DirectPeer
from tests.support.data import make_flights, make_staff
from tests.support.peers import MODERN, Peer


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(12)
    return DirectPeer(User.objects.create_superuser("root"))


def wrong(root: DirectPeer, uri: str) -> list[tuple[str, str]]:
    error = root.error(MODERN, "resources/read", {"uri": uri})
    assert error["data"]["reason"] == "RESOURCE_NOT_FOUND"
    assert error["data"]["uri"] == uri
    return [(entry["field"], entry["message"]) for entry in error["data"]["errors"]]


def test_a_collection_is_its_first_page(root: DirectPeer) -> None:
    read = root.read("db://flights/airline")

    assert read == {"model": "flights.airline", "columns": ["carrier", "name"],
                    "rows": [["AA", "American"], ["UA", "United"]]}  # fmt: skip


@pytest.mark.parametrize(("query", "keys"), [
    ("origin=JFK", [1, 4, 7, 10]),
    ("origin=JFK&status=cancelled", [10]),
    ("origin__in=JFK,EWR&limit=3", [1, 2, 4]),
    ("id__range=3,5", [3, 4, 5]),
    ("plane__isnull=true", [1, 4, 7, 10]),
    ("departs_at__gte=2013-01-01T20:00:00Z", [11, 12]),
    ("departs_at__gte=2013-01-01T21:00:00%2B01:00", [11, 12]),
    ("order_by=-departs_at,id&limit=2", [12, 11]),
    ("search=1003", [4]),
    ("pk__in=2,3", [2, 3]),
    ("notes=note%201", [2]),
    ("notes=note+1", []),
    ("origin__exact=JFK&limit=1", [1]),
])  # fmt: skip
def test_a_collection_is_asked_by_its_query(root: DirectPeer, query: str, keys: list[int]) -> None:
    read = root.read(f"db://flights/flight?fields=id&{query}")

    assert [row[0] for row in read["rows"]] == keys


def test_the_next_uri_leads_to_the_end(root: DirectPeer) -> None:
    uri: str | None = "db://Flights/flight?origin__in=EWR,LGA&order_by=-departs_at&limit=3&fields=id&search=n14"
    found = []

    while uri is not None:
        page = root.read(uri)
        found += [row[0] for row in page["rows"]]
        uri = page.get("next")
        assert uri is None or (str(AnyUrl(uri)) == uri and len(uri) < 1_000)

    assert found == [12, 11, 9, 8, 6, 5, 3, 2]


@pytest.mark.parametrize("query", ["model=737", "model__icontains=7&order_by=seats", "manufacturer=BOEING"])
def test_the_next_uri_of_a_field_that_is_named_as_a_parameter_of_ours(root: DirectPeer, query: str) -> None:
    Plane.objects.create(
        tailnum="N2", type="Rotorcraft", manufacturer="BOEING", model="737", engines=1, seats=1, engine="4 Cycle"
    )

    first = root.read(f"db://flights/plane?limit=1&{query}")
    second = root.read(first["next"])

    assert sorted(row[0] for page in (first, second) for row in page["rows"]) == ["N14228", "N2"]


@pytest.mark.parametrize(("query", "field"), [
    ("nope=1", "filter.nope"),
    ("limit=0", "limit"),
    ("limit=-1", "limit"),
    ("limit=1.5", "limit"),
    ("limit=%D9%A1", "limit"),
    ("limit=5&limit=6", "limit"),
    ("origin=JFK&origin=EWR", "origin"),
    ("cursor=", "cursor"),
    ("cursor=x", "cursor"),
    ("order_by=nope", "order_by"),
    ("fields=nope", "fields"),
    ("any=1", "filter.any"),
    ("not=1", "filter.not"),
    ("number=x", "filter.number"),
    ("notes=%00", "filter.notes"),
    ("search=%00", "search"),
    ("_connector=OR", "filter._connector"),
    ("=1", "filter."),
])  # fmt: skip
def test_a_query_that_cannot_be_asked_says_what_is_wrong(root: DirectPeer, query: str, field: str) -> None:
    assert [entry[0] for entry in wrong(root, f"db://flights/flight?{query}")] == [field]


def test_bytes_that_are_no_text_find_nothing(root: DirectPeer) -> None:
    assert root.read("db://flights/flight?notes=%ff%ed%a0%80")["rows"] == []
    assert wrong(root, "db://shop/tag/%ff")


def test_a_limit_beyond_the_bound_is_cut_and_noted(root: DirectPeer) -> None:
    read = root.read(f"db://flights/flight?limit={'9' * 30}")

    assert len(read["rows"]) == 12
    assert read["notes"] == ["A page holds at most 100 rows."]


def test_a_schema_says_what_the_record_is(root: DirectPeer) -> None:
    schema = root.read("db://flights/airport.schema")

    assert schema["title"] == "airport"
    assert schema["required"] == list(root.read("db://flights/airport/JFK"))
    assert schema["additionalProperties"] is False
    assert schema["properties"]["faa"] == {
        "type": "string", "title": "FAA code", "description": "Three-character FAA code, e.g. JFK.",
    }  # fmt: skip
    assert schema["properties"]["daylight_saving"]["description"] == (
        "One of A: as in the United States; N: none; U: unknown."
    )


def test_a_schema_says_where_a_key_leads(root: DirectPeer) -> None:
    schema = root.read("db://flights/flight.schema")

    assert schema["properties"]["plane"] == {
        "type": ["string", "null"], "title": "plane", "description": "Primary key of a flights.plane.",
    }  # fmt: skip


def test_an_upper_case_app_label_is_the_same_app(root: DirectPeer) -> None:
    assert root.read("db://FLIGHTS/Airline/UA") == root.read("db://flights/airline/UA")


def test_lists_go_page_by_page(admin: Peer, flights: Any) -> None:
    with override_settings(MCP={"LIST_PAGE": 3, "SWEEP_SECONDS": 0.2}):
        for method, key in (("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")):
            whole, cursor = [], None
            while True:
                page = admin.result(MODERN, method, {"cursor": cursor} if cursor else {})
                assert 0 < len(page[key]) <= 3
                whole += page[key]
                if (cursor := page.get("nextCursor")) is None:
                    break
            names = [item.get("uri") or item["uriTemplate"] for item in whole]
            assert names == sorted(set(names)) and len(names) > 6


def test_a_resource_larger_than_a_message_is_refused_in_words(root: DirectPeer) -> None:
    with override_settings(MCP={"MAX_RESULT_BYTES": 100}):
        error = root.error(MODERN, "resources/read", {"uri": "db://flights/flight.schema"})

    assert error["data"]["reason"] == "LIMIT_EXCEEDED"
    assert "100 bytes (MAX_RESULT_BYTES)" in error["message"]


# Resources that a project declares.


@pytest.fixture
def plain() -> Any:
    """Declares resources of the test, and takes them back."""
    before = dict(site.resources)
    yield
    site.resources.clear()
    site.resources.update(before)


@pytest.mark.parametrize(("value", "expected"), [
    ("text", {"text": "text"}),
    (b"\x00\xff", {"blob": "AP8="}),
    ({"a": [1, None]}, {"text": '{"a":[1,null]}'}),
])  # fmt: skip
def test_a_plain_resource_is_what_its_function_returns(root: DirectPeer, plain: Any, value: Any, expected: Any) -> None:
    resource("shop://x", mime_type="x/y")(lambda request: value)

    [contents] = root.result(MODERN, "resources/read", {"uri": "shop://x"})["contents"]

    assert contents == {"uri": "shop://x", "mimeType": "x/y", **expected}


def test_a_plain_resource_without_its_permission_does_not_exist(root: DirectPeer, plain: Any) -> None:
    resource("shop://secret", permission="shop.view_product")(lambda request: "secret")
    nobody = DirectPeer(make_staff("nobody"))

    hidden = nobody.error(MODERN, "resources/read", {"uri": "shop://secret"})
    absent = nobody.error(MODERN, "resources/read", {"uri": "shop://sxcret"})

    assert str(hidden).replace("secret", "sxcret") == str(absent)
    assert "shop://secret" not in str(nobody.result(MODERN, "resources/list"))
    assert root.result(MODERN, "resources/read", {"uri": "shop://secret"})["contents"][0]["text"] == "secret"


def test_a_plain_resource_that_fails_says_nothing_of_why(
    root: DirectPeer, plain: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: Any) -> str:
        raise ValueError("the password is hunter2")

    resource("shop://broken")(broken)

    error = root.error(MODERN, "resources/read", {"uri": "shop://broken"})

    assert error == {
        "code": -32603, "message": "Internal error. The server's log has the details.",
        "data": {"reason": "INTERNAL_ERROR"},
    }  # fmt: skip
    assert "shop://broken failed" in caplog.text


def test_a_record_of_a_text_key_is_matched_as_the_database_matches(root: DirectPeer) -> None:
    Tag.objects.create(name="lamp")

    if connection.vendor == "mysql":
        assert root.read("db://shop/tag/LAMP") == {"name": "lamp"}
    else:
        assert wrong(root, "db://shop/tag/LAMP")


def test_a_cursor_of_a_tool_goes_on_in_a_uri(root: DirectPeer) -> None:
    page = root.call("find_records", model="flights.flight", limit=5)["structuredContent"]

    read = root.read(f"db://flights/flight?cursor={page['next_cursor']}&fields=id&limit=2")

    assert read["rows"] == [[6], [7]]
    assert Flight.objects.count() == 12
