"""Answers say that a rule of the project limits the rows, as a fact of the rule and not of the rows."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest

from demo_project.flights.models import Airport, Flight, Plane
from mcp_django import ModelMCP
from mcp_django.bridge.resources import uris
from mcp_django.push.live_answers import Viewer
from tests.bridge.resources.conftest import showing
from tests.support.asking import DirectPeer, described, request_of
from tests.support.data import make_flights, make_staff
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

VIEWS = [f"flights.view_{name}" for name in ("airline", "airport", "disruption", "flight", "plane")]
OF_FLIGHTS = "A rule of this project limits which rows of flights.flight you see."


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


@pytest.fixture
def ops(root: DirectPeer) -> DirectPeer:
    """Sees the flights from JFK, and all airports."""
    user = make_staff("ops", *VIEWS)
    user.groups.create(name="JFK operations")
    return DirectPeer(user)


def notes(peer: DirectPeer, tool: str = "find_records", model: str = "flights.flight", **asked: Any) -> list[str]:
    found: list[str] = peer.call(tool, model=model, **asked)["structuredContent"].get("notes", [])
    return [note for note in found if not note.startswith("Left out")]


def test_rows_limited_by_a_rule_have_a_note(ops: DirectPeer) -> None:
    assert notes(ops, filter={"origin": "EWR"}) == [OF_FLIGHTS]
    assert notes(ops, "aggregate_records", filter={"origin": "EWR"}) == [OF_FLIGHTS]
    assert ops.read("db://flights/flight?origin=EWR")["notes"] == [OF_FLIGHTS]
    assert ops.read("db://flights/flight?group_by=origin")["notes"] == [OF_FLIGHTS]
    assert OF_FLIGHTS in described(ops)["notes"]


def test_the_note_is_the_same_whether_or_not_a_row_is_hidden(ops: DirectPeer) -> None:
    before = notes(ops, filter={"origin": "JFK"})
    Flight.objects.exclude(origin="JFK").delete()

    assert before == notes(ops, filter={"origin": "JFK"}) == notes(ops, filter={"id": 99}) == [OF_FLIGHTS]


def test_who_sees_every_row_gets_no_note(root: DirectPeer) -> None:
    assert notes(root, filter={"origin": "EWR"}) == notes(root, "aggregate_records") == []
    assert "notes" not in root.read("db://flights/flight?origin=EWR&fields=number")
    assert OF_FLIGHTS not in str(described(root))


LEADING: list[dict[str, Any]] = [
    {"filter": {"departures__count__gte": 1}}, {"filter": {"departures": {"status": "cancelled"}}},
    {"filter": {"not": {"any": [{"departures__number": 1}]}}}, {"fields": ["departures__count"]},
]  # fmt: skip


def test_a_related_model_that_the_query_leads_to_is_named(ops: DirectPeer) -> None:
    for asked in LEADING:
        assert notes(ops, model="flights.airport", **asked) == [OF_FLIGHTS], asked
    assert notes(ops, model="flights.airport", filter={"name": "JFK"}) == []


def test_a_record_names_the_models_that_its_fields_lead_to(ops: DirectPeer, root: DirectPeer) -> None:
    def texts(peer: DirectPeer, model: str, key: str, *fields: str) -> list[str]:
        return [block["text"] for block in peer.call("get_record", model=model, id=key, fields=fields)["content"][1:]]

    assert texts(ops, "flights.airport", "EWR", "departures") == [OF_FLIGHTS]
    assert texts(ops, "flights.airport", "EWR", "name") == texts(ops, "flights.flight", "1") == []
    assert texts(root, "flights.airport", "EWR", "departures") == []


def test_a_record_that_is_not_found_says_it_whether_or_not_it_is_hidden(ops: DirectPeer, root: DirectPeer) -> None:
    def error(peer: DirectPeer, key: str) -> str:
        text = peer.call("get_record", model="flights.flight", id=key)["content"][0]["text"]
        return str(json.loads(text)["error"])

    assert error(ops, "2") == error(ops, "99") == f"There is no such record. {OF_FLIGHTS}"
    assert error(root, "99") == "There is no such record."


def test_groups_and_measures_name_the_models_that_they_lead_to(ops: DirectPeer) -> None:
    asked = {"group_by": ["flight__origin"], "measures": ["count"]}

    assert notes(ops, "aggregate_records", model="flights.disruption", **asked) == [OF_FLIGHTS]
    assert notes(ops, "aggregate_records", model="flights.disruption", measures=["max:flight__distance"]) == [
        OF_FLIGHTS
    ]


def test_each_model_is_named_once_in_one_line(ops: DirectPeer, declared: Declared) -> None:
    declared.model(Airport, showing(lambda every: every.filter(pk="JFK")))

    [line] = notes(ops, filter={"origin__name": "x", "destination__name": "x", "origin": "JFK"})

    assert line == "A rule of this project limits which rows of flights.flight, flights.airport you see."


def test_probing_for_a_hidden_model_by_the_notes(root: DirectPeer, declared: Declared) -> None:
    class Hidden(ModelMCP):
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return False

        def get_queryset(self, request: HttpRequest) -> Any:
            return super().get_queryset(request).filter(pk="N14228")

    declared.model(Plane, Hidden)

    assert notes(root) == []
    assert "flights.plane" not in str(described(root))


def test_the_note_is_no_part_of_a_watched_answer(ops: DirectPeer, root: DirectPeer) -> None:
    """Otherwise somebody whose rule is lifted would be told of an answer that is the same as before."""
    target = uris.parse("db://flights/flight?origin=JFK")
    assert target is not None

    digests = {Viewer.of(peer.site, request_of(peer.user)).answer(target).digest for peer in (ops, root)}  # type: ignore[union-attr]

    assert len(digests) == 1
