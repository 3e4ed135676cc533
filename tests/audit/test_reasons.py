"""The reason of each failure, and the names that it has."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.db import IntegrityError
from django.http import HttpRequest

import mcp_django
from demo_project.flights.models import Flight
from mcp_django.access.permissions import Decision
from mcp_django.access.refused_tokens import REFUSALS
from mcp_django.bridge.changes import confirmations
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.exceptions import MCPError, ToolError, field_error
from mcp_django.models import Call
from mcp_django.models.reasons import REASONS
from tests.audit.conftest import Rows
from tests.bridge.writes.conftest import Writer
from tests.support.base import LEGACY, MODERN
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peers

ACTION = "flights_flight_mark_cancelled"
#: An exception of a project may have a ``reason`` of its own, with a value in it.
VALUE = "4711-secret"
UPDATE: dict[str, Any] = {"model": "flights.flight", "id": "1", "values": {"distance": 1}}


class Broken(Exception):
    reason = VALUE
    errors = (field_error(VALUE, VALUE, VALUE),)


def book(request: HttpRequest, flight: Flight, seats: int) -> str:
    """Book seats, in one of the ways that fail."""
    raised: dict[int, BaseException] = {
        1: Broken(VALUE), 2: PermissionDenied(VALUE), 3: ObjectDoesNotExist(VALUE), 4: ToolError(VALUE),
        5: ToolError(VALUE, [field_error("seats.0", VALUE), field_error(VALUE, VALUE)]),
        6: ToolError(VALUE, reason="NO_SEATS"), 7: IntegrityError(VALUE), 8: SystemExit(VALUE),
        9: ToolError(VALUE, ["no mapping", {"field": 7}]),  # type: ignore[list-item,typeddict-item]
    }  # fmt: skip
    raise raised[seats]


def invite(request: HttpRequest, flight: Flight, word: str = "") -> str:
    """Invite, in one of the ways that fail."""
    raise {"a": ToolError(VALUE), "b": ObjectDoesNotExist(VALUE), "c": Broken(VALUE)}[word]


#: A call of a tool → its outcome, its reason and what the reason names.
CALLS: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
    ("find_records", {"model": "flights.flight", "limit": "many"}, ("failed", "INVALID_ARGUMENTS", "limit")),
    ("find_records", {"model": "flights.flight", VALUE: 1}, ("failed", "INVALID_ARGUMENTS", "*")),
    ("find_records", {"model": VALUE}, ("failed", "INVALID_ARGUMENTS", "model")),
    ("find_records", {}, ("failed", "INVALID_ARGUMENTS", "model")),
    (
        "find_records", {"model": "flights.flight", "limit": "x", "filter": {"distance__gt": VALUE, VALUE: 1}},
        ("failed", "INVALID_ARGUMENTS", "limit, filter.distance, filter"),
    ),
    ("get_record", {"model": "flights.flight", "id": VALUE}, ("failed", "NO_RECORD", "id")),
    ("get_record", {"model": "flights.flight", "id": "999"}, ("failed", "NO_RECORD", "id")),
    (
        "aggregate_records", {"model": "flights.flight", "group_by": [VALUE]},
        ("failed", "INVALID_ARGUMENTS", "group_by"),
    ),
    (ACTION, {"ids": ["999", VALUE]}, ("failed", "NO_RECORD", "ids")),
    (ACTION, {"ids": 7}, ("failed", "INVALID_ARGUMENTS", "ids")),
    ("book", {"flight": 1, "seats": VALUE}, ("failed", "INVALID_ARGUMENTS", "seats")),
    ("book", {"flight": 999, "seats": 1}, ("failed", "NO_RECORD", "flight")),
    ("book", {"flight": 1, "seats": 1}, ("failed", "TOOL_ERROR", "Broken")),
    ("book", {"flight": 1, "seats": 2}, ("failed", "NO_PERMISSION", "")),
    ("book", {"flight": 1, "seats": 3}, ("failed", "NO_RECORD", "")),
    ("book", {"flight": 1, "seats": 4}, ("failed", "TOOL_ERROR", "")),
    ("book", {"flight": 1, "seats": 5}, ("failed", "INVALID_ARGUMENTS", "seats, *")),
    ("book", {"flight": 1, "seats": 6}, ("failed", "NO_SEATS", "")),
    ("book", {"flight": 1, "seats": 7}, ("failed", "TOOL_ERROR", "IntegrityError")),
    ("book", {"flight": 1, "seats": 8}, ("failed", "TOOL_ERROR", "SystemExit")),
    ("book", {"flight": 1, "seats": 9}, ("failed", "INVALID_ARGUMENTS", "*")),
    ("preview_change", {"operation": "create", "model": "flights.flight", "values": {"distance": "x"}},
     ("failed", "INVALID_ARGUMENTS", "values.distance")),
    ("update_record", {**UPDATE, "id": "999"}, ("failed", "NO_RECORD", "id")),
    ("update_record", {**UPDATE, "values": {VALUE: 1}}, ("failed", "INVALID_ARGUMENTS", "values")),
    ("update_record", UPDATE, ("previewed", "", "")),
    ("update_record", {**UPDATE, "confirm": "x" * 50}, ("failed", "CONFIRM_INVALID", "")),
    ("undo_change", {"change": VALUE[:22]}, ("failed", "NO_RECORD", "change")),
    ("get_change", {"change": VALUE[:22]}, ("failed", "NO_RECORD", "change")),
    ("no_such_tool", {}, ("refused", "TOOL_NOT_FOUND", "")),
]  # fmt: skip


@pytest.fixture
def ways(declared: Declared, flights: Any) -> None:
    declared.tool(book, read_only=True)
    declared.prompt(invite)
    switch_on(ACTION, *(tool.name for tool in WRITE_TOOLS))


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi", "websocket"])
def test_each_way_in_which_a_call_fails_has_its_reason_and_no_values(peers: Peers, users: Users, rows: Rows) -> None:
    peer = peers(token_of(users.admin, "read", "actions", "write"))

    for name, arguments, _ in CALLS:
        peer.request(MODERN, "tools/call", {"name": name, "arguments": arguments})

    found = rows("name", "outcome", "reason", "detail")
    assert [(row.pop("name"), tuple(row.values())) for row in found] == [(name, told) for name, _, told in CALLS]
    assert [row for row in Call.objects.values() if VALUE in str(row)] == []


@pytest.mark.usefixtures("ways")
@pytest.mark.parametrize("transport", ["http-view-wsgi", "websocket"])
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_prompts_resources_and_params_have_their_reasons_too(
    peers: Peers, users: Users, rows: Rows, revision: str
) -> None:
    peer = peers(token_of(users.admin))
    requests: list[tuple[str, dict[str, Any], tuple[str, str, str]]] = [
        ("prompts/get", {"name": "invite", "arguments": {}}, ("refused", "INVALID_ARGUMENTS", "flight")),
        ("prompts/get", {"name": "invite", "arguments": {"flight": "x", VALUE: ""}},
         ("refused", "INVALID_ARGUMENTS", "*")),
        ("prompts/get", {"name": "invite", "arguments": {"flight": "999"}}, ("refused", "NO_RECORD", "flight")),
        *(
            ("prompts/get", {"name": "invite", "arguments": {"flight": "1", "word": word}}, told)
            for word, told in {
                "a": ("refused", "PROMPT_REFUSED", ""), "b": ("refused", "NO_RECORD", ""),
                "c": ("failed", "INTERNAL_ERROR", "Broken"),
            }.items()
        ),
        ("prompts/get", {"name": VALUE[:4]}, ("refused", "PROMPT_NOT_FOUND", "")),
        ("resources/read", {"uri": "db://flights/flight/999"}, ("refused", "NO_RECORD", "uri")),
        ("resources/read", {"uri": f"db://flights/flight?distance={VALUE}"},
         ("refused", "INVALID_ARGUMENTS", "distance")),
        ("resources/read", {"uri": f"db://flights/flight?{VALUE}=1"}, ("refused", "INVALID_ARGUMENTS", "*")),
        ("resources/read", {"uri": "db://flights/nothing"}, ("refused", "RESOURCE_NOT_FOUND", "")),
        ("resources/read", {"uri": 7}, ("refused", "INVALID_PARAMS", "uri")),
    ]  # fmt: skip

    for method, params, _ in requests:
        peer.request(revision, method, params)

    assert [tuple(row.values()) for row in rows("outcome", "reason", "detail")] == [told for *_, told in requests]
    assert [row for row in Call.objects.values() if VALUE in str(row)] == []


@pytest.mark.usefixtures("transactional_db")
def test_a_confirmation_that_is_late_or_for_rows_that_changed_says_so(
    users: Users, rows: Rows, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    agent = Writer(users.admin)
    call: dict[str, Any] = {"model": "flights.flight", "id": "1", "values": {"distance": 7}}

    stale = agent.ask("update_record", **call)["confirm"]
    Flight.objects.filter(pk=1).update(distance=8)
    agent.refused("update_record", **call, confirm=stale)
    late = agent.ask("update_record", **call)["confirm"]
    monkeypatch.setattr(confirmations.time, "time", lambda: 4e9)
    agent.refused("update_record", **call, confirm=late)

    assert [tuple(row.values()) for row in rows("outcome", "reason")] == [
        ("previewed", ""), ("failed", "ROWS_CHANGED"), ("previewed", ""), ("failed", "CONFIRM_EXPIRED"),
    ]  # fmt: skip


@pytest.mark.usefixtures("transactional_db")
def test_a_change_that_waits_for_people_is_not_done(users: Users, rows: Rows, flights: Any) -> None:
    from mcp_django.models import Tool

    switch_on("update_record")
    Tool.objects.filter(name="update_record").update(asks="ask")
    agent, call = Writer(users.admin), {"model": "flights.flight", "id": "1", "values": {"distance": 7}}

    told = agent.confirmed("update_record", **call)

    assert told["status"] == "pending"
    assert [row["outcome"] for row in rows("outcome")] == ["previewed", "waiting"]


def test_what_is_not_allowed_has_no_names(peers: Peers, rows: Rows, flights: Any) -> None:
    switch_on(ACTION)
    peer = peers(token_of(make_staff("looker", "flights.view_flight")))

    peer.request(MODERN, "tools/call", {"name": ACTION, "arguments": {"ids": 7}})

    assert rows("reason", "detail") == [{"reason": "NO_PERMISSION", "detail": ""}]


# Each reason is explained.


def test_each_reason_that_the_server_has_is_explained_to_people() -> None:
    raised = {error.reason for error in _below(MCPError) if error.__module__.startswith("mcp_django.")}
    decided = {one.name for one in Decision} - {"ALLOWED"}
    refused = {one.reason for one in REFUSALS}

    assert raised | decided | refused | set(_named()) <= REASONS.keys()


def _below(error: type[MCPError]) -> Iterator[type[MCPError]]:
    for one in error.__subclasses__():
        yield one
        yield from _below(one)


def _named() -> Iterator[str]:
    """The texts that the code gives as a reason: to an error, to a usage, or as an attribute."""
    for path in Path(mcp_django.__path__[0]).rglob("*.py"):
        if "console" in path.parts or "oauth" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            values: list[Callable[[], Any] | Any] = []
            if isinstance(node, ast.keyword) and node.arg == "reason":
                values = [node.value]
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute | ast.Name):
                name = getattr(node.targets[0], "attr", getattr(node.targets[0], "id", ""))
                values = [node.value] if name in ("reason", "refusal") else []
            for value in values:
                for found in ast.walk(value):
                    if isinstance(found, ast.Constant) and isinstance(found.value, str) and found.value.isupper():
                        yield found.value
