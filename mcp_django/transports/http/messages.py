"""An HTTP request as every entry point hands it over, and the response that every one of them writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from mcp_django.exceptions import MCPError
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import InsufficientScope, InvalidRequest, Throttled, Unauthenticated
from mcp_django.server.dispatch import PendingQuestions
from mcp_django.transports.http.headers import Headers

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"

#: Headers of every response: it is for its caller alone, and it is what its type says.
ANSWER_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

#: Response headers of an event stream: no proxy may hold it back or compress it.
SSE_HEADERS = {
    **ANSWER_HEADERS,
    "Content-Type": SSE_TYPE,
    "Cache-Control": "no-store, no-transform",
    "Content-Encoding": "identity",
    "X-Accel-Buffering": "no",
}


#: Reasons whose names in HTTPStatus depend on the version of Python: 3.13 has CONTENT_TOO_LARGE.
_REASONS = {HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "REQUEST_ENTITY_TOO_LARGE"}


class HTTPError(InvalidRequest):
    """A request that HTTP itself has a status for: a wrong method, type or size."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.http_status = status
        self.reason = _REASONS.get(status, status.name)
        self.headers = headers or {}


#: After how many seconds a client may try again whom the server has no room for.
_RETRY_AFTER = "1"


def headers_of(error: MCPError, status: int) -> dict[str, str]:
    """The headers that belong to an error which is answered with this status."""
    headers = dict(error.headers) if isinstance(error, HTTPError) else {}
    if isinstance(error, Unauthenticated | InsufficientScope) and error.challenge:
        headers["WWW-Authenticate"] = error.challenge
    if isinstance(error, Throttled):
        headers["Retry-After"] = str(error.retry_after)
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = _RETRY_AFTER
    return headers


@dataclass(slots=True)
class HTTPRequest:
    method: str
    headers: Headers
    #: The body, or None where it is longer than MAX_BODY_BYTES.
    body: bytes | None
    #: The Django request that the project's hooks are given.
    for_hooks: MCPRequest


class EventStream(ABC):
    """An event stream that an entry point is to write. On the event loop."""

    @abstractmethod
    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes to write, until the stream ends. To be closed where the client goes away before."""

    @abstractmethod
    def close(self) -> None:
        """The server is going down: end it as its client expects it to end."""

    @abstractmethod
    def abandon(self) -> None:
        """It will never be read."""


@dataclass(slots=True)
class HTTPResponse:
    status: HTTPStatus
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    stream: EventStream | None = None
    #: The questions that a legacy client must answer before there is a response.
    pending: PendingQuestions | None = None

    @classmethod
    def json(
        cls, body: bytes, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
    ) -> HTTPResponse:
        """A response whose body is JSON."""
        return cls(status, body, {"Content-Type": JSON_TYPE, **(headers or {})})


def event(body: bytes, event_id: str = "") -> bytes:
    """One server-sent event that carries an encoded message; an empty one only marks a place in its stream."""
    name = f"id: {event_id}\n".encode() if event_id else b""
    return name + (b"event: message\ndata: " + body if body else b"data:") + b"\n\n"
