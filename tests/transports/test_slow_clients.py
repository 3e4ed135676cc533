"""Clients that stop reading, and sockets that nobody uses: they end, and nothing of them is left."""

from __future__ import annotations

import asyncio
import socket
import time
from functools import partial
from typing import Any

import pytest

from mcp_django.core.compat.servers import transport_below
from mcp_django.push import hub as hubs
from mcp_django.transports.asgi_servers.wire import Wire
from mcp_django.transports.lasting import admission, lasting
from tests.end_to_end.servers import wait_for
from tests.support.data import token_of
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, ASGIPeer, Message, Peers, Socket, SocketPeer, meta

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}


class Stopping:
    """An application whose client stops reading: from then on the server's ``send`` waits."""

    def __init__(self, application: Any, *, closes: bool = True) -> None:
        self.stopped = False
        #: Whether a close frame still fits into the server's buffer.
        self.closes = closes
        self._application = application
        self._never = asyncio.Event()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_or_wait(message: Message) -> None:
            if self.stopped and not (self.closes and message["type"] == "websocket.close"):
                await self._never.wait()
            await send(message)

        await self._application(scope, receive, send_or_wait)


def hub() -> Any:
    [found] = hubs._hubs.values()
    return found


def subscribed(socket: Socket, *uris: str) -> None:
    """A listen on the socket, acknowledged."""
    params = {"notifications": {"resourceSubscriptions": list(uris)}, "_meta": meta()}
    socket.send({"jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen", "params": params})
    opened = socket.loop.run(asyncio.wait_for(socket.notifications.get(), 30))
    assert opened["method"] == "notifications/subscriptions/acknowledged"


# Sockets.


@pytest.mark.every_case
@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize(("closes", "code"), [(True, 1013), (False, None)])
def test_a_socket_that_is_not_read_ends_and_holds_nothing(
    admin: SocketPeer, flights: Any, settings: Any, closes: bool, code: int | None
) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0.2}
    application = Stopping(admin.application, closes=closes)
    socket = Socket(admin.loop, application, {"Authorization": f"Bearer {admin.token}"})
    subscribed(socket, "db://flights/flight/1")
    watching = admin.watch(MODERN, ["db://flights/flight/1"])
    application.stopped = True

    flights[0].save()
    told = watching.uris(1)
    socket.loop.run(socket.call.finish())
    ended_with = socket.wait_closed() if closes else None

    assert told == ["db://flights/flight/1"]
    assert ended_with == code
    assert len(hub()._listeners) == 1
    assert len(hub()._members) == 2  # The other socket, and its listen.
    assert sum(admission._open.values()) == 1


@pytest.mark.parametrize("transport", ["websocket"])
def test_filling_memory_with_answers_that_are_never_read(admin: SocketPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0.5, "MAX_IN_FLIGHT": 4}
    application = Stopping(admin.application)
    socket = Socket(admin.loop, application, {"Authorization": f"Bearer {admin.token}"})
    assert socket.ask(PING) == PONG
    application.stopped = True

    for number in range(100):
        socket.send({**PING, "id": number})
    left = socket.call.inbox.qsize()
    socket.loop.run(socket.call.finish())

    # Four were answered, one was refused; the others were not even taken from the network.
    assert left >= 90
    assert socket.wait_closed() == 1013


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_slow_socket_that_reads_on_stays(admin: SocketPeer, flights: Any, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0.2}
    looked: list[float] = []
    socket = admin.connect()
    subscribed(socket, "db://flights/flight/1")

    async def look() -> None:
        [watched] = lasting.get_watchdog()._watched
        original = watched.look
        watched.look = lambda now: (looked.append(now), original(now))

    socket.loop.run(look())
    wait_for(lambda: len(looked) > 8, "eight looks")

    assert socket.ask(PING)["id"] == 1
    assert socket.closed_with is None


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_socket_that_says_nothing_is_shown_out(admin: SocketPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "REQUEST_SECONDS": 0.2}

    socket = admin.connect()

    assert socket.wait_closed() == 1008
    socket.loop.run(socket.call.finish())
    assert not admission._open


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_an_idle_socket_ends_normally_and_one_that_listens_is_not_idle(
    admin: SocketPeer, flights: Any, settings: Any, revision: str
) -> None:
    settings.MCP = {**settings.MCP, "SOCKET_IDLE_SECONDS": 1, "REQUEST_SECONDS": 60}
    watching = admin.watch(revision, ["db://flights/flight/1"])

    # Twice as long as a socket may be idle, at least.
    for _ in range(2):
        idle = admin.connect()
        assert idle.ask(PING) == PONG
        assert idle.wait_closed() == 1000
    flights[0].save()

    assert watching.uris(1) == ["db://flights/flight/1"]


