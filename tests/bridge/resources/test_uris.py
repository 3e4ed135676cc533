"""URIs of resources, and what a client's URL parser leaves of them."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl

from demo_project.flights.models import Flight
from mcp_django.bridge.resources.uris import Target, collection_uri, file_uri, parse, query_uri, record_uri, schema_uri
from tests.shop.models import Tag
from tests.support.asking import DirectPeer
from tests.support.peers import MODERN, Peer

KEYS = {
    "a/b": "db://shop/tag/a%2Fb",
    ".": "db://shop/tag?pk=.",
    "..": "db://shop/tag?pk=..",
    "": "db://shop/tag?pk=",
    "é ü": "db://shop/tag/%C3%A9%20%C3%BC",
    "100%": "db://shop/tag/100%25",
    "a+b": "db://shop/tag/a%2Bb",
    "a?b=c&d#e": "db://shop/tag/a%3Fb%3Dc%26d%23e",
    "...": "db://shop/tag/...",
    "%2E%2E": "db://shop/tag/%252E%252E",
    "x.schema": "db://shop/tag/x.schema",
    "../../auth/user/1": "db://shop/tag/..%2F..%2Fauth%2Fuser%2F1",
    "a:b@c": "db://shop/tag/a%3Ab%40c",
    "~-_": "db://shop/tag/~-_",
    "\\": "db://shop/tag/%5C",
}


def test_a_key_stands_in_a_uri_that_survives_a_url_parser() -> None:
    assert {key: record_uri(Tag, key) for key in KEYS} == KEYS
    assert {key: parse(uri) for key, uri in KEYS.items()} == {key: Target("record", "shop.tag", key) for key in KEYS}
    assert [str(AnyUrl(uri)) for uri in KEYS.values()] == [*KEYS.values()]


@given(st.text(max_size=40), st.sampled_from(["notes", "größe", "_1"]))
def test_any_text_is_a_key_and_that_of_what_holds_a_file(key: str, name: str) -> None:
    if any("\ud800" <= character <= "\udfff" for character in key):
        return
    record, file = record_uri(Tag, key), file_uri(Tag, key, name)

    assert parse(record) == Target("record", "shop.tag", key)
    assert parse(file) == Target("file", "shop.tag", key, field=name)
    assert [str(AnyUrl(uri)) for uri in (record, file)] == [record, file]
    assert (record + file).isascii()


@given(st.dictionaries(st.sampled_from(["origin", "limit", "notes__icontains"]), st.text(max_size=20), max_size=3))
def test_any_text_is_a_value_of_a_query(values: dict[str, str]) -> None:
    if any("\ud800" <= character <= "\udfff" for value in values.values() for character in value):
        return
    uri = query_uri(Flight, values.items())

    assert parse(uri) == Target("collection", "flights.flight", query=tuple(values.items()))
    if values:
        assert str(AnyUrl(uri)) == uri


TARGETS = [
    ("db://flights/flight", Target("collection", "flights.flight")),
    ("db://FLIGHTS/Flight", Target("collection", "flights.flight")),
    ("db://fl%69ghts/%66light", Target("collection", "flights.flight")),
    ("db://fl\u00fcge/ma%C3%9F.schema", Target("schema", "fl\u00fcge.ma\u00df")),
    ("db://flights/flight.schema", Target("schema", "flights.flight")),
    ("db://flights/flight/1", Target("record", "flights.flight", "1")),
    ("db://flights/flight?pk=1", Target("record", "flights.flight", "1")),
    ("db://flights/flight/1/notes", Target("file", "flights.flight", "1", field="notes")),
    ("db://flights/flight/1%2F2/%6Eotes", Target("file", "flights.flight", "1/2", field="notes")),
    ("db://flights/flight?pk=..&field=notes", Target("file", "flights.flight", "..", field="notes")),
    ("db://flights/flight?pk=1&field=notes",
     Target("collection", "flights.flight", query=(("pk", "1"), ("field", "notes")))),
    ("db://flights/flight?origin=JFK&limit=5",
     Target("collection", "flights.flight", query=(("origin", "JFK"), ("limit", "5")))),
    ("db://flights/flight?notes=a+b%20c", Target("collection", "flights.flight", query=(("notes", "a+b c"),))),
    ("db://flights/flight?origin", Target("collection", "flights.flight", query=(("origin", ""),))),
    ("db://flights/flight?", Target("collection", "flights.flight")),
    ("db://flights/flight?a=b=c", Target("collection", "flights.flight", query=(("a", "b=c"),))),
]  # fmt: skip


def test_a_uri_names() -> None:
    assert {uri: parse(uri) for uri, _ in TARGETS} == dict(TARGETS)


NOTHING = [
    "", "db://", "db://flights", "db://flights/", "db://flights/flight/", "db:///flight", "http://flights/flight",
    "DB://flights/flight", "db:flights/flight", "db://flights/flight/1/2", "db://flights/flight/.", "db://flights/flight/..",
    "db://flights/flight/%2E%2E", "db://flights/flight/%2e", "db://flights/flight/1#x", "db://flights/flight/1?limit=1",
    "db://flights/flight.schema/1", "db://flights/flight.schema?limit=1", "db://flights/flight.txt", "db://../flight",
    "db://user:pass@flights/flight", "db://flights:80/flight", "db://flights/flight\n", " db://flights/flight",
    "db://flights/flight//1", "db://flights/flight/1/", "db://flights/flight/1/notes/x", "db://flights/flight/1/..",
    "db://flights/flight/1/%2E%2E", "db://flights/flight/1/notes?x=1", "db://flights/flight/../notes",
    "file:///etc/passwd", "db://fl%2Fghts/flight", "db://flights/%2E%2E", "db://flights/fl%FFght", "db://flights/%",
    "db://flights/flight%00", "db://flights/1flight", "db://flights/flight%3Fpk=1", "db://flights%2Fflight/1",
]  # fmt: skip


def test_a_uri_that_names_nothing() -> None:
    assert [uri for uri in NOTHING if parse(uri) is not None] == []


def test_uris_of_a_model() -> None:
    assert collection_uri(Flight) == "db://flights/flight"
    assert schema_uri(Flight) == "db://flights/flight.schema"
    assert str(AnyUrl(schema_uri(Flight))) == "db://flights/flight.schema"


def test_a_record_is_read_by_its_uri_over_a_transport(admin: Peer) -> None:
    Tag.objects.bulk_create(Tag(name=key) for key in KEYS)

    by_uri = {key: admin.read(record_uri(Tag, key)) for key in KEYS}
    by_tool = {key: admin.call("get_record", model="shop.tag", id=key)["structuredContent"] for key in KEYS}

    assert by_uri == by_tool == {key: {"name": key} for key in KEYS}
    for key in ("", ".", ".."):
        assert admin.read(f"db://shop/tag?name={key}")["rows"] == [[key]]


def test_keys_that_the_template_of_a_record_cannot_hold_do_not_complete_it(db: None) -> None:
    Tag.objects.bulk_create(Tag(name=name) for name in ("", ".", "..", "..."))
    root = DirectPeer(User.objects.create_superuser("root"))
    reference = {"type": "ref/resource", "uri": "db://shop/tag/{name}"}

    def completed(typed: str) -> Any:
        asked = {"ref": reference, "argument": {"name": "name", "value": typed}}
        return root.result(MODERN, "completion/complete", asked)["completion"]

    assert completed("..") == {"values": ["..."], "hasMore": False}
    assert completed("...") == {"values": ["..."], "total": 1, "hasMore": False}
    assert completed("")["values"] == ["..."]
