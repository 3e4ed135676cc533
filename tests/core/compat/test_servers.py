"""The transport below the ``send`` of each server, tested with the servers themselves."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.sync.client import connect

from mcp_django.core.compat.servers import (
    bears_end_by_system,
    end_handshake,
    ends_of_hypercorn,
    is_twisted,
    signal_handler,
    transport_below,
    twisted_reactor,
    unsent_by_twisted,
)
from tests.conftest import is_listening
from tests.end_to_end.servers import ROOT, free_port, wait_for

# Each depends on the versions of the packages that it is about.
pytestmark = pytest.mark.every_case

_APPLICATION = "tests.core.compat.application:application"
_COMMANDS = {
    "uvicorn": ("uvicorn", "--port", "{port}", "--no-access-log"),
    "hypercorn": ("hypercorn", "--bind", "127.0.0.1:{port}"),
    "daphne": ("daphne", "-p", "{port}"),
    "granian": ("granian", "--interface", "asgi", "--port", "{port}"),
}
#: Server → the expected report of an HTTP request.
_SEEN = {
    "uvicorn": {"transport": True, "is_twisted": False, "bears": True, "ends": [], "reactor": False},
    "hypercorn": {"transport": True, "is_twisted": False, "bears": False, "ends": ["boolcoroutine"], "reactor": False},
    "daphne": {"transport": True, "is_twisted": True, "bears": False, "ends": [], "reactor": True},
    "granian": {"transport": False, "is_twisted": False, "bears": False, "ends": [], "reactor": False},
}


@pytest.fixture(scope="module", params=_COMMANDS)
def server(request: pytest.FixtureRequest) -> Iterator[tuple[str, int]]:
    """The name of a server, and the port on which it serves ``application``."""
    name, port = request.param, free_port()
    command = [part.format(port=port) for part in _COMMANDS[name]]
    with subprocess.Popen([sys.executable, "-m", *command, _APPLICATION], cwd=ROOT) as process:
        try:
            wait_for(lambda: is_listening(port), name)
            yield name, port
        finally:
            process.terminate()


def test_transport_below_is_that_of_the_request(server: tuple[str, int]) -> None:
    name, port = server
    transport = httpx.HTTPTransport()
    with httpx.Client(transport=transport) as client, client.stream("GET", f"http://127.0.0.1:{port}/") as answer:
        mine = answer.extensions["network_stream"].get_extra_info("client_addr")[1]
        seen = (answer.read(), answer.json())[1]

    peer = seen.pop("peer")

    assert seen == _SEEN[name]
    assert peer == (mine if seen["transport"] else None)


def test_transport_below_is_that_of_the_socket(server: tuple[str, int]) -> None:
    name, port = server
    with connect(f"ws://127.0.0.1:{port}/") as client:
        mine = client.local_address[1]
        client.send("look")
        seen = json.loads(client.recv())

    assert (seen["transport"], seen["is_twisted"]) == (_SEEN[name]["transport"], _SEEN[name]["is_twisted"])
    assert seen["bears"] == _SEEN[name]["bears"]
    assert seen["peer"] == (mine if seen["transport"] else None)


def test_unsent_by_twisted_counts_the_bytes_that_a_client_does_not_read(server: tuple[str, int]) -> None:
    name, port = server
    if name != "daphne":
        pytest.skip("Daphne alone is on Twisted")
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /fill HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")

        stuck = wait_for(lambda: httpx.get(f"http://127.0.0.1:{port}/stuck").json(), "a client that is full")

    assert 1_000_000 < stuck["waiting"] <= 21_000_000


def test_unsent_by_twisted_is_nothing_once_the_client_is_gone() -> None:
    class Gone:
        disconnected = True
        dataBuffer = b"never sent"

    assert unsent_by_twisted(Gone()) == 0


def test_transport_below_is_none_where_it_cannot_be_seen() -> None:
    async def send(message: Any) -> None: ...

    assert transport_below(send) is None
    assert not is_twisted(None)
    assert not bears_end_by_system(send)


def test_transport_below_of_http2_is_none_since_other_requests_use_it() -> None:
    """One connection of hypercorn with the streams of many requests."""

    async def look() -> Any:
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        found: list[Any] = []

        async def application(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                found.append((scope["http_version"], transport_below(send), list(ends_of_hypercorn(loop))))
                await send({"type": "http.response.start", "status": 200, "headers": []})
                await send({"type": "http.response.body", "body": b""})

        loop, port, end = asyncio.get_running_loop(), free_port(), asyncio.Event()
        config = Config()
        config.bind, config.errorlog = [f"127.0.0.1:{port}"], None
        serving = asyncio.ensure_future(serve(application, config, shutdown_trigger=end.wait))  # type: ignore[arg-type]
        await asyncio.to_thread(wait_for, lambda: is_listening(port), "hypercorn")
        await asyncio.to_thread(_get_by_http2, port)
        was_set = [event.is_set() for event in found[0][2]]
        end.set()
        await serving
        return found, was_set

    [(version, transport, ends)], was_set = asyncio.run(look())

    assert (version, transport) == ("2", None)
    assert was_set == [False]
    assert [end.is_set() for end in ends] == [True]


def _get_by_http2(port: int) -> None:
    """One request, whose client knows beforehand that the server speaks HTTP/2."""
    from h2.connection import H2Connection
    from h2.events import StreamEnded

    client = H2Connection()
    client.initiate_connection()
    client.send_headers(
        1, [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "127.0.0.1")], end_stream=True
    )
    with socket.create_connection(("127.0.0.1", port), timeout=60) as stream:
        has_ended = False
        while not has_ended:
            stream.sendall(client.data_to_send())
            events = client.receive_data(stream.recv(65_536))
            has_ended = any(isinstance(event, StreamEnded) for event in events)


def test_signal_handler_is_the_function_that_the_loop_calls() -> None:
    async def call() -> tuple[list[int], bool]:
        loop, called = asyncio.get_running_loop(), list[int]()
        before = signal_handler(loop, signal.SIGUSR1)
        loop.add_signal_handler(signal.SIGUSR1, called.append, 1)
        handler = signal_handler(loop, signal.SIGUSR1)
        assert handler is not None
        handler()
        loop.remove_signal_handler(signal.SIGUSR1)
        return called, before is None and signal_handler(loop, signal.SIGUSR1) is None

    assert asyncio.run(call()) == ([1], True)


def test_twisted_reactor_is_none_where_daphne_does_not_serve() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from mcp_django.core.compat.servers import twisted_reactor; print(twisted_reactor())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert done.stdout.strip() == "None"
    assert twisted_reactor() is None or "daphne.server" in sys.modules


def test_end_handshake_sets_what_uvicorn_looks_at() -> None:
    from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

    protocol = object.__new__(WebSocketsSansIOProtocol)
    protocol.handshake_complete = False

    end_handshake(protocol.send)
    end_handshake(print)

    assert protocol.handshake_complete
    # Where the protocol looks at it before it logs the error.
    assert "handshake_complete" in WebSocketsSansIOProtocol.run_asgi.__code__.co_names