@pytest.mark.parametrize("transport", ["websocket"])
def test_opening_sockets_without_end(users: Any, peers: Peers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 2}
    admin, viewer = peers(token_of(users.admin)), peers(token_of(users.viewer))
    first, second = admin.connect(), admin.connect()

    third = admin.connect()
    other = viewer.connect()
    first.close()
    fourth = admin.connect()

    assert (first.accepted, second.accepted, third.accepted, other.accepted) == (True, True, False, True)
    assert third.refused[0]["status"] == 503
    assert b"You have 2 connections open (MAX_LISTENS). Close one of them." in third.refused[1]["body"]
    assert fourth.accepted


@pytest.mark.parametrize("transport", ["websocket"])
def test_an_error_of_our_own_ends_the_socket_with_1011(
    admin: SocketPeer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail(self: Any, value: Any) -> None:
        raise RuntimeError("a defect")

    socket = admin.connect()
    monkeypatch.setattr("mcp_django.transports.lasting.duplex.DuplexConnection.take", fail)

    socket.send(PING)

    assert socket.wait_closed() == 1011
    assert [record.message for record in caplog.records] == ["A connection ends, since a frame could not be taken in"]
    assert hub().is_empty


@pytest.mark.parametrize("transport", ["websocket"])
def test_a_listen_that_fails_ends_its_socket_and_is_not_waited_for(
    admin: SocketPeer, flights: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    socket = admin.connect()
    subscribed(socket, "db://flights/flight/1")

    def fail(self: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr("mcp_django.push.listeners.Listener.take", fail)
    flights[0].save()

    assert socket.wait_closed() == 1011
    assert [record.message for record in caplog.records] == ["A connection ends, since a message could not be written"]
    assert hub().is_empty


@pytest.mark.parametrize("transport", ["websocket"])
@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_a_listener_holds_nothing_that_its_request_found_out(admin: SocketPeer, flights: Any, revision: str) -> None:
    admin.watch(revision, ["db://flights/flight/1"])

    [listener] = hub()._listeners
    [member] = set(hub()._members) - {listener}

    assert listener.request is member.request
    assert listener.principal is member.principal
    assert vars(listener.request).keys().isdisjoint({"_mcp_rights", "headers", "GET", "POST"})


# Event streams.


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-asgi"])
@pytest.mark.parametrize("revision", [MODERN, "2025-11-25"])
def test_a_stream_that_is_not_read_ends_and_holds_nothing(
    admin: ASGIPeer, flights: Any, settings: Any, revision: str
) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0.2}
    application, admin.application = admin.application, Stopping(admin.application)
    stopping = admin.application
    watching = admin.watch(revision, ["db://flights/flight/1"])
    admin.application = application
    other = admin.watch(MODERN, ["db://flights/flight/1"])
    stopping.stopped = True

    flights[0].save()
    told = other.uris(1)
    admin.loop.run(asyncio.wait_for(asyncio.wait({watching.call.task}), 30))

    assert told == ["db://flights/flight/1"]
    assert len(hub()._listeners) == 1
    other.close()
    assert hub().is_empty


# What lies below.


class Asyncio:
    """A transport of asyncio, as uvicorn and hypercorn have them."""

    def __init__(self) -> None:
        self.unsent = 0
        self.aborted = False

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def get_extra_info(self, name: str) -> None:
        return None

    def abort(self) -> None:
        self.aborted = True


class Twisted:
    """A transport of Twisted, which keeps what is written to it."""

    def __init__(self) -> None:
        self.dataBuffer = b""
        self.offset = 0
        self._tempDataLen = 0
        self.disconnected = False
        self.reading = True
        self.aborted = False

    def getHandle(self) -> None:
        raise AttributeError

    def pauseProducing(self) -> None:
        self.reading = False

    def resumeProducing(self) -> None:
        self.reading = True

    def abortConnection(self) -> None:
        self.aborted = True


class Layer:
    """One object between an application and a transport."""

    def __init__(self, **below: Any) -> None:
        self.__dict__.update(below)
        self.sent: list[Any] = []

    async def write(self, message: Any) -> None:
        self.sent.append(message)


class H2Protocol(Layer):
    """One connection for many requests, as hypercorn names it."""


async def reply(protocol: Any, message: Any) -> None:
    """As Daphne's ``handle_reply``."""
    protocol.transport.dataBuffer += message


@pytest.fixture
def daphne() -> tuple[Twisted, Wire]:
    transport = Twisted()
    return transport, Wire(partial(reply, Layer(transport=transport)))


def test_the_transport_is_found_below_the_send_of_each_server(settings: Any) -> None:
    transport, twisted = Asyncio(), Twisted()
    uvicorn = Layer(transport=transport)
    hypercorn = Layer(send=Layer(send=Layer(writer=Layer(transport=transport)).write).write)
    daphne_request = Layer(channel=Layer(transport=twisted))

    assert transport_below(uvicorn.write) is transport
    assert transport_below(hypercorn.write) is transport
    assert transport_below(partial(reply, Layer(transport=twisted))) is twisted
    assert transport_below(partial(reply, daphne_request)) is twisted
    # A connection that many requests share is not aborted for one.
    shared = H2Protocol(send=Layer(writer=Layer(transport=transport)).write)
    assert transport_below(Layer(send=shared.write).write) is None
    assert transport_below(Layer().write) is None
    assert transport_below(print) is None
    assert transport_below(None) is None


def test_what_daphne_keeps_for_a_client_is_waited_for(
    daphne: tuple[Twisted, Wire], serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport, wire = daphne
    # It looks at each turn of the loop.
    monkeypatch.setattr("mcp_django.transports.asgi_servers.wire._ASK_SECONDS", 0)

    async def write() -> list[bool]:
        writing = asyncio.ensure_future(wire.send(b"x" * 100_000))
        for _ in range(20):
            await asyncio.sleep(0)
        waited = not writing.done()
        transport.offset = 50_000
        await asyncio.wait_for(writing, 30)
        return [waited, writing.done()]

    assert serving_loop.run(write()) == [True, True]
    assert wire.unsent == 50_000


def test_daphne_reads_no_frames_ahead_of_a_reader_that_waits(daphne: tuple[Twisted, Wire]) -> None:
    transport, wire = daphne

    wire.pause_reading()
    paused = not transport.reading
    wire.resume_reading()

    assert paused
    assert transport.reading


def test_a_client_that_leaves_a_rest_unread_is_noticed_unless_that_is_switched_off(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 30}
    transport = Asyncio()
    wire = Wire(Layer(transport=transport).write)
    now = time.monotonic()

    everything_taken = wire.is_stalled(now + 60)
    transport.unsent = 1

    assert not everything_taken
    assert not wire.is_stalled(now + 20)
    assert wire.is_stalled(now + 60)
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0}
    assert not wire.is_stalled(now + 60)
    assert wire.abort()
    assert transport.aborted


def test_a_write_that_takes_too_long_is_noticed_where_nothing_else_is_seen(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 30}
    wire = Wire(Layer().write)
    now = time.monotonic()

    wire.begin()

    assert not wire.is_stalled(now + 20)
    assert wire.is_stalled(now + 60)
    assert not wire.abort()
    wire.end()
    assert not wire.is_stalled(now + 60)


class _Lost(asyncio.Protocol):
    """A server's end of a connection."""

    def __init__(self) -> None:
        self.made: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.lost: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: Any) -> None:
        self.made.set_result(transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.lost.set_result(exc)


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="only Linux ends such a connection by itself")
def test_the_system_ends_a_connection_whose_rest_nobody_takes(settings: Any, serving_loop: LoopThread) -> None:
    settings.MCP = {**settings.MCP, "WRITE_SECONDS": 0.5}

    async def leave_unread() -> BaseException | None:
        loop = asyncio.get_running_loop()
        protocol = _Lost()
        server = await loop.create_server(lambda: protocol, "127.0.0.1", 0)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        client.setblocking(False)
        await loop.sock_connect(client, server.sockets[0].getsockname())
        transport = await protocol.made
        wire = Wire(Layer(transport=transport).write)
        # What the system takes over is nothing that this process could see to be unread.
        transport.write(b"x" * 30_000)
        seen = wire.unsent
        try:
            error = await asyncio.wait_for(protocol.lost, 60)
        finally:
            client.close()
            server.close()
        assert seen == 0
        return error

    assert isinstance(serving_loop.run(leave_unread(), 90), TimeoutError)
