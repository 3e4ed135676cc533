"""The ASGI application of a URL. It answers ahead of Django's handler, and so several times faster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from http import HTTPStatus

from django.conf import settings

from mcp_django.access import https
from mcp_django.access.authentication import caller_of
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers
from mcp_django.core.types import Application, Receive, Scope, Send
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import from_scope
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import Overloaded
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import get_hub
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.asgi_servers.watchdog import reading_client
from mcp_django.transports.asgi_servers.wire import HELD, Wire
from mcp_django.transports.http.bodies import SMALL_BODY_BYTES, LargeBody
from mcp_django.transports.http.formats import JSON_FORMAT, accepted_format
from mcp_django.transports.http.headers import Headers
from mcp_django.transports.http.incoming import BodyOfLoop, ClientLeft, ReadBody
from mcp_django.transports.http.messages import (
    ANSWER_HEADERS,
    EventStream,
    HTTPError,
    HTTPRequest,
    HTTPResponse,
)
from mcp_django.transports.http.routes import VISITING, Route, is_visit
from mcp_django.transports.pacing import hold_refusal

#: How long an answer may take before the client is watched, in case it leaves.
_WATCH_AFTER_SECONDS = 0.05
_END = {"type": "http.response.body", "body": b"", "more_body": False}


class HTTPApplication:
    """An ASGI application for one route of a site."""

    def __init__(self, site: MCPSite, route: Route) -> None:
        self._site = site
        self.route = route
        self._loop: asyncio.AbstractEventLoop | None = None

    def answers(self, scope: Scope) -> bool:
        """Whether we answer the request: the route is open, and it is not a person's visit, whose page Django makes."""
        if self.route.is_open is not None and not self.route.is_open():
            return False
        if not self.route.has_page or scope["method"] not in VISITING:
            return True
        request = from_scope(scope)
        return bool(request.authorization) or not is_visit(Headers(request.META).get)

    async def below_middleware(self, django: Application, scope: Scope, receive: Receive, send: Send) -> None:
        """Let Django answer, which gives the request a thread, once there is a place for one more call."""
        for_hooks = from_scope(scope)
        request = HTTPRequest(scope["method"], Headers(for_hooks.META), None, for_hooks)
        body = ReadBody(receive)
        answer = _kept_back(django, {**scope, HELD: True}, body.receive, send)
        del scope  # As in the application: a frame that waits holds no credentials.
        async with body, AsyncExitStack() as stack:
            try:
                # Before there is a place: a client that sends a byte now and then holds up nobody.
                await body.read(None if self.route.view.reads_as_it_comes else get_conf().MAX_BODY_BYTES)
                with _Leaving(receive):
                    await stack.enter_async_context(get_workers().place(caller_of(for_hooks)))
                    body.is_wanted = True
            except TimeoutError:
                await _send(send, _too_slow(request))
            except ClientLeft:
                return
            except Overloaded as error:
                view = self.route.view(self._site, request, push=True)
                await hold_refusal()
                await _send(send, view.refuse(error).written(view.format))
            if body.is_wanted:
                await answer()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # From the first request on, this process learns at once which tokens another one revokes.
            close_hub_at_shutdown(get_hub())
            self._loop = loop
        for_hooks = from_scope(scope)
        redirect = https.redirect_of(for_hooks) if settings.SECURE_SSL_REDIRECT else None
        if redirect is not None:
            await _send(
                send, HTTPResponse(HTTPStatus(redirect.status_code), headers={"Location": redirect["Location"]})
            )
            return
        request = HTTPRequest(scope["method"], Headers(for_hooks.META, scope["headers"]), None, for_hooks)
        if self.route.view.reads_as_it_comes:
            await self._answer_reading(request, BodyOfLoop(receive), send)
            return
        try:
            # Before the caller is known: a client that sends a byte now and then is not waited for.
            async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
                chunks, ended = await _read_small(scope, receive)
        except TimeoutError:
            await _send(send, _too_slow(request))
        except ClientLeft:
            return
        else:
            body = b"".join(chunks)
            if ended and len(body) <= SMALL_BODY_BYTES:
                request.body = body if len(body) <= get_conf().MAX_BODY_BYTES else None
                await self._answer(request, None, receive, send)
            else:
                await self._answer_large(request, body, ended, receive, send)

    async def _answer_large(
        self, request: HTTPRequest, begun: bytes, ended: bool, receive: Receive, send: Send
    ) -> None:
        """Answer a request whose body is over 16 kB, if its caller may send one."""
        with LargeBody(self._site, request, receive, begun, ended=ended) as body:
            try:
                refused = await body.refusal()
                if refused is None:
                    async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
                        request.body, refused = await body.read()
            except TimeoutError:
                await _send(send, _too_slow(request))
            except ClientLeft:
                return
            else:
                if refused is None:
                    await self._answer(request, body.principal, receive, send, body.release)
                    return
                if body.is_turned_away:
                    await hold_refusal()
                # The whole answer, but not its end: at the end a server closes a connection with an unread body.
                await _send(send, refused.written(accepted_format(request.headers)), ends=False)
                await body.drain()
                await send(_END)

    async def _answer_reading(self, request: HTTPRequest, body: BodyOfLoop, send: Send) -> None:
        """Answer a request whose view reads the body."""
        request.incoming = body
        view = self.route.view(self._site, request, push=True)
        try:
            answer = await view.respond_on_loop()
        except ClientLeft:
            return
        if view.is_turned_away:
            await hold_refusal()
        # As in _answer_large.
        await _send(send, answer, ends=body.has_ended)
        if not body.has_ended:
            await body.drain(get_conf().MAX_BODY_BYTES)
            await send(_END)

    async def _answer(
        self,
        request: HTTPRequest,
        principal: Principal | None,
        receive: Receive,
        send: Send,
        release: Callable[[], None] | None = None,
    ) -> None:
        """Answer a request. ``release`` gives back the memory of its body, as soon as that is read."""
        with _Leaving(receive) as leaving:
            view = self.route.view(self._site, request, push=True)
            view.principal = principal
            answer = await view.respond_on_loop()
            if view.format is not JSON_FORMAT:
                answer = answer.written(view.format)
            if release is not None:
                request.body = None
                release()
            if view.is_turned_away:
                await hold_refusal()
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
            await _start(send, answer.status, answer.stream_headers())
        except BaseException:
            # A stream leaves the hub when it ends, and this one never begins.
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


