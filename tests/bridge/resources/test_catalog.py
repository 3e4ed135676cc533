"""Collections, schemas and plain resources, as resources/list names them and resources/read gives them."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.test import override_settings
from pydantic import AnyUrl

from demo_project.flights.models import Flight, Plane
from mcp_django import resource, site
from mcp_django.push import subscriptions
from tests.bridge.resources.conftest import each, showing
from tests.shop.models import Tag
from tests.support.asking import DirectPeer, request_of
from tests.support.data import make_staff
from tests.support.declared import Declared
from tests.support.leaving import Leaving
from tests.support.peers import MODERN, REVISIONS, Peer

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("flights")]


def wrong(root: DirectPeer, uri: str) -> list[tuple[str, str]]:
    error = root.error(MODERN, "resources/read", {"uri": uri})
    assert error["data"]["reason"] == "RESOURCE_NOT_FOUND"
    assert error["data"]["uri"] == uri
    return [(entry["field"], entry["message"]) for entry in error["data"]["errors"]]


def test_a_collection_is_its_first_page(root: DirectPeer) -> None:
    read = root.read("db://flights/airline")

    assert read == {"model": "flights.airline", "columns": ["carrier", "name"],
                    "rows": [["AA", "American"], ["UA", "United"]]}  # fmt: skip


ASKED = [
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
    ("carrier__name=United&limit=2", [1, 3]),
    ("carrier__name__startswith=Am&origin__name__in=JFK,LGA", [4, 6, 10, 12]),
    ("plane__flights__count__gte=8&plane__flights__number=1004", [2, 3, 5, 6, 8, 9, 11, 12]),
    ("disruptions__isnull=true&id__lte=2", [1, 2]),
    ("carrier__exact=AA&limit=1", [2]),
    ("origin__exact=JFK&limit=1", [1]),
]  # fmt: skip


def test_a_collection_is_asked_by_its_query(root: DirectPeer) -> None:
    read = {query: root.read(f"db://flights/flight?fields=id&{query}") for query, _ in ASKED}

    assert {query: [row[0] for row in page["rows"]] for query, page in read.items()} == dict(ASKED)


def test_the_next_uri_leads_to_the_end(root: DirectPeer) -> None:
    uri: str | None = "db://Flights/flight?origin__in=EWR,LGA&order_by=-departs_at&limit=3&fields=id&search=n14"
    found = []

    while uri is not None:
        page = root.read(uri)
        found += [row[0] for row in page["rows"]]
        uri = page.get("next")
        assert uri is None or (str(AnyUrl(uri)) == uri and len(uri) < 1_000)

    assert found == [12, 11, 9, 8, 6, 5, 3, 2]


def test_the_next_uri_of_a_field_that_is_named_as_a_parameter_of_ours(root: DirectPeer) -> None:
    Plane.objects.create(
        tailnum="N2", type="Rotorcraft", manufacturer="BOEING", model="737", engines=1, seats=1, engine="4 Cycle"
    )

    for query in ("model=737", "model__icontains=7&order_by=seats", "manufacturer=BOEING"):
        first = root.read(f"db://flights/plane?limit=1&{query}")
        second = root.read(first["next"])
        assert sorted(row[0] for page in (first, second) for row in page["rows"]) == ["N14228", "N2"], query


WRONG = [
    ("nope=1", "nope"),
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
    ("any=1", "any"),
    ("all=1", "all"),
    ("not=1", "not"),
    ("total=yes", "total"),
    ("total=true&total=true", "total"),
    ("origin__nope=1", "origin__nope"),
    ("origin__name__nope=1", "origin__name__nope"),
    ("disruptions__count__gte=x", "disruptions__count__gte"),
    ("carrier__flights__origin__name=x", "carrier__flights__origin__name"),
    ("fields=origin__nope", "fields"),
    ("order_by=disruptions", "order_by"),
    ("order_by=id,number,status,distance,notes,tailnum", "order_by"),
    ("number=x", "number"),
    ("notes=%00", "notes"),
    ("search=%00", "search"),
    ("_connector=OR", "_connector"),
    ("=1", ""),
]  # fmt: skip


def test_a_query_that_cannot_be_asked_says_what_is_wrong(root: DirectPeer) -> None:
    found = {query: wrong(root, f"db://flights/flight?{query}") for query, _ in WRONG}

    assert {query: [field for field, _ in errors] for query, errors in found.items()} == {
        query: [field] for query, field in WRONG
    }
    assert found["origin=JFK&origin=EWR"][0][1] == "occurs twice in the query; for several values there is __in."
    assert found["not=1"][0][1] == "cannot be written in a URI: find_records takes it in its filter."


def test_bytes_that_are_no_text_find_nothing(root: DirectPeer) -> None:
    assert root.read("db://flights/flight?notes=%ff%ed%a0%80")["rows"] == []
    assert wrong(root, "db://shop/tag/%ff")


def test_a_limit_beyond_the_bound_is_cut_and_noted(root: DirectPeer) -> None:
    read = root.read(f"db://flights/flight?limit={'9' * 30}")

    assert len(read["rows"]) == 12
    assert read["notes"][0] == "A page holds at most 1000 rows (MAX_ROWS)."


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
    assert root.read("db://flights/flight.schema")["properties"]["plane"] == {
        "type": ["string", "null"], "description": "Primary key of a flights.plane.",
    }  # fmt: skip


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


def test_a_plain_resource_without_its_permission_does_not_exist(root: DirectPeer, declared: Declared) -> None:
    options = {"name": "secret", "mime_type": "x/y", "permission": "shop.view_product"}
    declared.resource("shop://secret", lambda request: "secret", **options)
    nobody = DirectPeer(make_staff("nobody"))

    hidden = nobody.error(MODERN, "resources/read", {"uri": "shop://secret"})
    absent = nobody.error(MODERN, "resources/read", {"uri": "shop://sxcret"})

    assert str(hidden).replace("secret", "sxcret") == str(absent)
    assert "shop://secret" not in str(nobody.result(MODERN, "resources/list"))
    assert root.result(MODERN, "resources/read", {"uri": "shop://secret"})["contents"] == [
        {"uri": "shop://secret", "mimeType": "x/y", "text": "secret"}
    ]


def test_a_plain_resource_that_fails_says_nothing_of_why(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: Any) -> str:
        raise ValueError("the password is hunter2")

    declared.resource("shop://broken", broken)

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


def test_a_query_asks_for_fields_of_related_rows_and_for_the_total(root: DirectPeer) -> None:
    Flight.objects.get(pk=1).disruptions.create(kind="crew")

    read = root.read("db://flights/flight?fields=origin__name,disruptions__count&total=true&limit=2&origin__name=JFK")

    assert read == {
        "model": "flights.flight", "columns": ["id", "origin__name", "disruptions__count"],
        "rows": [[1, "JFK", 1], [4, "JFK", 0]], "total": 4, "next": read["next"],
    }  # fmt: skip
    assert root.read(read["next"])["rows"] == [[7, "JFK", 0], [10, "JFK", 0]]
    assert "total" not in root.read("db://flights/flight?total=false")


NAMED: list[tuple[str, list[str]]] = [
    ("origin=JFK&order_by=-number&fields=id,origin&limit=5&total=true", []),
    ("origin__isnull=true&origin__in=JFK,EWR&origin__startswith=J", []),
    ("plane__model=737&fields=id,plane__seats", []),
    ("search=n", ["search"]),
    ("origin__name=JFK", ["origin__name"]),
    ("origin__name__startswith=J&carrier__flights__count__gte=1", ["origin__name__startswith",
                                                                  "carrier__flights__count__gte"]),
    ("disruptions__isnull=true", ["disruptions__isnull"]),
    ("fields=id,carrier__name", ["fields"]),
    ("fields=disruptions__count&order_by=-carrier__name", ["fields", "order_by"]),
    ("group_by=carrier&measures=count", []),
    ("group_by=carrier__name,origin__name&measures=avg:plane__seats,count:origin__faa&having.max:origin__altitude=1"
     "&order_by=-count:carrier__name", ["group_by", "having", "measures", "order_by"]),
]  # fmt: skip


def test_a_query_is_watched_unless_rows_decide_it_whose_changes_are_not_told(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for label in ("flights.airline", "flights.airport", "flights.disruption"):
        monkeypatch.setattr(site.models[label], "watch", False)

    for query, named in NAMED:
        uri = f"db://flights/flight?{query}"
        subscription = subscriptions.watch(site, uri)
        assert subscription is not None
        assert subscription.look(site, request_of(root.user)) is (named == []), query
        assert sorted(error["field"] for error in subscription.errors) == sorted(named), query
        assert "rows" in root.read(uri)


def test_a_next_uri_that_nobody_could_read_is_not_given(root: DirectPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    long = "&".join(f"notes__{lookup}={'n'}" for lookup in ("contains", "icontains", "startswith"))
    whole = root.read(f"db://flights/flight?limit=1&{long}")

    monkeypatch.setattr("mcp_django.bridge.resources.uris.MAX_URI", len(whole["next"]) - 1)
    cut = root.read(f"db://flights/flight?limit=1&{long}")
    monkeypatch.setattr("mcp_django.bridge.resources.uris.MAX_URI", len(whole["next"]))
    kept = root.read(f"db://flights/flight?limit=1&{long}")

    assert "next" not in cut
    assert cut["notes"] == ["There are more rows. Their URI would be too long: ask find_records for them."]
    assert len(kept["next"]) == len(whole["next"]) and root.read(kept["next"])["rows"][0][0] == 2


# For whom a resource is, and when it was changed.


def resources(peer: DirectPeer, revision: str = MODERN) -> dict[str, Any]:
    return {item["uri"]: item for item in peer.result(revision, "resources/list")["resources"]}


def content(peer: DirectPeer, revision: str = MODERN, **arguments: Any) -> Any:
    params = {"name": "get_record", "arguments": {"model": "flights.flight", **arguments}}
    return peer.result(revision, "tools/call", params)["content"]


def link(peer: DirectPeer, revision: str = MODERN, **arguments: Any) -> Any:
    return content(peer, revision, **arguments)[1:]


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_model_says_for_whom_it_is_and_when_it_was_changed(
    root: DirectPeer, declared: Declared, revision: str
) -> None:
    declared.model(
        Flight, fields=["number", "departs_at"], last_modified_field="departs_at",
        annotations={"audience": ["assistant"], "priority": 0.5},
    )  # fmt: skip
    said = {"audience": ["assistant"], "priority": 0.5}
    moment = {"lastModified": "2013-01-01T21:00:00Z"} if revision >= "2025-06-18" else {}

    listed = resources(root, revision)["db://flights/flight"]
    templates = root.result(revision, "resources/templates/list")["resourceTemplates"]
    [record, block] = content(root, revision, id=1)
    text = root.result(revision, "resources/read", {"uri": "db://flights/flight/1"})["contents"][0]["text"]

    assert listed["annotations"] == {**said, **moment} and "size" not in listed
    assert [item.get("annotations") for item in templates if item["uriTemplate"].startswith("db://flights/flight")] == [
        said, said, said,
    ]  # fmt: skip
    of_row = {"lastModified": "2013-01-01T10:00:00Z"} if revision >= "2025-06-18" else {}
    assert (record["text"], record["annotations"]) == (text, {**said, **of_row})
    if revision >= "2025-06-18":
        assert block == {
            "type": "resource_link", "uri": "db://flights/flight/1", "name": "flights.flight 1",
            "mimeType": "application/json", "size": len(text.encode()),
            "annotations": {**said, "lastModified": "2013-01-01T10:00:00Z"},
        }  # fmt: skip
    else:
        assert block == {"type": "text", "text": "flights.flight 1: db://flights/flight/1", "annotations": said}


def test_without_options_nothing_is_said_and_nothing_is_linked(root: DirectPeer) -> None:
    assert "annotations" not in resources(root)["db://flights/flight"]
    assert link(root, id=1) == []


def test_the_newest_row_is_the_newest_that_the_user_may_see(root: DirectPeer, declared: Declared) -> None:
    declared.model(
        Flight, showing(lambda every: every.filter(pk__lte=2), fields=("departs_at",), last_modified_field="departs_at")
    )

    assert resources(root)["db://flights/flight"]["annotations"] == {"lastModified": "2013-01-01T11:00:00Z"}
    Flight.objects.all().delete()
    assert "annotations" not in resources(root)["db://flights/flight"]


def test_a_moment_that_the_user_may_not_read_is_not_told(root: DirectPeer, declared: Declared) -> None:
    options: list[Any] = [{"fields": ["number"]}, {"fields": ["number", "departs_at"], "exclude": ["departs_at"]}]
    for shown in options:
        declared.close()
        declared.model(Flight, last_modified_field="departs_at", **shown)
        assert "annotations" not in resources(root)["db://flights/flight"], shown
        assert link(root, id=1) == [], shown


def test_the_newest_of_rows_that_are_asked_one_by_one_is_not_told(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, each(lambda obj: obj.pk == 1, fields=("departs_at",), last_modified_field="departs_at"))

    assert "annotations" not in resources(root)["db://flights/flight"]
    assert link(root, id=1)[0]["annotations"] == {"lastModified": "2013-01-01T10:00:00Z"}


def test_a_link_says_a_size_only_of_a_whole_record(root: DirectPeer, declared: Declared) -> None:
    declared.model(Flight, fields=["number", "notes"], annotations={"priority": 1})

    assert "size" in link(root, id=1)[0] and "size" not in link(root, id=1, fields=["number"])[0]


def test_annotations_that_no_client_could_read_are_left_out(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    declared.model(Flight, fields=["number"], annotations={"audience": "user"})

    assert "annotations" not in resources(root)["db://flights/flight"]
    assert "annotations are not valid" in caplog.text


def test_a_plain_resource_says_when_it_was_changed_and_how_long_it_is(root: DirectPeer, declared: Declared) -> None:
    moment = datetime.datetime(2013, 1, 31, 12, tzinfo=datetime.UTC)
    declared.resource(
        "shop://terms", lambda request: "x" * 7, name="terms", size=7, annotations={"priority": 1},
        last_modified=lambda request: moment if request.user.username == "root" else None,
    )  # fmt: skip
    declared.resource("shop://order/{id}", lambda request, id: id, name="order", annotations={"audience": ["user"]})

    templates = root.result(MODERN, "resources/templates/list")["resourceTemplates"]

    assert resources(root)["shop://terms"] == {
        "uri": "shop://terms", "name": "terms", "mimeType": "text/plain", "size": 7,
        "annotations": {"priority": 1, "lastModified": "2013-01-31T12:00:00Z"},
    }  # fmt: skip
    assert resources(DirectPeer(make_staff("nobody")))["shop://terms"]["annotations"] == {"priority": 1}
    assert [item["annotations"] for item in templates if item["uriTemplate"].startswith("shop:")] == [
        {"audience": ["user"]}
    ]


def test_a_plain_resource_that_does_not_know_when_it_was_changed_is_listed(
    root: DirectPeer, declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(request: Any) -> Any:
        raise ValueError("nobody knows")

    declared.resource("shop://terms", lambda request: "x", name="terms", last_modified=broken)

    assert "annotations" not in resources(root)["shop://terms"]
    assert "last_modified of shop://terms failed" in caplog.text


UNREADABLE: list[tuple[str, dict[str, Any]]] = [
    ("shop://x", {"annotations": {"priority": 2}}),
    ("shop://x", {"annotations": {"audience": ["everybody"]}}),
    ("shop://x", {"annotations": {"lastModified": "2013"}}),
    ("shop://{x}", {"annotations": {"priority": "high"}}),
    ("shop://{x}", {"size": 1}),
    ("shop://{x}", {"last_modified": lambda request: None}),
]  # fmt: skip


def test_options_that_no_client_could_read_are_refused() -> None:
    for uri, options in UNREADABLE:
        with pytest.raises(ImproperlyConfigured, match="shop://"):
            resource(uri, **options)(lambda request, x="": x)


def test_a_database_that_goes_away_makes_no_list_shorter(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaving = Leaving("flights.flight", monkeypatch)

    for method in ("resources/list", "resources/templates/list", "tools/list"):
        whole = admin.result(MODERN, method)
        leaving.times = 1
        assert admin.error(MODERN, method)["code"] == -32603, method
        assert admin.result(MODERN, method) == whole, method
