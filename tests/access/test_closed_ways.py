"""Attempts to read by another way what an administrator has switched off, or left to members of some groups."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from demo_project.flights.models import Airline, Flight
from mcp_django import ModelMCP, site
from mcp_django.access import overrides
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.console.review import inventory
from mcp_django.models import Tool
from mcp_django.push.live_answers import Viewer
from mcp_django.push.sight import Sight
from mcp_django.push.subscriptions import watch
from tests.shop.models import Document
from tests.support.asking import DirectPeer, listed, request_of
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.django_db

EXPORT = "flights_flight_export_as_csv"

URIS: dict[ways.Way, list[str]] = {
    "collection": ["db://flights/flight", "db://flights/flight?origin=JFK", "db://flights/flight?limit=1"],
    "aggregate": ["db://flights/flight?group_by=origin", "db://flights/flight?measures=count&origin=JFK"],
    "record": ["db://flights/flight/1", "db://flights/flight?pk=1"],
    "file": ["db://shop/document/a/scan"],
    "schema": ["db://flights/flight.schema"],
}
TOOLS = sorted(set(ways.TOOLS.values()))


@pytest.fixture
def root(declared: Declared) -> DirectPeer:
    make_flights(12)
    Document.objects.create(name="a", scan=b"bytes")
    declared.model(Document, fields="__all__")
    return DirectPeer(User.objects.create_superuser("root"))


def off(name: str) -> None:
    Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": False})


def left_to_a_group(name: str) -> None:
    tool, _ = Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True})
    tool.groups.set([Group.objects.get_or_create(name="analysts")[0]])


CLOSING = [off, left_to_a_group]


def reopen(name: str) -> None:
    Tool.objects.get(name=name).groups.clear()
    Tool.objects.filter(name=name).update(enabled=True, restricted=False)
    overrides.forget()


def closed(tool: str) -> set[str]:
    """The ways that end with a tool."""
    return {way for way, name in ways.TOOLS.items() if name == tool}


def can_read(peer: DirectPeer, uri: str) -> bool:
    return "result" in peer.request(MODERN, "resources/read", {"uri": uri})


def open_ways(peer: DirectPeer) -> set[str]:
    """The ways by which each URI can be read. The test fails if some URIs of a way can be read and others not."""
    read = {way: {can_read(peer, uri) for uri in found} for way, found in URIS.items()}
    assert all(len(answers) == 1 for answers in read.values()), read
    return {way for way, answers in read.items() if answers == {True}}


def rights_of(peer: DirectPeer) -> Rights:
    return Rights.of(site, request_of(peer.user))


@pytest.fixture(autouse=True)
def nothing_remembered() -> None:
    overrides.forget()


def test_each_way_names_a_tool_that_there_is() -> None:
    assert set(URIS) == set(ways.TOOLS)
    assert set(ways.TOOLS.values()) <= set(site.tools)


def test_reading_by_uri_what_a_closed_tool_gave(root: DirectPeer) -> None:
    absent = root.request(MODERN, "resources/read", {"uri": "db://flights/nothing"})["error"]
    assert open_ways(root) == set(ways.TOOLS)

    for tool, close in product(TOOLS, CLOSING):
        close(tool)
        assert open_ways(root) == set(ways.TOOLS) - closed(tool), (tool, close)
        for way in closed(tool):
            refused = root.request(MODERN, "resources/read", {"uri": URIS[way][0]})["error"]
            assert (refused["code"], refused["message"]) == (absent["code"], absent["message"])
        reopen(tool)


def test_members_of_the_group_read_on(root: DirectPeer) -> None:
    left_to_a_group("find_records")
    root.user.groups.add(Group.objects.get(name="analysts"))

    assert open_ways(root) == set(ways.TOOLS)


def test_a_closed_way_stands_in_no_list(root: DirectPeer) -> None:
    for tool in TOOLS:
        off(tool)
        resources = [one["uri"] for one in root.result(MODERN, "resources/list")["resources"]]
        templates = [one["uriTemplate"] for one in root.result(MODERN, "resources/templates/list")["resourceTemplates"]]
        queries = [uri for uri in templates if uri.startswith("db://flights/flight{?") and "group_by" not in uri]
        shown = {
            "find_records": "db://flights/flight" in resources,
            "get_record": "db://flights/flight/{id}" in templates,
            "aggregate_records": any(uri.startswith("db://flights/flight{?group_by") for uri in templates),
            "describe_models": "db://{app_label}/{model}.schema" in templates,
        }
        assert shown == {name: name != tool for name in TOOLS}
        assert bool(queries) == (tool != "find_records")
        reopen(tool)


def test_subscribing_to_what_a_closed_tool_gave(root: DirectPeer) -> None:
    def watched() -> set[str]:
        found = {}
        for way, of_way in URIS.items():
            subscriptions = [watch(site, uri) for uri in of_way]
            found[way] = {one is not None and one.look(site, request_of(root.user)) for one in subscriptions}
        return {way for way, answers in found.items() if answers == {True}}

    assert watched() == set(ways.TOOLS)
    for tool in TOOLS:
        off(tool)
        overrides.forget()
        assert watched() == set(ways.TOOLS) - closed(tool)
        reopen(tool)


def test_being_notified_by_a_subscription_from_before(root: DirectPeer) -> None:
    subscriptions = {way: watch(site, of_way[0]) for way, of_way in URIS.items()}
    live = {way: uris.parse(URIS[way][1]) for way in ("collection", "aggregate")}

    for tool in TOOLS:
        off(tool)
        overrides.forget()
        sight, viewer = Sight(rights_of(root), []), Viewer(site, request_of(root.user))
        seen = {way for way, one in subscriptions.items() if one is not None and sight.model(one) is not None}
        answered = {way for way, target in live.items() if target is not None and viewer.sees(target)}
        assert seen == set(ways.TOOLS) - closed(tool)
        assert answered == seen & live.keys()
        reopen(tool)


def test_a_resource_of_the_project_is_watched_whatever_is_closed(root: DirectPeer, declared: Declared) -> None:
    declared.resource("shop://board", lambda request: "x", watch=[Flight], name="board")
    off("find_records")
    subscription = watch(site, "shop://board")

    assert subscription is not None and subscription.look(site, request_of(root.user))
    [part] = subscription.parts
    assert Sight(rights_of(root), [subscription]).model(part) is not None


def completed(peer: DirectPeer, template: str, name: str, typed: str = "") -> Any:
    params = {"ref": {"type": "ref/resource", "uri": template}, "argument": {"name": name, "value": typed}}
    answer = peer.request(MODERN, "completion/complete", params)
    return answer["result"]["completion"]["values"] if "result" in answer else None


def template(peer: DirectPeer, parameter: str) -> str:
    """The template of queries of flights whose first parameter is this one, or of rows."""
    found = peer.result(MODERN, "resources/templates/list")["resourceTemplates"]
    of_flights = [one["uriTemplate"] for one in found if one["uriTemplate"].startswith("db://flights/flight{?")]
    return next(uri for uri in of_flights if ("{?group_by" in uri) == bool(parameter))


def test_listing_keys_by_completion_with_find_records_closed(root: DirectPeer) -> None:
    groups, query = template(root, "group_by"), template(root, "")
    assert completed(root, groups, "origin", "J") == ["JFK"]
    off("find_records")

    assert completed(root, "db://flights/flight/{id}", "id", "1") == []
    assert completed(root, groups, "origin", "J") == []
    assert completed(root, groups, "status", "c") == ["cancelled"]
    assert completed(root, query, "origin", "J") is None


def test_completing_a_template_that_is_closed(root: DirectPeer) -> None:
    def refused(uri: str) -> str:
        params = {"ref": {"type": "ref/resource", "uri": uri}, "argument": {"name": "id", "value": ""}}
        return str(root.request(MODERN, "completion/complete", params)["error"]["message"])

    templates = {
        "get_record": "db://flights/flight/{id}", "describe_models": "db://{app_label}/{model}.schema",
        "find_records": "db://flights/flight",
    }  # fmt: skip
    for tool in templates:
        off(tool)

    assert {refused(uri) for uri in templates.values()} == {refused("db://flights/nothing/{id}")}


def test_listing_rows_by_the_suggestions_for_unknown_keys(root: DirectPeer) -> None:
    Airline.objects.filter(pk="UA").update(name="United")
    asked = {"model": "flights.airline", "id": "United"}
    assert "UA" in json.dumps(root.call("get_record", **asked))
    off("find_records")

    assert "UA" not in json.dumps(root.call("get_record", **asked))
    assert "UA" not in json.dumps(root.call("aggregate_records", model="flights.flight", filter={"carrier": "United"}))


def test_finding_rows_by_the_filter_of_an_action(root: DirectPeer) -> None:
    switch_on(EXPORT)
    assert set(listed(root, EXPORT)["inputSchema"]["properties"]) == {"ids", "filter", "pages"}
    off("find_records")

    refused = root.call(EXPORT, filter={"id": 1})

    assert refused["isError"] and "give ids" in refused["content"][0]["text"]
    assert set(listed(root, EXPORT)["inputSchema"]["properties"]) == {"ids", "pages"}
    assert "filter" not in listed(root, EXPORT)["description"]
    assert not root.call(EXPORT, ids=["1"])["isError"]


def test_no_text_names_a_closed_tool(root: DirectPeer, declared: Declared) -> None:
    class EachAirline(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return obj is None or obj.pk == "UA"

    declared.model(Airline, EachAirline)
    Flight.objects.update(notes="x" * 5_000)
    switch_on(EXPORT, "flights_flight_mark_cancelled")

    calls: list[tuple[str, Any]] = [
        ("describe_models", {}),
        ("describe_models", {"model": "flights.flight"}),
        ("find_records", {"model": "flights.flight", "fields": ["notes"], "limit": 2}),
        ("find_records", {"model": "flights.airport", "fields": ["departures"], "filter": {"faa": "IAH"}}),
        ("aggregate_records", {"model": "flights.flight", "group_by": ["origin"]}),
        ("aggregate_records", {"model": "flights.airline"}),
        ("get_record", {"model": "flights.flight", "id": "1"}),
    ]

    for tool in TOOLS:
        off(tool)
        lists = ("tools/list", "server/discover", "resources/list", "resources/templates/list")
        texts = [root.result(MODERN, method) for method in lists]
        texts += [root.call(name, **arguments) for name, arguments in calls if name != tool]
        assert [text for text in map(json.dumps, texts) if tool in text] == []
        reopen(tool)


def test_the_inventory_of_what_is_declared_asks_no_database() -> None:
    off("find_records")

    assert "filter" in inventory.build(site)["tools"][EXPORT]["arguments"]
