"""The formats of HTTP bodies: JSON with server-sent events, and Protobuf with messages behind their lengths.

A client chooses each direction by itself: Content-Type says what it sends, Accept what it wants. Within the server a
message is JSON in any case.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from functools import cache
from typing import Any

from mcp_django.protocol import jsonrpc
from mcp_django.transports.http.headers import Headers

logger = logging.getLogger("mcp_django")

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"
PROTOBUF_TYPE = "application/mcp+protobuf"
#: A sequence of ``Event`` messages of mcp.proto.
PROTOBUF_STREAM_TYPE = "application/mcp+protobuf-seq"


class Format(ABC):
    """How messages are written into a response and read from a request."""

    #: The media type of one message, or of a batch.
    message_type: str
    #: The media type of a stream of messages.
    stream_type: str
    #: Written while there is nothing to send, so that no proxy takes the connection for dead.
    keepalive: bytes

    @abstractmethod
    def decode(self, body: bytes) -> Any:
        """The JSON value that a body stands for. Raises ParseError."""

    @abstractmethod
    def message(self, body: bytes) -> bytes:
        """The body of a response that is one message. ``body`` is the message as JSON."""

    @abstractmethod
    def event(self, body: bytes, event_id: str = "", retry_ms: int | None = None) -> bytes:
        """A part of a stream that carries a message, or only marks a place in it.

        ``retry_ms``: after how many milliseconds the client is to come back.
        """


class JSONFormat(Format):
    """JSON, and server-sent events (WHATWG HTML §9.2)."""

    message_type = JSON_TYPE
    stream_type = SSE_TYPE
    keepalive = b":\n\n"

    decode = staticmethod(jsonrpc.decode)

    def message(self, body: bytes) -> bytes:
        return body

    def event(self, body: bytes, event_id: str = "", retry_ms: int | None = None) -> bytes:
        head = f"id: {event_id}\n".encode() if event_id else b""
        if retry_ms is not None:
            head = f"retry: {retry_ms}\n".encode() + head
        if not body:
            # A place is marked by an event that carries no data; without a line of data there would be no event.
            return head + (b"data:\n\n" if event_id else b"\n")
        return head + b"event: message\ndata: " + body + b"\n\n"


JSON_FORMAT = JSONFormat()


class ProtobufFormat(Format):
    """The messages of ``mcp_django/protocol/mcp.proto``."""

    message_type = PROTOBUF_TYPE
    stream_type = PROTOBUF_STREAM_TYPE
    #: An empty event.
    keepalive = b"\0"

    def __init__(self) -> None:
        """Raises ImportError where Protobuf is not installed."""
        from mcp_django.protocol import protobuf

        self._protobuf = protobuf

    def decode(self, body: bytes) -> Any:
        return self._protobuf.decode(body)

    def message(self, body: bytes) -> bytes:
        return self._protobuf.encode(body)

    def event(self, body: bytes, event_id: str = "", retry_ms: int | None = None) -> bytes:
        return self._protobuf.encode_event(body, event_id, retry_ms)


@cache
def protobuf_format() -> ProtobufFormat | None:
    """The format Protobuf; None where it is not installed, or in a version that cannot read our generated code."""
    try:
        return ProtobufFormat()
    except ImportError:
        return None
    except Exception:
        logger.warning("Protobuf is not served: the package protobuf is older than 6.31.1.", exc_info=True)
        return None


def format_named(media_type: str) -> Format | None:
    """The format whose messages have this media type; None for any other type."""
    if media_type == JSON_TYPE:
        return JSON_FORMAT
    return protobuf_format() if media_type == PROTOBUF_TYPE else None


def accepted_format(headers: Headers) -> Format:
    """The format in which a request is answered: Protobuf where its Accept names that, otherwise JSON."""
    if headers.names(PROTOBUF_TYPE) or headers.names(PROTOBUF_STREAM_TYPE):
        return protobuf_format() or JSON_FORMAT
    return JSON_FORMAT
