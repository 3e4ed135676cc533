"""The ASGI application of a URL: it answers ahead of Django's handler, which is several times faster."""

from __future__ import annotations

import asyncio
from http import HTTPStatus

from mcp_django.conf import get_conf
from mcp_django.exchange.requests import from_scope
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import get_hub
from mcp_django.sites import MCPSite
from mcp_django.transports.http.headers import Headers
from mcp_django.transports.http.messages import SSE_HEADERS, EventStream, HTTPError, HTTPRequest, HTTPResponse
from mcp_django.transports.http.routes import Route
from mcp_django.transports.servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.servers.watchdog import reading_client
from mcp_django.transports.servers.wire import Wire
from mcp_django.types import Receive, Scope, Send

#: How long an answer may take before the client is watched, in case it leaves.
_WATCH_AFTER_SECONDS = 0.05


class HTTPApplication:
    """An ASGI application for one route of a site."""

    def __init__(self, site: MCPSite, route: Route) -> None:
        self._site = site
        self.route = route
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # From the first request on, this process learns at once which tokens another one revokes.
            close_hub_at_shutdown(get_hub())
            self._loop = loop
        try:
            # Before the caller is known: a client that sends a byte now and then is not waited for.
            async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
                body, gone = await _read_body(scope, receive)
        except TimeoutError:
            await _send(send, _too_slow())
            return
        if gone:
            return
        for_hooks = from_scope(scope)
        request = HTTPRequest(scope["method"], Headers(for_hooks.META, scope["headers"]), body, for_hooks)
        with _Leaving(receive) as leaving:
            answer = await self.route.view(self._site, request, push=True).respond_on_loop()
            if answer.stream is None:
                leaving.ignore()
                await _send(send, answer)
            else:
                await self._stream(send, answer, leaving.watch())

    async def _stream(self, send: Send, answer: HTTPResponse, leaving: asyncio.Future[None]) -> None:
        """Write the stream until it ends or the client goes away."""
        if answer.stream is None:
            return
        try:
            await _start(send, answer.status, {**SSE_HEADERS, **answer.headers})
        except BaseException:
            # The end of a stream takes what it has out of the hub, and this one never begins.
            answer.stream.abandon()
            raise
        writing = asyncio.ensure_future(_write(Wire(send), answer.stream))
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and not writing.cancelled():
                await writing
        except asyncio.CancelledError:
            # The server is going down and wants this task to end: the stream says so to its client first.
            answer.stream.close()
            await asyncio.wait({writing}, timeout=1)
            raise
        finally:
            writing.cancel()
            await asyncio.wait({writing})


class _Leaving:
    """Gives up what the block is doing when the client goes away.

    Only what takes some time looks for that: most answers cost less than the task that would.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watching: asyncio.Future[None] | None = None
        self._gave_up = False

    def __enter__(self) -> _Leaving:
        self._task = asyncio.current_task()
        self._timer = asyncio.get_running_loop().call_later(_WATCH_AFTER_SECONDS, self._watch_the_answer)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        self.ignore()
        if self._watching is not None:
            self._watching.cancel()
        # Ours, unless the server has its own reason to end this task.
        given_up = self._gave_up and self._task is not None and not self._task.uncancel()
        return given_up and kind is asyncio.CancelledError

    def watch(self) -> asyncio.Future[None]:
        """Done when the client is gone; what the block does is its own from now on."""
        self.ignore()
        if self._watching is None:
            self._watching = asyncio.ensure_future(_disconnected(self._receive))
        return self._watching

    def ignore(self) -> None:
        """Let the block go on to its end, whether its client is there or not."""
        self._timer.cancel()
        if self._watching is not None:
            self._watching.remove_done_callback(self._give_up)

    def _watch_the_answer(self) -> None:
        self._watching = asyncio.ensure_future(_disconnected(self._receive))
        self._watching.add_done_callback(self._give_up)

    def _give_up(self, watching: asyncio.Future[None]) -> None:
        if self._task is not None and not watching.cancelled():
            self._gave_up = True
            self._task.cancel()


async def _write(wire: Wire, stream: EventStream) -> None:
    events = stream.chunks()
    with reading_client(wire):
        try:
            async for chunk in events:
                await wire.send({"type": "http.response.body", "body": chunk, "more_body": True})
        finally:
            await events.aclose()
        await wire.send({"type": "http.response.body", "body": b"", "more_body": False})


def _too_slow() -> HTTPResponse:
    refused = HTTPError(
        HTTPStatus.REQUEST_TIMEOUT, "The body took longer to come than a request may (REQUEST_SECONDS)."
    )
    body = jsonrpc.encode(jsonrpc.error_message(None, refused, LEGACY))
    return HTTPResponse.json(body, HTTPStatus.REQUEST_TIMEOUT, {"Connection": "close"})


async def _read_body(scope: Scope, receive: Receive) -> tuple[bytes | None, bool]:
    """The body, None if it is longer than allowed; and whether the client has gone away."""
    limit = get_conf().MAX_BODY_BYTES
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > limit:
            return None, False
    chunks: list[bytes] = []
    size = 0
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None, True
        chunk = message.get("body", b"")
        size += len(chunk)
        if size > limit:
            return None, False
        chunks.append(chunk)
        if not message.get("more_body", False):
            return b"".join(chunks), False


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": encoded})


async def _send(send: Send, answer: HTTPResponse) -> None:
    length = {} if answer.status == HTTPStatus.NO_CONTENT else {"Content-Length": str(len(answer.body))}
    await _start(send, answer.status, {**answer.headers, **length})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
