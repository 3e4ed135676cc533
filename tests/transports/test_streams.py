"""What an open stream costs: no thread, and above all no database connection."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

from tests.support.data import token_of
from tests.support.peers import MODERN, ASGIPeer, Peers

STREAMS = 200


class Connections:
    """The database connections that any thread of this process opened since the test began."""

    def __init__(self) -> None:
        self.opened: weakref.WeakSet[BaseDatabaseWrapper] = weakref.WeakSet()

    def note(self, connection: BaseDatabaseWrapper, **_: Any) -> None:
        self.opened.add(connection)

    def open_now(self) -> int:
        return sum(wrapper.connection is not None for wrapper in list(self.opened))


@pytest.fixture
def opened(transactional_db: None) -> Iterator[Connections]:
    """The connections that are opened from now on; the test's own thread has one already."""
    connection.ensure_connection()
    counted = Connections()
    connection_created.connect(counted.note)
    yield counted
    connection_created.disconnect(counted.note)


@pytest.mark.parametrize("transport", ["http-view-asgi"])
def test_two_hundred_streams_hold_no_database_connection(
    users: Any, peers: Peers, flights: Any, settings: Any, opened: Connections
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "tests.transports.tenants.QueryingMiddleware"]
    settings.MCP = {**settings.MCP, "BYPASS_MIDDLEWARE": True}  # Otherwise there is no stream behind it.
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 60, "MAX_LISTENS": STREAMS}
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)

    streams = [peer.watch(MODERN, ["db://flights/flight/1"]) for _ in range(STREAMS)]
    held = opened.open_now()
    flights[0].save()
    told = [stream.uris(1) for stream in streams]

    assert len(opened.opened) >= STREAMS  # Each request used a connection of its own in the middleware.
    assert held == 0
    assert told == [["db://flights/flight/1"]] * STREAMS


@pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])
def test_an_idle_stream_is_kept_alive_by_comments(users: Any, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "KEEPALIVE_SECONDS": 0.05}
    peer = peers(token_of(users.admin))
    assert isinstance(peer, ASGIPeer)
    stream = peer.watch(MODERN, [])

    parts = [peer.loop.run(stream.call.receive())["body"] for _ in range(2)]

    assert parts == [b":\n\n", b":\n\n"]
