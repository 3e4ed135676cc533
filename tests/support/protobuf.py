"""Protobuf over HTTP, behind the client of JSON: what it sends is translated, and what comes back too."""

from __future__ import annotations

from typing import Any

from google.protobuf.internal.decoder import _DecodeVarint

from mcp_django.protocol import jsonrpc, protobuf
from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.protocol.errors import ParseError
from mcp_django.transports.http.formats import JSON_TYPE, PROTOBUF_STREAM_TYPE, PROTOBUF_TYPE, SSE_TYPE

_TYPES = {JSON_TYPE: PROTOBUF_TYPE, SSE_TYPE: PROTOBUF_STREAM_TYPE}
_BACK = {ours: theirs for theirs, ours in _TYPES.items()}


class ProtobufWire:
    """An ASGI application that speaks JSON with its caller, and Protobuf with the application behind it.

    What is no JSON in the first place goes as it is, and so does an answer to a client that accepts no JSON. No other
    answer may come as JSON.
    """

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sent = dict(scope["headers"])
        if sent.get(b"content-type") != JSON_TYPE.encode():
            await self._application(scope, receive, send)
            return
        first = await receive()
        while first.get("more_body") and not first.get("body"):
            first = await receive()
        given = first.get("body", b"")
        try:
            body = protobuf.encode(jsonrpc.encode(jsonrpc.decode(given))) if given else b""
        except ParseError:
            await self._application(scope, _Ahead(first, receive), send)
            return
        sent[b"content-type"] = PROTOBUF_TYPE.encode()
        sent[b"accept"] = _accepted(sent.get(b"accept", b"").decode("latin-1")).encode("latin-1")
        types = {name: sent[name] for name in (b"content-type", b"accept")}
        others = [item for item in scope["headers"] if item[0] not in (*types, b"content-length")]
        replaced = {**scope, "headers": [*types.items(), *others]}
        ahead = _Ahead({**first, "body": body} if given else first, receive)
        wants_ours = any(ours in sent[b"accept"].decode("latin-1") for ours in _BACK)
        await self._application(replaced, ahead, _Translating(send) if wants_ours else send)


def _accepted(accept: str) -> str:
    for theirs, ours in _TYPES.items():
        accept = accept.replace(theirs, ours)
    return accept


class _Ahead:
    """Receives one message ahead of the others."""

    def __init__(self, first: Any, receive: Any) -> None:
        self._first = first
        self._receive = receive

    async def __call__(self) -> Any:
        first, self._first = self._first, None
        return await self._receive() if first is None else first


class _Translating:
    """Sends a response on, as JSON or as server-sent events."""

    def __init__(self, send: Any) -> None:
        self._send = send
        self._is_stream = False
        self._left = b""

    async def __call__(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            headers = dict(message["headers"])
            content_type = headers.get(b"content-type", b"").decode()
            self._is_stream = content_type == PROTOBUF_STREAM_TYPE
            assert content_type in _BACK or not content_type, content_type
            if content_type:
                headers[b"content-type"] = _BACK[content_type].encode()
                headers.pop(b"content-length", None)  # Of the body before it is translated.
            await self._send({**message, "headers": list(headers.items())})
        elif self._is_stream:
            await self._send({**message, "body": self._events(message.get("body", b""), message.get("more_body"))})
        else:
            body = message.get("body", b"")
            await self._send({**message, "body": jsonrpc.encode(protobuf.decode(body)) if body else b""})

    def _events(self, chunk: bytes, more: Any) -> bytes:
        """The events that a chunk completes, as server-sent ones."""
        self._left += chunk
        written = b""
        while (event := self._next()) is not None:
            written += sse_event(event)
        assert more or not self._left, "the stream ends within an event"
        return written

    def _next(self) -> pb.Event | None:
        try:
            length, begin = _DecodeVarint(self._left, 0)
        except IndexError:
            return None
        if len(self._left) < begin + length:
            return None
        event = pb.Event.FromString(self._left[begin : begin + length])
        self._left = self._left[begin + length :]
        return event


def sse_event(event: pb.Event) -> bytes:
    """The server-sent event with the same fields; an empty one is a comment."""
    lines = [f"retry: {event.retry}"] if event.HasField("retry") else []
    if event.HasField("id"):
        lines.append(f"id: {event.id}")
    if event.HasField("message"):
        body = jsonrpc.encode(protobuf.decode(event.message.SerializeToString()))
        lines += ["event: message", f"data: {body.decode()}"]
    elif event.HasField("id"):
        lines.append("data:")
    return "\n".join(lines or [":"]).encode() + b"\n\n"
