"""Lines of calls whose bodies ran on the event loop."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from django.http import HttpRequest

from demo_project.flights.models import Flight
from tests.audit.conftest import Rows
from tests.conftest import DUPLEX
from tests.end_to_end.servers import wait_for
from tests.support.data import token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, DuplexPeer, Peer, Peers, meta


@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
@pytest.mark.parametrize("mode", ["strict", "on"])
def test_each_call_has_one_line_with_its_outcome_and_its_queries(
    admin: Peer, declared: Declared, rows: Rows, audited: Any, flights: Any, mode: str
) -> None:
    async def count(request: HttpRequest, fail: bool = False) -> str:
        """Count the flights, or fail."""
        await Flight.objects.acount()
        await Flight.objects.acount()
        if fail:
            raise ValueError
        return "counted"

    async def greet(request: HttpRequest) -> str:
        """Greet."""
        await asyncio.sleep(0)
        return "hello"

    declared.tool(count)
    declared.tool(greet)
    audited(AUDIT=mode)

    before = admin.call("greet")
    admin.call("count")
    admin.call("count", fail=True)

    assert before["content"][0]["text"] == "hello"
    found = rows("name", "outcome", "queries", "bytes")
    assert [(line["name"], line["outcome"]) for line in found] == [
        ("greet", "done"),
        ("count", "done"),
        ("count", "failed"),
    ]
    # Those of the body are counted too.
    assert all(line["queries"] - found[0]["queries"] == 2 for line in found[1:])
    assert all(line["bytes"] > 0 for line in found)


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_cancelled_call_has_a_line(peers: Peers, users: Any, declared: Declared, rows: Rows) -> None:
    begun = threading.Event()

    async def wait(request: HttpRequest) -> str:
        """Wait."""
        begun.set()
        await asyncio.Event().wait()
        return "never"

    declared.tool(wait, read_only=True)
    peer = peers(token_of(users.admin))
    assert isinstance(peer, DuplexPeer)
    opened = peer.connection(MODERN)
    params = {"name": "wait", "arguments": {}, "_meta": meta()}
    opened.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
    assert begun.wait(30)

    opened.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}})

    wait_for(lambda: rows("name", "outcome") == [{"name": "wait", "outcome": "cancelled"}], "the line")
