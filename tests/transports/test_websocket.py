"""The upgrade to a socket, and its frames."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mcp_django.push import hub as hubs
from tests.push.conftest import watch
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, SocketPeer
from tests.support.raw import error

pytestmark = pytest.mark.parametrize("transport", ["websocket"])

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


# The subprotocol.


def test_the_subprotocol_is_chosen_if_it_is_offered_and_an_upgrade_to_others_alone_refused(admin: SocketPeer) -> None:
    offers: list[tuple[list[str], str | None]] = [(["mcp"], "mcp"), (["graphql-ws", "mcp"], "mcp"), ([], None)]
    for offered, chosen in offers:
        socket = admin.connect(subprotocols=offered)
        assert (socket.accepted, socket.subprotocol) == (True, chosen)
    for others in (["graphql-ws"], ["MCP"], ["mcp.auth.secret", "mcp2"]):
        socket = admin.connect(subprotocols=others)
        start, body = socket.refused
        assert (socket.accepted, start["status"]) == (False, 400)
        assert json.loads(body["body"]) == error(-32600, "INVALID_REQUEST", "The only subprotocol is 'mcp'.")


# Frames.


def test_a_binary_frame_ends_the_socket(admin: SocketPeer) -> None:
    socket = admin.connect()

    socket.send_bytes(json.dumps(PING).encode())

    assert socket.wait_closed() == 1003
    assert socket.answers.empty()


def test_a_frame_beyond_the_limit_ends_the_socket(admin: SocketPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 100}
    for beyond in (json.dumps(PING).ljust(101), '{"jsonrpc": "2.0", "id": "%s", "method": "ping"}' % ("世" * 30)):
        socket = admin.connect()
        assert socket.ask(PING) == PONG

        socket.send_text(beyond)  # The limit counts bytes.

        assert socket.wait_closed() == 1009


def test_ten_bad_frames_in_a_row_end_the_socket(admin: SocketPeer) -> None:
    """A good one forgives those before it."""
    socket = admin.connect()
    for _ in range(3):
        assert [socket.ask(7)["error"]["code"] for _ in range(9)] == [-32600] * 9
        assert socket.ask(PING) == PONG

    for _ in range(10):
        socket.send_text("{")

    assert socket.wait_closed() == 1008
    assert [socket.answer()["error"]["code"] for _ in range(10)] == [-32700] * 10


# How it ends.


def test_a_listen_that_is_just_being_acknowledged_is_completed_when_the_server_ends(
    admin: SocketPeer, flights: Any, serving_loop: LoopThread
) -> None:
    """As granian does it: the client has the frame before the application hears that it was sent."""
    application, ended = admin.application, asyncio.Event()

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        async def send_and_wait(message: Any) -> None:
            await send(message)
            if "acknowledged" in message.get("text", ""):
                await ended.wait()

        await application(scope, receive, send_and_wait)

    admin.application = serve
    watch(admin, MODERN, "db://flights/flight/1", listen_id="mine")
    serving_loop.loop.call_soon_threadsafe(hubs._hubs[serving_loop.loop].close)
    serving_loop.loop.call_soon_threadsafe(ended.set)

    completed = admin.socket(MODERN).answer()
    assert completed["id"] == "mine"
    assert completed["result"]["resultType"] == "complete"
    assert admin.socket(MODERN).wait_closed(30) == 1001