def _kept_back(django: Application, scope: Scope, receive: Receive, send: Send) -> Callable[[], Awaitable[None]]:
    return lambda: django(scope, receive, send)


class _Leaving:
    """Gives up what the block is doing when the client goes away.

    Only a block that takes some time watches for that: most answers cost less than the task that watches.
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
        # We cancelled this task, unless the server has its own reason to end it.
        given_up = self._gave_up and self._task is not None and not self._task.uncancel()
        return given_up and kind is asyncio.CancelledError

    def watch(self) -> asyncio.Future[None]:
        """A future that is done when the client is gone. From now on, that does not cancel the block."""
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
        await wire.send(_END)


def _too_slow(request: HTTPRequest) -> HTTPResponse:
    refused = HTTPError(
        HTTPStatus.REQUEST_TIMEOUT, "The body took longer to come than a request may (REQUEST_SECONDS)."
    )
    body = jsonrpc.encode(jsonrpc.error_message(None, refused, LEGACY))
    headers = {"Connection": "close", **https.hsts_of(request.for_hooks)}
    refusal = HTTPResponse.json(body, HTTPStatus.REQUEST_TIMEOUT, headers)
    return refusal.written(accepted_format(request.headers))


async def _read_small(scope: Scope, receive: Receive) -> tuple[list[bytes], bool]:
    """The first chunks of the body, up to 16 kB or a little more, and whether they are all. Raises ClientLeft.

    If Content-Length announces more, nothing is read.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit() and int(value[:20]) > SMALL_BODY_BYTES:
            return [], False
    chunks: list[bytes] = []
    size, ended = 0, False
    while not ended and size <= SMALL_BODY_BYTES:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft
        chunks.append(message.get("body", b""))
        size += len(chunks[-1])
        ended = not message.get("more_body", False)
    return chunks, ended


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _start(send: Send, status: int, headers: dict[str, str]) -> None:
    encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": int(status), "headers": encoded})


async def _send(send: Send, answer: HTTPResponse, *, ends: bool = True) -> None:
    length = {} if answer.status == HTTPStatus.NO_CONTENT else {"Content-Length": str(len(answer.body))}
    await _start(send, answer.status, {**ANSWER_HEADERS, **answer.headers, **length})
    await send({"type": "http.response.body", "body": answer.body, "more_body": not ends})
