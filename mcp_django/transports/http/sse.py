"""The transport HTTP+SSE of 2024-11-05: messages are posted to one URL, and everything comes on one event stream.

Off by default (``SSE_TRANSPORT``). The stream is a legacy session, which ends with it. A message may be posted to any
process, and is handed on to the one that holds the stream.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Coroutine
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.middleware_policy import socket_problem, why_no_push
from mcp_django.core.running.workers import get_workers
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol import envelope, jsonrpc
from mcp_django.protocol.errors import Forbidden, InvalidRequest, Overloaded, Paused, SessionNotFound
from mcp_django.push.hub import get_hub
from mcp_django.push.sessions import sse_streams
from mcp_django.server import step_up
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.http.base import View
from mcp_django.transports.http.formats import SSE_TYPE
from mcp_django.transports.http.messages import EventStream, HTTPError, HTTPResponse
from mcp_django.transports.lasting.duplex import DuplexConnection

logger = logging.getLogger("mcp_django")

_PARAMETER = "session_id"
#: Bytes that may wait for a client that reads slowly, before what answers it waits too.
_MAX_READY_BYTES = 65_536
#: How often a stream says that it is alive.
_RENEW_SECONDS = 20.0
_LOOP_SECONDS = 10.0
#: How long the answers of a stream that is paused are waited for, where requests have no limit.
_DRAIN_SECONDS = 60.0

#: Open streams of this process by their keys.
_streams: dict[str, SSEStream] = {}
_tasks: set[asyncio.Task[None]] = set()
# The loops of the parent do not run in a forked child.
os.register_at_fork(after_in_child=_streams.clear)


class UnservedView(View):
    """Refuses requests to both URLs under WSGI."""

    methods = ()

    @property
    def hint(self) -> str:  # type: ignore[override]
        return f"{why_no_push(self.site.has_call_context)} Without push there is no HTTP+SSE. Use /mcp."

    def handle(self, principal: Principal) -> HTTPResponse:
        raise self.not_allowed(self.hint)


class StreamView(View):
    """``GET /sse``: opens a stream."""

    methods = ("GET",)
    hint = "Use GET for the stream; its first event says where to POST."

    #: Names the stream, once a worker has noted it.
    _key = ""

    async def respond_on_loop(self) -> HTTPResponse:
        """A stream, or why there is none."""
        response = await super().respond_on_loop()
        if not self._key:
            return response
        limit = get_conf().MAX_LISTENS
        if get_hub().streams_of(self.request.mcp.principal.key) >= limit:
            _in_background(_forget(self._key))
            return self.refuse(Overloaded(f"You have {limit} streams open (MAX_LISTENS). Close one of them."))
        response.stream = SSEStream(self.site, self.request, self._key)
        return response

    def handle(self, principal: Principal) -> HTTPResponse:
        """Note the stream in the database: a message to it may come to any process."""
        problem = socket_problem(self.site.has_call_context, "the work that a stream asks for")
        if problem is not None:
            logger.error("HTTP+SSE refused: %s", problem)
            raise Forbidden("This server cannot serve HTTP+SSE; its log says why. Use /mcp.")
        if not self.http.headers.accepts(SSE_TYPE):
            raise HTTPError(HTTPStatus.NOT_ACCEPTABLE, f"Send Accept: {SSE_TYPE}.")
        self._key = sse_streams.open_stream(_owner(self.site, principal))
        return HTTPResponse(HTTPStatus.OK)


class SSEStream(EventStream):
    """An open stream. A member of the hub: it ends with the rights of its principal, and with its process."""

    is_counted = True
    #: No stored session ends it.
    session_key = None
    transport = "sse"

    def __init__(self, site: MCPSite, request: MCPRequest, key: str) -> None:
        self.site = site
        self.request = request
        self.principal = request.mcp.principal
        self.owner = _owner(site, self.principal)
        self._key = key
        self._loop = asyncio.get_running_loop()
        self._hub = get_hub()
        self._closing = False
        self._ready = bytearray()
        self._more = asyncio.Event()
        self._room = asyncio.Event()
        #: Messages of the client, in their order.
        self._inbox: asyncio.Queue[Any] = asyncio.Queue(get_conf().MAX_IN_FLIGHT)
        self._connection = DuplexConnection(site, self.principal, request, self._write, self.close, transport="sse")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        close_hub_at_shutdown(self._hub)
        _streams[self._key] = self
        self._hub.join(self)
        working = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._fetch())]
        try:
            address = f"{self.request.path.rstrip('/')}/messages?{_PARAMETER}={self._key}"
            yield f"event: endpoint\ndata: {address}\n\n".encode()
            while self._ready or not self._closing:
                if not self._ready:
                    try:
                        async with asyncio.timeout(get_conf().KEEPALIVE_SECONDS):
                            await self._more.wait()
                    except TimeoutError:
                        yield self.format.keepalive
                self._more.clear()
                if self._ready:
                    ready, self._ready = bytes(self._ready), bytearray()
                    self._room.set()
                    yield ready
        finally:
            for task in working:
                task.cancel()
            _streams.pop(self._key, None)
            self._hub.leave(self)
            self._connection.leave()
            _in_background(_forget(self._key))

    def close(self, *, going_away: bool = False) -> None:
        self._closing = True
        self._more.set()

    def pause(self, paused: Paused) -> None:
        if self._connection.pause(paused):
            _in_background(self._end_once_answered())

    async def _end_once_answered(self) -> None:
        await self._connection.drain(get_conf().REQUEST_SECONDS or _DRAIN_SECONDS)
        self.close()

    def abandon(self) -> None:
        """Do nothing: before it is read, a stream holds only a lease, which ends by itself."""

    # Messages of the client.

    def post(self, value: Any) -> None:
        """Take in a message, from a worker. Raises Overloaded, and SessionNotFound where the stream has ended."""

        async def put() -> None:
            if self._closing or self._key not in _streams:
                raise _no_stream()
            try:
                self._inbox.put_nowait(value)
            except asyncio.QueueFull:
                raise _too_many() from None

        asyncio.run_coroutine_threadsafe(put(), self._loop).result(_LOOP_SECONDS)

    async def _read(self) -> None:
        while True:
            await self._connection.take(await self._inbox.get())

    async def _fetch(self) -> None:
        """Take in the messages that were posted to other processes, and say that the stream is alive."""
        control = sse_streams.mail_of(self._key)
        arrived = self._hub.waiters.expect(control)
        try:
            while True:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_RENEW_SECONDS):
                        await arrived.wait()
                arrived.clear()
                try:
                    bodies = await get_workers().run(sse_streams.renew_and_take, self._key)
                except Overloaded:
                    arrived.set()
                    await asyncio.sleep(0.05)
                    continue
                except Exception:
                    logger.exception("What was posted to a stream could not be fetched; trying again")
                    continue
                if bodies is None:
                    self.close()
                    return
                for body in bodies:
                    await self._inbox.put(jsonrpc.decode(body))
        finally:
            self._hub.waiters.unexpect(control, arrived)

    # Messages to the client.

    async def _write(self, body: bytes) -> None:
        while len(self._ready) >= _MAX_READY_BYTES:
            self._room.clear()
            await self._room.wait()
        self._ready += self.format.event(body)
        self._more.set()


class MessageView(View):
    """``POST /sse/messages``: a message of the client, which is answered on its stream."""

    reads_token_again = False
    refuses_paused = False
    _request_id: jsonrpc.RequestId | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.principal_key is not None:
            # In a queue of its own: a message may cancel one of the calls that it would otherwise wait for.
            self.principal_key += " posts"

    @property
    def request_id(self) -> jsonrpc.RequestId | None:
        return self._request_id

    def handle(self, principal: Principal) -> HTTPResponse:
        body = self.checked_body()
        value = jsonrpc.decode(body)
        if not isinstance(value, list):
            self._check(value)
            step_up.check_message(self.site, self.request, value)
        self._hand_over(self._key(), _owner(self.site, principal), value, body)
        return HTTPResponse(HTTPStatus.ACCEPTED)

    def _check(self, value: Any) -> None:
        """Raises MCPError for a value that is no message, and for a modern message."""
        try:
            message = jsonrpc.parse(value)
        except jsonrpc.Malformed as malformed:
            self._request_id = malformed.request_id
            raise malformed.error from None
        if not isinstance(message, jsonrpc.Response) and envelope.claims_modern(message.params):
            raise InvalidRequest("This URL serves the sessions of HTTP+SSE. Send a message with _meta to /mcp.")

    def _key(self) -> str:
        keys = parse_qs(str(self.request.META.get("QUERY_STRING", ""))).get(_PARAMETER, [])
        if len(keys) != 1 or not keys[0].isprintable():
            raise InvalidRequest(f"Send the message to the URL that the stream's first event named, with {_PARAMETER}.")
        return keys[0]

    def _hand_over(self, key: str, owner: str, value: Any, body: bytes) -> None:
        """Give the message to the stream, here or in the process that holds it. Raises MCPError."""
        stream = _streams.get(key)
        if stream is not None and stream.owner == owner:
            stream.post(value)
            return
        if not sse_streams.is_open(key, owner):
            raise _no_stream()
        if not sse_streams.post(key, body.decode()):
            raise _too_many()


def _owner(site: MCPSite, principal: Principal) -> str:
    """The owner of a stream: the credential line, with its scopes as they are now.

    What it is lent is left out, which begins and ends while the stream is open.
    """
    return hashlib.sha256(jsonrpc.encode([site.name, principal.lineage, principal.constant])).hexdigest()


def _no_stream() -> SessionNotFound:
    return SessionNotFound("open a stream with GET, and send messages where its first event says.")


def _too_many() -> Overloaded:
    return Overloaded(f"At most {get_conf().MAX_IN_FLIGHT} messages may wait (MAX_IN_FLIGHT). Try again in a moment.")


async def _forget(key: str) -> None:
    with contextlib.suppress(Overloaded):  # The lease ends by itself.
        await get_workers().run(sse_streams.forget, key)


def _in_background(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.get_running_loop().create_task(work)
    _tasks.add(task)
    task.add_done_callback(_tasks.discard)
