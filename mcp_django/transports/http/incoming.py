"""An HTTP request as every door hands it over, and the answer that every door gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from http import HTTPStatus
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import InvalidRequest
from mcp_django.server.dispatch import Asked

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"
#: Longer values of Accept are read anew each time.
_USUAL_ACCEPT = 200

#: Response headers of an event stream: no proxy may hold it back or compress it.
SSE_HEADERS = {
    "Content-Type": SSE_TYPE,
    "Cache-Control": "no-cache, no-transform",
    "Content-Encoding": "identity",
    "X-Accel-Buffering": "no",
}


class Headers:
    """Request headers by lower-case name, over a request's META.

    ``raw`` are the headers as an ASGI server gives them. WSGI has none: what was sent twice is one, joined by a comma.
    """

    def __init__(self, meta: Mapping[str, Any], raw: Iterable[tuple[bytes, bytes]] = ()) -> None:
        self._meta = meta
        names = [name.lower() for name, _ in raw]
        #: The names of those that were sent more than once, as far as that can be seen.
        self.repeated: Collection[str] = ()
        if len(set(names)) < len(names):
            self.repeated = frozenset(name.decode("latin-1") for name in names if names.count(name) > 1)

    def get(self, name: str) -> str | None:
        value = self._meta.get(_meta_key(name))
        return None if value is None else value.strip(" \t")

    def accepts(self, media_type: str) -> bool:
        """Whether Accept lets ``media_type`` through (RFC 9110 §12.5.1); a missing Accept lets everything."""
        accept = self.get("accept")
        if not accept:
            return True
        # What clients send, they send each time.
        lets_through = _lets_through if len(accept) <= _USUAL_ACCEPT else _lets_through.__wrapped__
        return lets_through(accept, media_type)


@lru_cache(maxsize=1_000)
def _meta_key(name: str) -> str:
    """Where META has a header that we ask for; which these are, the specification says, and the tools of a site."""
    key = name.upper().replace("-", "_")
    return key if key == "CONTENT_TYPE" else f"HTTP_{key}"


@lru_cache(maxsize=200)
def _lets_through(accept: str, media_type: str) -> bool:
    ranges = {media_type: 3, media_type.partition("/")[0] + "/*": 2, "*/*": 1}
    best, accepted = 0, False
    for part in accept.lower().split(","):
        media_range, *parameters = (piece.strip() for piece in part.split(";"))
        if ranges.get(media_range, 0) > best:
            best = ranges[media_range]
            accepted = not any(p.partition("=")[0] == "q" and _is_zero(p.partition("=")[2]) for p in parameters)
    return accepted


def _is_zero(quality: str) -> bool:
    return quality.strip("0.") == "" and quality != ""


#: Reasons whose names in HTTPStatus depend on the version of Python: 3.13 has CONTENT_TOO_LARGE.
_REASONS = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "REQUEST_ENTITY_TOO_LARGE"}


class Refusal(InvalidRequest):
    """A request that HTTP itself gives a status for: a wrong method, type or size."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.http_status = status
        self.reason = _REASONS.get(status, status.name)
        self.headers = headers or {}


@dataclass(slots=True)
class Incoming:
    method: str
    headers: Headers
    #: The body, or None where it is longer than MAX_BODY_BYTES.
    body: bytes | None
    request: MCPRequest
    cancellation: Cancellation = field(default_factory=Cancellation)


def json_body(incoming: Incoming) -> bytes:
    """The body of a POST, which says that it is JSON. Raises Refusal."""
    content_type = (incoming.headers.get("content-type") or "").partition(";")[0].strip().lower()
    if content_type != JSON_TYPE:
        raise Refusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send Content-Type: {JSON_TYPE}.")
    if incoming.body is None:
        limit = get_conf().MAX_BODY_BYTES
        raise Refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is longer than {limit} bytes (MAX_BODY_BYTES).")
    return incoming.body


class EventStream(ABC):
    """An event stream that a door is to write. On the event loop."""

    @abstractmethod
    def chunks(self) -> AsyncGenerator[bytes, None]:
        """What is written, until the stream ends. To be closed where the client goes away before."""

    @abstractmethod
    def close(self) -> None:
        """The server is going down: end it as its client expects it to end."""

    @abstractmethod
    def abandon(self) -> None:
        """It will never be read."""


@dataclass(slots=True)
class Answer:
    status: HTTPStatus
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    stream: EventStream | None = None
    #: What a legacy client is to be asked before there is an answer.
    asked: Asked | None = None

    @classmethod
    def of(cls, body: bytes, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None) -> Answer:
        """An answer whose body is JSON."""
        return cls(status, body, {"Content-Type": JSON_TYPE, **(headers or {})})


def event(body: bytes, event_id: str = "") -> bytes:
    """One server-sent event that carries an encoded message; an empty one only marks a place in its stream."""
    name = f"id: {event_id}\n".encode() if event_id else b""
    return name + (b"event: message\ndata: " + body if body else b"data:") + b"\n\n"
