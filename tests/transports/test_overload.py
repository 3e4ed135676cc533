"""What the server answers when there is more to do than may wait."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future
from typing import Any

import pytest

from tests.axes import DUPLEX, HTTP, PUSHING
from tests.support.data import token_of
from tests.support.peers import MODERN, Answered, ASGIPeer, DuplexPeer, Peer, Peers, meta
from tests.support.raw import error
from tests.transports.gates import ENTER, Gate

STREAMING_HTTP = [name for name in PUSHING if name in HTTP]
BUSY = "The server is busy: QUEUE requests are waiting. Try again in a moment."
ONES_OWN = "You have QUEUE_PER_PRINCIPAL requests waiting. Wait for their answers before you send more."


def message(revision: str, request_id: Any, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
    given = {**(params or {}), **({"_meta": meta()} if revision == MODERN else {})}
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": given}


def begin(peer: ASGIPeer, revision: str, request_id: Any, method: str, params: Any = None) -> Future[Answered]:
    """Send a request without waiting for its answer."""
    sent = message(revision, request_id, method, params)
    headers = peer.modern_headers(method, sent["params"]) if revision == MODERN else {}
    work = peer._exchange(peer.scope("POST", peer.headers(headers)), json.dumps(sent).encode())
    return asyncio.run_coroutine_threadsafe(work, peer.loop.loop)


@pytest.fixture
def one_worker(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 1, "QUEUE": 0, "SWEEP_SECONDS": 60}


@pytest.mark.parametrize("transport", STREAMING_HTTP)
@pytest.mark.parametrize(("revision", "status"), [(MODERN, 503), ("2025-03-26", 200)])
def test_a_full_queue_is_said_at_once_and_not_waited_for(
    users: Any, peers: Peers, one_worker: None, gate: Gate, revision: str, status: int
) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    running = begin(peer, revision, 1, "tools/call", ENTER)
    gate.wait_for_entry()

    refused = begin(peer, revision, 2, "tools/list").result(30)
    gate.open()

    assert (refused.status, refused.json) == (status, error(-32603, "OVERLOADED", BUSY, 2))
    assert running.result(30).json["result"]["content"] == [{"type": "text", "text": "through"}]
    assert "find_records" in peer.tools()


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_full_queue_is_said_on_the_connection_which_stays_open(
    users: Any, peers: Peers, one_worker: None, gate: Gate
) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, DuplexPeer)
    connection = peer.connection(MODERN)
    connection.send(message(MODERN, "first", "tools/call", ENTER))
    gate.wait_for_entry()

    refused = connection.ask(message(MODERN, "second", "tools/list"))
    gate.open()

    assert refused == error(-32603, "OVERLOADED", BUSY, "second")
    assert connection.answer()["id"] == "first"
    assert "find_records" in peer.tools()


@pytest.mark.parametrize("transport", STREAMING_HTTP)
def test_one_caller_cannot_fill_the_queue_of_the_others(users: Any, peers: Peers, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 1, "QUEUE_PER_PRINCIPAL": 1}
    greedy, other = peers(token_of(users.admin)), peers(token_of(users.viewer))
    assert isinstance(greedy, ASGIPeer)
    assert isinstance(other, ASGIPeer)
    running = begin(greedy, MODERN, 1, "tools/call", ENTER)
    gate.wait_for_entry()

    refused = begin(greedy, MODERN, 2, "tools/list").result(30)
    waiting = begin(other, MODERN, 3, "tools/list")
    gate.open()

    assert (refused.status, refused.json) == (503, error(-32603, "OVERLOADED", ONES_OWN, 2))
    assert running.result(30).status == 200
    assert waiting.result(30).status == 200


@pytest.mark.parametrize("transport", PUSHING)
def test_a_ping_is_answered_while_every_worker_is_busy(
    users: Any, peers: Peers, one_worker: None, gate: Gate, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 60}
    peer: Peer = peers(token_of(users.admin))
    if isinstance(peer, DuplexPeer):
        peer.result("2025-11-25", "ping")
        peer.connection("2025-11-25").send(message("2025-11-25", "busy", "tools/call", ENTER))
        gate.wait_for_entry()
        pong = peer.request("2025-11-25", "ping")
    else:
        assert isinstance(peer, ASGIPeer)
        peer.post(message("2025-03-26", 1, "ping"))
        begin(peer, "2025-03-26", 1, "tools/call", ENTER)
        gate.wait_for_entry()
        pong = begin(peer, "2025-03-26", 2, "ping").result(30).json

    assert pong["result"] == {}
