"""A person pauses agents: what each transport then answers, refuses, ends and cancels."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import DatabaseError
from django.http import HttpRequest

from mcp_django.access import overrides
from mcp_django.models import AccessToken
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.pausing import LATER, SAID, WHY, line_of, pause, resume
from tests.support.peers import LEGACY, MODERN, HTTPPeer, Peer, Peers

REVISIONS = [MODERN, LEGACY[-1]]
#: What may be asked, and how it is refused. Models read the result of a call, and seldom an error of the protocol.
REQUESTS: dict[str, dict[str, Any]] = {
    "tools/list": {},
    "resources/list": {},
    "resources/templates/list": {},
    "resources/read": {"uri": "db://flights/flight"},
    "prompts/list": {},
    "prompts/get": {"name": "nothing"},
    "completion/complete": {
        "ref": {"type": "ref/resource", "uri": "db://flights/flight/{pk}"},
        "argument": {"name": "pk", "value": ""},
    },
}
CALL = {"name": "find_records", "arguments": {"model": "flights.flight"}}


@pytest.fixture
def unswept(settings: Any) -> None:
    """What is open stays open, so that its requests are seen."""
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 3_600}


def refused(peer: Peer, revision: str, method: str) -> str:
    """The text by which the request is refused, or what was answered."""
    if method == "tools/call":
        result = peer.result(revision, method, CALL)
        return str(json.loads(result["content"][0]["text"]).get("error", result))
    answer = peer.request(revision, method, REQUESTS[method])
    error = answer.get("error", {})
    if error.get("data", {}).get("reason") != "PAUSED":
        return str(answer)
    assert error["data"] == {"reason": "PAUSED", "retryAfter": 60, "why": WHY}
    return str(error["message"])


@pytest.mark.every_transport
@pytest.mark.parametrize("revision", REVISIONS)
def test_each_request_of_a_paused_agent_is_refused_with_the_reason_and_answered_again_after_it(
    admin: Peer, flights: Any, unswept: None, revision: str
) -> None:
    methods = ["tools/call", *REQUESTS]
    assert not admin.call("find_records", revision, model="flights.flight").get("isError")

    pause()

    assert {method: refused(admin, revision, method) for method in methods} == dict.fromkeys(methods, SAID)
    resume()
    assert not admin.call("find_records", revision, model="flights.flight").get("isError")
    assert admin.tools(revision)


@pytest.mark.every_transport
def test_a_paused_client_keeps_its_session_and_may_open_one(admin: Peer, unswept: None) -> None:
    admin.tools(LEGACY[-1]), admin.tools(MODERN)  # Neither of its sockets is new.

    pause()

    assert admin.result(LEGACY[-1], "ping") == {}
    if isinstance(admin, HTTPPeer):
        assert admin.result(LEGACY[-2], "ping") == {}  # It initialized a session.
    assert "capabilities" in admin.result(MODERN, "server/discover")


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-wsgi", "websocket"])
@pytest.mark.every_case
def test_a_pause_stops_whom_it_names_and_nobody_else(peers: Peers, users: Any, flights: Any, unswept: None) -> None:
    owners = {"own": users.ops, "second": users.ops, "other": users.admin}
    tokens = {name: token_of(user) for name, user in owners.items()}
    AccessToken.objects.filter(line=line_of(tokens["own"])).update(client="https://agents.example/app")
    agents = {name: peers(token) for name, token in tokens.items()}
    assert all(peer.tools() for peer in agents.values())  # Sockets are open.
    pauses = {
        ("all", ""): "All agents are",
        ("user", users.ops.pk): "The agents of your user are",
        ("token", line_of(tokens["own"])): "Your token is",
        ("app", "https://agents.example/app"): "Your app is",
    }
    stopped = {}

    for (kind, name), whom in pauses.items():
        pause(kind, name)
        said = f"{whom} paused: {WHY} {LATER}"
        stopped[kind] = {one for one, peer in agents.items() if refused(peer, MODERN, "tools/call") == said}
        resume()

    assert stopped == {"all": {"own", "second", "other"}, "user": {"own", "second"}, "token": {"own"}, "app": {"own"}}


@pytest.mark.parametrize("transport", ["http-view-wsgi", "http-asgi", "websocket"])
@pytest.mark.parametrize("tool", ["find_records", "enter"])
def test_a_pause_that_no_process_told_of_is_seen_within_a_second_whatever_is_trusted_for_longer(
    admin: Peer, flights: Any, unswept: None, settings: Any, declared: Declared, tool: str, monkeypatch: Any
) -> None:
    """``enter`` begins on the event loop, by what is remembered."""
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3_600}

    async def enter(request: HttpRequest) -> str:
        """Do nothing."""
        return "through"

    declared.tool(enter, read_only=True)
    params = {"name": tool, "arguments": CALL["arguments"] if tool == "find_records" else {}}
    assert not admin.result(MODERN, "tools/call", params).get("isError")
    clock = overrides.time.monotonic()
    monkeypatch.setattr(overrides.time, "monotonic", lambda: clock + 1.001)

    pause(silently=True)

    assert json.loads(admin.result(MODERN, "tools/call", params)["content"][0]["text"])["error"] == SAID


@pytest.mark.every_transport
def test_nothing_is_answered_while_it_cannot_be_read_whether_agents_are_paused(
    admin: Peer, users: Any, unswept: None, declared: Declared, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """These would need no database otherwise, and what a process remembers of the token holds on."""
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 3_600}

    async def enter(request: HttpRequest) -> str:
        """Do nothing."""
        return "through"

    declared.tool(enter, read_only=True)
    declared.resource("note://1", lambda request: "text", name="note")
    requests = {"tools/call": {"name": "enter", "arguments": {}}, "resources/read": {"uri": "note://1"}}
    assert all("result" in admin.request(MODERN, *one) for one in requests.items())
    overrides.forget()
    monkeypatch.setattr(overrides.ToolOverrides, "_fetch", dead)

    answers = {method: admin.request(MODERN, method, params) for method, params in requests.items()}

    assert {method: answer["error"]["data"]["reason"] for method, answer in answers.items()} == dict.fromkeys(
        requests, "INTERNAL_ERROR"
    )


def dead(*args: Any) -> Any:
    raise DatabaseError("the database is away")
