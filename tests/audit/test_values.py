"""Values in the audit trail: those that the project allows by name, and no other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured

from demo_project.flights.models import Flight
from mcp_django import ModelMCP, tool
from tests.audit.conftest import Rows
from tests.support.base import MODERN
from tests.support.data import token_of
from tests.support.peers import Peers


class Audited(ModelMCP):
    fields = ["number", "distance", "status"]
    audit_fields = ["number", "status", "notes"]


def test_the_values_of_allowed_fields_in_filters(
    peers: Peers, users: Any, flights: Any, rows: Rows, declared: Any
) -> None:
    declared.model(Flight, Audited)
    peer = peers(token_of(users.admin))

    either = [{"status": "on_time"}, {"not": {"number__gte": 9}}]
    filters = {"number__in": [1001, 1002], "distance__gt": 5, "any": either}
    peer.call("find_records", model="flights.flight", filter=filters)
    peer.read("db://flights/flight?number=1003&distance=1")

    found = [json.loads(row["values"]) for row in rows("values")]
    assert found == [{"number__in": [1001, 1002], "status": "on_time", "number__gte": 9}, {"number": "1003"}]


def test_naming_a_field_that_the_policy_hides(
    peers: Peers, users: Any, flights: Any, rows: Rows, declared: Any
) -> None:
    declared.model(Flight, Audited)

    arguments = {"model": "flights.flight", "filter": {"notes": "x"}}

    peers(token_of(users.admin)).request(MODERN, "tools/call", {"name": "find_records", "arguments": arguments})

    assert rows("values") == [{"values": ""}]


def test_the_values_of_allowed_arguments(peers: Peers, users: Any, rows: Rows, declared: Any) -> None:
    def move(request: Any, reason: str, note: str, seats: list[int]) -> str:
        """Moves."""
        return "Done"

    declared.tool(move, audit=["reason", "seats"])

    peers(token_of(users.ops)).call("move", reason="r" * 500, note="private", seats=[1, 2])

    [row] = rows("values", "arguments")
    assert json.loads(row["values"]) == {"reason": "r" * 100 + "…", "seats": [1, 2]}
    assert json.loads(row["arguments"]) == ["reason", "note", "seats"]


@pytest.mark.parametrize(("name", "said"), [("other", "other"), ("password", "secret")])
def test_an_argument_that_is_unknown_or_a_secret_cannot_be_named(name: str, said: str) -> None:
    def enter(request: Any, password: str) -> str:
        """Enters."""
        return ""

    with pytest.raises(ImproperlyConfigured, match=said):
        tool(audit=[name])(enter)
