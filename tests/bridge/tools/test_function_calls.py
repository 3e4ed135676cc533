"""Calling function tools: which rows they are given, who may call, and nothing said of what broke."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest
from asgiref.sync import sync_to_async
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import HttpRequest
from pydantic import Field

from demo_project.flights.models import Airport, Disruption, Flight
from mcp_django.exceptions import ToolError
from tests.support.asking import DirectPeer, errors_of, listed, text_of
from tests.support.data import make_flights, make_staff, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers


@pytest.fixture
def root(db: None) -> DirectPeer:
    make_flights(6)
    return DirectPeer(User.objects.create_superuser("root"))


# Instances of models.


def test_an_argument_that_is_a_model_takes_a_key(root: DirectPeer, declared: Declared) -> None:
    def where(
        request: HttpRequest,
        flight: Flight,
        airport: Annotated[Airport | None, Field(description="Where from.")] = None,
    ) -> str:
        """Where."""
        return f"{flight.number} {airport.pk if airport else None}"

    declared.tool(where, read_only=True)
    properties = listed(root, "where")["inputSchema"]["properties"]

    assert properties["flight"] == {
        "anyOf": [{"type": "integer"}, {"type": "string"}], "description": "Primary key of a flights.flight.",
    }  # fmt: skip
    assert properties["airport"]["description"] == "Where from. Primary key of a flights.airport."
    assert text_of(root.call("where", flight=1)) == "1000 None"
    assert text_of(root.call("where", flight="2", airport="JFK")) == "1001 JFK"
    assert text_of(root.call("where", flight=1, airport=None)) == "1000 None"


def test_a_key_that_is_none_is_a_wrong_argument(root: DirectPeer, declared: Declared) -> None:
    def where(request: HttpRequest, flight: Flight) -> str:
        """Where."""
        raise AssertionError("was called")

    declared.tool(where)

    for key in ("1 OR 1=1", 99, "99", "x", "", -1, 2**70):
        assert [error["field"] for error in errors_of(root.call("where", flight=key))] == ["flight"], key


def test_naming_a_hidden_row_to_a_tool(ops: Peer, declared: Declared, flights: Any) -> None:
    def where(request: HttpRequest, flight: Flight, disruption: Disruption | None = None) -> str:
        """Where."""
        return str(flight.number)

    declared.tool(where)

    own = ops.call("where", flight=1)
    hidden = ops.call("where", flight=2)
    absent = ops.call("where", flight=902)

    assert text_of(own) == "1000"
    assert text_of(hidden).replace("2", "902") == text_of(absent)


def test_naming_a_row_of_a_hidden_model_to_a_tool(viewer: Peer, declared: Declared, flights: Any) -> None:
    def about(request: HttpRequest, user: User) -> str:
        """About."""
        return user.password

    declared.tool(about)

    hidden, absent = viewer.call("about", user=1), viewer.call("about", user=900)

    assert text_of(hidden).replace(" 1.", " 900.").replace(":1}", ":900}") == text_of(absent)


# Who may call.


def test_a_tool_without_its_permission_does_not_exist(root: DirectPeer, declared: Declared) -> None:
    def act(request: HttpRequest) -> str:
        """Act."""
        return "acted"

    declared.tool(act, permission="flights.change_flight")
    viewer = DirectPeer(make_staff("viewer", "flights.view_flight"))
    changer = DirectPeer(make_staff("changer", "flights.change_flight"))

    hidden = viewer.error(MODERN, "tools/call", {"name": "act", "arguments": {}})
    absent = viewer.error(MODERN, "tools/call", {"name": "axt", "arguments": {}})

    assert str(hidden).replace("act", "axt") == str(absent)
    assert "act" not in viewer.tools()
    assert text_of(changer.call("act")) == "acted"


def test_the_scope_decides_between_reading_and_acting(
    peers: Peers, users: Any, declared: Declared, flights: Any
) -> None:
    def look(request: HttpRequest) -> str:
        """Look."""
        return "looked"

    def act(request: HttpRequest) -> str:
        """Act."""
        return "acted"

    declared.tool(look, read_only=True)
    declared.tool(act)
    reader, actor = peers(token_of(users.admin, "read")), peers(token_of(users.admin, "actions"))

    assert "look" in reader.tools() and "act" not in reader.tools()
    assert actor.tools() == ["act"]
    assert text_of(reader.call("look")) == "looked" and text_of(actor.call("act")) == "acted"
    for peer, name in ((reader, "act"), (actor, "look")):
        error = peer.error(MODERN, "tools/call", {"name": name, "arguments": {}})
        assert error["data"]["reason"] == "TOOL_NOT_FOUND"


# What fails.


def test_an_error_says_what_was_written_for_the_agent(root: DirectPeer, declared: Declared) -> None:
    failed = "fail failed. The server's log has the details; calling it again may not help."
    told: dict[Exception, str] = {
        ToolError("Ask the tower first."): "Ask the tower first.",
        PermissionDenied("hunter2"): "You may not do this.",
        Flight.DoesNotExist("hunter2"): "There is no such object.",
        ValidationError(["Too late.", "Too far."]): "Too late.; Too far.",
        RuntimeError("hunter2"): failed,
        KeyError("hunter2"): failed,
    }
    raised = iter(told)

    def fail(request: HttpRequest) -> str:
        """Fail."""
        raise next(raised)

    declared.tool(fail)

    results = [root.call("fail") for _ in told]

    assert [(result["isError"], text_of(result)) for result in results] == [(True, text) for text in told.values()]
    assert "hunter2" not in str(results)


# Asynchronous tools.


def test_async_tools_do_not_wait_for_one_another(peers: Peers, users: Any, declared: Declared, flights: Any) -> None:
    """Outside of a context of its own, the ORM calls of all of them would share one thread."""
    both = threading.Barrier(2, timeout=60)

    async def meet(request: HttpRequest, origin: Airport) -> int:
        """Meet."""
        count = await Flight.objects.filter(origin=origin).acount()
        await sync_to_async(both.wait)()
        return count

    declared.tool(meet, read_only=True)
    pair = [peers(token_of(users.admin)) for _ in range(2)]

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda peer: peer.call("meet", origin="JFK")["structuredContent"], pair))

    assert results == [4, 4]
