"""Calls that run when a person pauses agents: what may change something is cancelled, and says what it has done."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import DatabaseError, transaction
from django.http import HttpRequest

from demo_project.flights.models import Flight
from mcp_django.access import pauses
from mcp_django.access.changing_calls import calls
from mcp_django.audit.recorder import recorder
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import Call, Change
from tests.axes import PUSHING, TRANSPORTS
from tests.bridge.writes.conftest import ALL_SCOPES, save_with
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.pausing import SAID, WHY, pause
from tests.support.peers import LEGACY, MODERN, ASGIPeer, Peer, Peers
from tests.support.talking import talk
from tests.transports.calling import Gate, begin, message
from tests.transports.test_cancellation import SlowTool

STOPPED = f"{SAID} The call was stopped halfway. Check what it has changed before you call again."
ON_EACH = pytest.mark.parametrize("transport", TRANSPORTS)


@pytest.fixture
def slow(declared: Declared) -> SlowTool:
    """A tool that may change something, and whose query takes a minute."""
    slow_tool = SlowTool()

    def change_slowly(request: HttpRequest) -> str:
        """Take a minute."""
        slow_tool.run()
        return "done"

    declared.tool(change_slowly)
    switch_on("change_slowly")
    return slow_tool


def error_of(result: Any) -> str:
    assert result["isError"], result
    found: str = json.loads(result["content"][0]["text"])["error"]
    return found


@ON_EACH
@pytest.mark.every_database
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
@pytest.mark.parametrize("kind", ["all", "user"])
def test_a_call_that_may_change_something_is_stopped_in_the_database_and_its_agent_reads_why(
    admin: Peer, users: Any, slow: SlowTool, trail: None, revision: str, kind: str
) -> None:
    """No control reports the pause, and under WSGI no event loop runs."""
    admin.tools(revision)

    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(admin.call, "change_slowly", revision)
        assert slow.started.wait(60)
        pause(kind, users.admin.pk if kind == "user" else "", silently=True)
        result = answered.result(120)

    whom = "All agents are" if kind == "all" else "The agents of your user are"
    assert error_of(result) == STOPPED.replace("All agents are", whom)
    assert isinstance(slow.error, DatabaseError)
    recorder.flush()
    line = Call.objects.get(name="change_slowly")
    assert (line.outcome, line.reason) == (Call.Outcome.CANCELLED, "PAUSED")


@pytest.mark.parametrize("transport", PUSHING)
def test_what_an_asynchronous_tool_may_change_on_the_loop_is_stopped_too(admin: Peer, declared: Declared) -> None:
    begun = threading.Event()

    async def wait(request: HttpRequest) -> str:
        """Wait for a minute."""
        begun.set()
        await asyncio.sleep(60)
        return "done"

    declared.tool(wait)
    switch_on("wait")
    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(admin.call, "wait", MODERN)
        assert begun.wait(60)
        pause()

        assert error_of(answered.result(120)) == STOPPED


@ON_EACH
@pytest.mark.every_database
def test_a_change_that_is_committed_already_is_told_as_done(
    peers: Peers, users: Any, flights: Any, declared: Declared
) -> None:
    """What the project does after the commit is stopped, and the record is written all the same."""
    slow_query = SlowTool()
    save_with(declared, lambda request, obj: transaction.on_commit(slow_query.run))
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    peer = peers(token_of(users.admin, *ALL_SCOPES))
    asked = {"model": "flights.flight", "id": "3", "values": {"notes": "fog"}}
    confirm = peer.call("update_record", **asked)["structuredContent"]["confirm"]

    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(peer.call, "update_record", **asked, confirm=confirm)
        assert slow_query.started.wait(60)
        pause(silently=True)
        result = answered.result(120)

    assert result["structuredContent"]["status"] == "applied"
    assert Flight.objects.get(pk=3).notes == "fog"
    assert Change.objects.get().state == Change.State.APPLIED


@ON_EACH
@pytest.mark.every_database
def test_a_change_that_is_not_committed_yet_leaves_nothing_behind(
    peers: Peers, users: Any, flights: Any, declared: Declared, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow_query = SlowTool()
    save_with(declared, lambda request, obj: slow_query.run())
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    peer = peers(token_of(users.admin, *ALL_SCOPES))
    asked = {"model": "flights.flight", "id": "3", "values": {"notes": "fog"}}
    slow_query.run = lambda: None  # type: ignore[method-assign] # The preview saves nothing slowly.
    confirm = peer.call("update_record", **asked)["structuredContent"]["confirm"]
    del slow_query.run

    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(peer.call, "update_record", **asked, confirm=confirm)
        assert slow_query.started.wait(60)
        # On SQLite the change holds the lock that a row needs.
        monkeypatch.setattr(pauses, "stored", lambda: {"": {("all", ""): WHY}})

        assert error_of(answered.result(120)) == STOPPED
    assert Flight.objects.get(pk=3).notes != "fog"
    assert not Change.objects.exists()


@ON_EACH
def test_a_call_that_only_reads_may_end_and_so_may_that_of_another_agent(
    peers: Peers, users: Any, declared: Declared
) -> None:
    """On a connection that ends, its answer comes before the end."""
    gates = {"read": Gate(), "change": Gate()}

    def read(request: HttpRequest) -> str:
        """Wait at a gate."""
        gates["read"].wait(request)
        return "read"

    def change(request: HttpRequest) -> str:
        """Wait at a gate, and be an agent who is not paused."""
        gates["change"].wait(request)
        return "changed"

    declared.tool(read, read_only=True)
    declared.tool(change)
    switch_on("read", "change")
    admin, ops = peers(token_of(users.admin)), peers(token_of(users.ops))
    admin.tools(), ops.tools()

    with ThreadPoolExecutor(2) as threads:
        answered = {"read": threads.submit(admin.call, "read"), "change": threads.submit(ops.call, "change")}
        assert all(gate.reached.wait(60) for gate in gates.values())
        pause("user", users.admin.pk)
        calls.look()
        for gate in gates.values():
            gate.opened.set()
        texts = {name: one.result(120)["content"][0]["text"] for name, one in answered.items()}

    assert texts == {"read": "read", "change": "changed"}
    assert not gates["read"].cancelled and not gates["change"].cancelled


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi"])
@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
def test_a_call_that_streams_gives_its_reason_as_the_last_event(
    admin: ASGIPeer, slow: SlowTool, declared: Declared, revision: str
) -> None:
    def tell(request: HttpRequest) -> str:
        """Tell, and then take a minute."""
        request.mcp.progress(1)  # type: ignore[attr-defined]
        slow.run()
        return "done"

    declared.tool(tell)
    switch_on("tell")
    call = begin(admin, "tell", revision, _meta={"progressToken": 7})
    assert slow.started.wait(60)

    pause()

    told = [message(event) for event in call.events() if event.data]
    assert told[0]["method"] == "notifications/progress"
    assert error_of(told[-1]["result"]) == STOPPED


@pytest.mark.parametrize("transport", ["http-asgi", "websocket", "grpc"])
def test_a_call_that_asks_its_user_in_an_older_revision_ends(admin: Peer, declared: Declared) -> None:
    """The question is a part of the call. In the newest revision it waits: its answer is a request of its own."""

    def ask(request: HttpRequest) -> str:
        """Ask."""
        return str(request.mcp.elicit("Sure?", {"type": "object", "properties": {}}))  # type: ignore[attr-defined]

    declared.tool(ask, read_only=True)
    admin.capabilities = {"elicitation": {}}

    def paused(method: str, params: Any) -> None:
        pause()

    found = talk(admin, LEGACY[-1], "tools/call", {"name": "ask", "arguments": {}}, paused)

    assert [method for method, _ in found.asked] == ["elicitation/create"]
    assert found.answer["error"]["data"]["reason"] == "PAUSED"
