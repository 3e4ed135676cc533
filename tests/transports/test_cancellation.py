"""R11: a request that its client gives up stops in the database, and nothing more is sent for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from django.db import DatabaseError, connection
from django.http import HttpRequest

from mcp_django import site, tool
from tests.axes import DUPLEX, TRANSPORTS
from tests.support.data import token_of
from tests.support.peers import MODERN, ASGIPeer, DuplexPeer, HTTPPeer, Peers, meta

pytestmark = [pytest.mark.every_database, pytest.mark.every_transport]

_SLOW = {
    "sqlite": (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
        "SELECT max(i) FROM (SELECT i FROM n LIMIT 4000000000)"
    ),
    "postgresql": "SELECT pg_sleep(60)",
    "mysql": "SELECT SLEEP(60)",
}


class SlowTool:
    """A tool whose query takes a minute, with what the test wants to know of it."""

    def __init__(self) -> None:
        self.started = threading.Event()
        self.ended = threading.Event()
        self.error: Exception | None = None

    def run(self) -> None:
        self.started.set()
        try:
            with connection.cursor() as cursor:
                cursor.execute(_SLOW[connection.vendor])
                # MariaDB answers a killed SLEEP with 1 instead of an error.
                if cursor.fetchone() == (1,):
                    raise DatabaseError("killed")
        except DatabaseError as error:
            self.error = error
            raise
        finally:
            self.ended.set()


@pytest.fixture
def slow() -> Iterator[SlowTool]:
    slow_tool = SlowTool()

    @tool(read_only=True)
    def slow_query(request: HttpRequest) -> str:
        """Take a minute."""
        slow_tool.run()
        return "done"

    yield slow_tool
    del site._functions["slow_query"]
    site._forget()


CALL = {"name": "slow_query", "arguments": {}}
CANCELLING = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "slow"}}


@pytest.mark.parametrize("transport", DUPLEX)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_cancelled_call_stops_its_query_and_is_not_answered(
    peers: Peers, users: Any, slow: SlowTool, revision: str
) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, DuplexPeer)
    connection = peer.connection(revision)
    params = {**CALL, "_meta": meta()} if revision == MODERN else CALL

    connection.send({"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": params})
    assert slow.started.wait(30)
    connection.send(CANCELLING)

    assert slow.ended.wait(30)
    assert isinstance(slow.error, DatabaseError)
    # The next answer on the connection is that of the next request.
    assert peer.tools(revision)


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi", "http-view-wsgi"])
@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
def test_a_legacy_call_over_http_that_is_cancelled_is_not_answered(
    peers: Peers, users: Any, slow: SlowTool, accept: str, transport: str
) -> None:
    """With a stream it ends, and without one the response is empty."""
    peer = cast("HTTPPeer", peers(token_of(users.admin)))
    revision = "2025-11-25"
    headers = {"Mcp-Session-Id": peer.session(revision), "MCP-Protocol-Version": revision}
    call = {"jsonrpc": "2.0", "id": "slow", "method": "tools/call", "params": CALL}

    with ThreadPoolExecutor(1) as threads:
        answered = threads.submit(peer.post, call, {**headers, "Accept": accept})
        assert slow.started.wait(30)
        assert peer.post(CANCELLING, headers).status == 202
        answer = answered.result(60)
    assert isinstance(slow.error, DatabaseError)
    is_stream = "text/event-stream" in answer.headers.get("content-type", "")
    assert (answer.status, b"jsonrpc" in answer.body) == (200 if is_stream else 202, False)


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_a_modern_client_that_goes_away_stops_its_query(peers: Peers, users: Any, slow: SlowTool) -> None:
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    call = peer.begin("tools/call", CALL)
    assert slow.started.wait(30)

    peer.loop.run(call.disconnect("http.disconnect"))

    assert slow.ended.wait(30)
    assert isinstance(slow.error, DatabaseError)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_call_that_takes_too_long_stops_its_query(
    peers: Peers, users: Any, slow: SlowTool, revision: str, settings: Any
) -> None:
    peer = peers(token_of(users.admin))
    peer.tools(revision)
    # Enough for the query to begin.
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 3}
    error = peer.error(revision, "tools/call", CALL)
    assert error["data"]["reason"] == "REQUEST_TIMED_OUT"
    assert "REQUEST_SECONDS" in error["message"]
    assert slow.ended.wait(30)
    assert isinstance(slow.error, DatabaseError)
