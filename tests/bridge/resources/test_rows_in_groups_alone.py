"""Attempts to read single rows of a model that is shown in groups alone (``rows = False``)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import override_settings
from rest_framework import serializers

from demo_project.flights.models import Airport, Flight
from mcp_django import site
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.completers import complete_key
from mcp_django.console.review import inventory
from mcp_django.push.live_answers import Viewer
from mcp_django.push.subscriptions import watch
from tests.bridge.resources.serializers.conftest import AirportSerializer, fields_of
from tests.shop.models import Making, Part, Supplier
from tests.support.asking import DirectPeer, described, errors_of, listed, request_of, rights_on
from tests.support.data import make_flights, switch_on
from tests.support.declared import Declared
from tests.support.peers import MODERN

pytestmark = pytest.mark.every_database

CANCEL = "flights_flight_mark_cancelled"


def declare(declared: Declared, airports: Any = None, flights: Any = None) -> None:
    """Declare the two models, with other options than those of most tests."""
    declared.close()
    alone = {"fields": "__all__", "search_fields": ["name"], "rows": False}
    by_airport = {"search_fields": ["notes", "origin__name"], "ordering": ["origin__name", "id"]}
    declared.model(Airport, **(alone if airports is None else airports))
    declared.model(Flight, **{"fields": "__all__", **(by_airport if flights is None else flights)})


@pytest.fixture
def root(db: None, declared: Declared) -> DirectPeer:
    """Sees airports in groups alone, and flights one by one."""
    make_flights(12)
    declare(declared)
    return DirectPeer(User.objects.create_superuser("root"))


def test_asking_a_tool_for_rows(root: DirectPeer) -> None:
    questions: list[tuple[str, Any]] = [
        ("find_records", {}), ("find_records", {"filter": {"faa": "JFK"}}), ("get_record", {"id": "JFK"}),
    ]  # fmt: skip
    for tool, arguments in questions:
        [error] = errors_of(root.call(tool, model="flights.airport", **arguments))
        assert error["message"] == "rows of flights.airport are shown in groups alone: ask aggregate_records."
        assert "flights.airport" not in listed(root, tool)["inputSchema"]["properties"]["model"]["enum"]


def test_asking_a_uri_for_rows(root: DirectPeer) -> None:
    for ending in ("", "?faa=JFK", "/JFK", "?pk=JFK"):
        uri = f"db://flights/airport{ending}"
        subscription = watch(site, uri)
        assert "error" in root.request(MODERN, "resources/read", {"uri": uri}), uri
        assert subscription is not None and not subscription.look(site, request_of(root.user)), uri


def test_no_list_offers_rows(root: DirectPeer) -> None:
    resources = root.result(MODERN, "resources/list")["resources"]
    templates = root.result(MODERN, "resources/templates/list")["resourceTemplates"]

    assert not [one for one in resources if one["uri"] == "db://flights/airport"]
    [only] = [one["uriTemplate"] for one in templates if "/airport" in one["uriTemplate"]]
    assert only.startswith("db://flights/airport{?group_by")


def test_groups_are_shown_from_five_rows_on(root: DirectPeer) -> None:
    for number in range(6):
        Airport.objects.create(faa=f"X{number}", name="x", latitude=1, longitude=1, altitude=number, utc_offset=3)

    asked = {"model": "flights.airport", "group_by": ["utc_offset"], "measures": ["count", "avg:altitude"]}
    table = root.call("aggregate_records", **asked)["structuredContent"]
    by_key = root.call("aggregate_records", model="flights.airport", group_by=["faa"])["structuredContent"]

    assert (table["rows"], by_key["rows"]) == ([[3, 6, 2.5]], [])
    assert root.read("db://flights/airport?group_by=utc_offset")["rows"] == [[3, 6]]
    target = uris.parse("db://flights/airport?group_by=utc_offset")
    assert target is not None and Viewer(site, request_of(root.user)).sees(target)


def test_a_group_of_one_row_is_never_shown(root: DirectPeer, declared: Declared) -> None:
    for own, setting, smallest in ((1, 1, 2), (None, 1, 5), (None, 10, 10), (3, 1, 3), (20, 1, 20)):
        declare(declared, airports={"fields": "__all__", "rows": False, "min_group_rows": own})
        with override_settings(MCP={"MIN_GROUP_ROWS": setting}):
            assert rights_on(Airport, root.user).smallest_group == smallest, (own, setting)


THROUGH = [
    {"fields": ["origin__name"]},
    {"fields": ["origin__pk"]},
    {"order_by": ["origin__altitude"]},
    {"filter": {"origin__altitude": 10}},
    {"filter": {"origin__name__startswith": "J"}},
    {"filter": {"origin": {"altitude": 10}}},
    {"filter": {"not": {"any": [{"origin__altitude__lt": 10}]}}},
]


def test_reading_a_row_through_the_rows_that_point_to_it(root: DirectPeer) -> None:
    for asked in THROUGH:
        assert errors_of(root.call("find_records", model="flights.flight", **asked)), asked
    for asked in THROUGH_GROUPS:
        assert errors_of(root.call("aggregate_records", model="flights.flight", **asked)), asked


THROUGH_GROUPS: list[dict[str, Any]] = [
    {"group_by": ["origin__name"]}, {"measures": ["avg:origin__altitude"]}, {"filter": {"origin__altitude": 10}},
    {"conditions": {"low": {"origin__altitude__lt": 9}}, "measures": ["count@low"]},
    {"group_by": ["origin"], "having": {"max:origin__altitude__gt": 1}},
]  # fmt: skip


POINTED_TO: list[dict[str, Any]] = [
    {"fields": ["departures"]}, {"fields": ["departures__number"]}, {"fields": ["departures__count"]},
    {"filter": {"departures__number": 1000}}, {"filter": {"departures": {"number": 1000}}},
    {"filter": {"departures__count__gte": 1}}, {"filter": {"departures__isnull": False}},
    {"order_by": ["departures__count"]},
]  # fmt: skip


def test_reading_a_row_through_the_row_that_it_points_to(root: DirectPeer, declared: Declared) -> None:
    declare(declared, airports={"fields": "__all__"}, flights={"rows": False})

    for asked in POINTED_TO:
        assert errors_of(root.call("find_records", model="flights.airport", **asked)), asked


def test_reading_a_row_that_joins_two_others(root: DirectPeer, declared: Declared) -> None:
    declared.model(Making, fields="__all__", rows=False)
    declared.model(Part, fields="__all__")
    declared.model(Supplier, fields="__all__")
    part = Part.objects.create(name="p")
    Making.objects.create(part=part, maker=Supplier.objects.create(name="s"))

    assert errors_of(root.call("find_records", model="shop.part", fields=["makers"]))
    assert "makers" not in root.call("get_record", model="shop.part", id=str(part.pk))["structuredContent"]


def test_neither_a_search_nor_a_declared_order_through_others_reveals_a_row_whose_key_they_hold(
    root: DirectPeer,
) -> None:
    Airport.objects.filter(faa="JFK").update(name="ZZZ")

    def found(**asked: Any) -> Any:
        return root.call("find_records", model="flights.flight", **asked)["structuredContent"]["rows"]

    assert described(root)["search_fields"] == ["notes"]
    assert found(search="JFK") == []
    assert found(fields=["id"], limit=3) == [[1], [2], [3]]
    assert found(fields=["origin"], filter={"origin": "JFK"}, limit=1) == [[1, "JFK"]]
    assert root.call("get_record", model="flights.flight", id="1")["structuredContent"]["origin"] == "JFK"


def test_guessing_keys(root: DirectPeer) -> None:
    """A key that is there and one that is not are answered alike, and none is suggested."""
    answers = {
        key: json.dumps(root.call("aggregate_records", model="flights.flight", filter={"destination": key}))
        for key in ("LGA", "XYZ")
    }

    assert answers["LGA"] == answers["XYZ"].replace("XYZ", "LGA")
    assert complete_key(rights_on(Airport, root.user), "").values == []


def test_finding_rows_by_the_filter_of_an_action(root: DirectPeer, declared: Declared) -> None:
    switch_on(CANCEL)
    assert errors_of(root.call(CANCEL, filter={"origin__altitude": 10}))
    declare(declared, flights={"rows": False})

    refused = root.call(CANCEL, filter={"id": 1})

    assert "single rows of flights.flight are not shown" in refused["content"][0]["text"]
    assert set(listed(root, CANCEL)["inputSchema"]["properties"]) == {"ids", "pages", "confirm"}


def test_reading_a_row_by_the_serializer_of_another(root: DirectPeer, declared: Declared) -> None:
    cls = fields_of(
        Flight, "number", "origin", name=serializers.CharField(source="origin.name"),
        whole=AirportSerializer(source="origin"), text=serializers.CharField(source="origin"),
        words=serializers.StringRelatedField(source="origin"),
        slug=serializers.SlugRelatedField(source="origin", slug_field="name", read_only=True),
        key=serializers.PrimaryKeyRelatedField(source="origin", read_only=True),
    )  # fmt: skip
    declare(declared, flights={"serializer_class": cls})

    record = root.call("get_record", model="flights.flight", id="1")["structuredContent"]

    assert record == {"number": 1000, "origin": "JFK", "text": "JFK", "words": "JFK", "key": "JFK"}
    assert root.read("db://flights/flight/1") == record


def test_reading_a_row_by_a_property_of_another(
    root: DirectPeer, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Flight, "base", property(lambda flight: flight.origin), raising=False)
    monkeypatch.setattr(Flight, "bases", property(lambda flight: Airport.objects.all()), raising=False)
    cls = fields_of(
        Flight, "number", name=serializers.ReadOnlyField(source="base.name"),
        whole=AirportSerializer(source="base"), all=AirportSerializer(source="bases", many=True),
    )  # fmt: skip
    declare(declared, flights={"serializer_class": cls})

    record = root.call("get_record", model="flights.flight", id="1")["structuredContent"]

    assert record == {"number": 1000, "name": None}


def test_an_agent_and_an_administrator_are_told(root: DirectPeer) -> None:
    about = described(root, "flights.airport")

    assert about["notes"] == ["Its rows are shown in groups of 5 and more, and never one by one."]
    assert [example["tool"] for example in about["examples"]] == ["aggregate_records"]
    assert inventory.build(site)["models"]["flights.airport"]["rows"] == "groups of 5 alone"
