"""The ASGI door: our URLs answered ahead of Django's handler, which is several times faster."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http import HTTPStatus
from typing import Any

from mcp_django.access.requests import from_scope
from mcp_django.conf import get_conf
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.revisions import LEGACY
from mcp_django.transports.http.incoming import SSE_HEADERS, Answer, Headers, Incoming, Refusal
from mcp_django.transports.http.places import Place

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class HTTPDoor:
    """An ASGI application for one place."""

    def __init__(self, place: Place) -> None:
        self.place = place

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            # Before anybody is known: who sends a byte now and then is not waited for.
            async with asyncio.timeout(get_conf().REQUEST_SECONDS or None):
                body, gone = await _read_body(scope, receive)
        except TimeoutError:
            await _send(send, _too_slow())
            return
        if gone:
            return
        request = from_scope(scope)
        incoming = Incoming(scope["method"], Headers(request.META, scope["headers"]), body, request)
        answering = asyncio.ensure_future(self.place.answer_on_loop(incoming))
        leaving = asyncio.ensure_future(_disconnected(receive))
        either: set[asyncio.Future[Any]] = {answering, leaving}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                return
            answer = await answering
            if answer.stream is None:
                await _send(send, answer)
            else:
                await self._stream(send, answer, leaving)
        finally:
            leaving.cancel()
            _drop(answering)

    async def _stream(self, send: Send, answer: Answer, leaving: asyncio.Future[None]) -> None:
        """Write the stream until it ends or the client goes away."""
        if answer.stream is None:
            return
        await _start(send, answer.status, {**SSE_HEADERS, **answer.headers})

        async def write() -> None:
            if answer.stream is not None:
                events = answer.stream.chunks()
                try:
                    async for chunk in events:
                        await send({"type": "http.response.body", "body": chunk, "more_body": True})
                finally:
                    await events.aclose()
            await send({"type": "http.response.body", "body": b"", "more_body": False})

        writing = asyncio.ensure_future(write())
        try:
            await asyncio.wait({writing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done():
                await writing
        except asyncio.CancelledError:
            # The server is going down and wants this task to end: the stream says so to its client first.
            answer.stream.close()
            await asyncio.wait({writing}, timeout=1)
            raise
        finally:
            writing.cancel()
            await asyncio.wait({writing})


def _drop(answering: asyncio.Future[Answer]) -> None:
    """Nobody waits for the answer any more: a stream that has come meanwhile may not have been begun."""
    if not answering.done():
        answering.cancel()
    elif not answering.cancelled() and answering.exception() is None:
        stream = answering.result().stream
        if stream is not None:
            stream.abandon()


def _too_slow() -> Answer:
    refused = Refusal(HTTPStatus.REQUEST_TIMEOUT, "The body took longer to come than a request may (REQUEST_SECONDS).")
    body = jsonrpc.encode(jsonrpc.error_message(None, refused, LEGACY))
    return Answer.of(body, HTTPStatus.REQUEST_TIMEOUT, {"Connection": "close"})


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


async def _send(send: Send, answer: Answer) -> None:
    length = {} if answer.status == HTTPStatus.NO_CONTENT else {"Content-Length": str(len(answer.body))}
    await _start(send, answer.status, {**answer.headers, **length})
    await send({"type": "http.response.body", "body": answer.body, "more_body": False})
