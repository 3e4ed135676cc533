"""An HTTP request as every entry point hands it over, and the response that every one of them writes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING

from mcp_django.exceptions import MCPError
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import InsufficientScope, InvalidRequest, Paused, Throttled, Unauthenticated
from mcp_django.server.dispatch import PendingQuestions
from mcp_django.transports.http.formats import JSON_FORMAT, JSON_TYPE, Format
from mcp_django.transports.http.headers import Headers
from mcp_django.transports.http.incoming import IncomingBody

if TYPE_CHECKING:
    from mcp_django.transports.http.polling import WaitingPoll

#: Headers of every response: it is for its caller alone, and it is what its type says.
ANSWER_HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}

#: Response headers of a stream: no proxy may hold it back or compress it.
STREAM_HEADERS = {
    **ANSWER_HEADERS,
    "Cache-Control": "no-store, no-transform",
    "Content-Encoding": "identity",
    "X-Accel-Buffering": "no",
}


#: Reasons whose names in HTTPStatus depend on the version of Python: 3.13 has CONTENT_TOO_LARGE.
_REASONS = {
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "REQUEST_ENTITY_TOO_LARGE",
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: "REQUESTED_RANGE_NOT_SATISFIABLE",
}


class HTTPError(InvalidRequest):
    """A request that HTTP itself has a status for: a wrong method, type or size."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(message)
        self.http_status = status
        self.reason = _REASONS.get(status, status.name)
        self.headers = headers or {}


#: The seconds until a client may try again, when the server has no room for it.
_RETRY_AFTER = "1"


def headers_of(error: MCPError, status: int) -> dict[str, str]:
    """The headers that belong to an error which is answered with this status."""
    headers = dict(error.headers) if isinstance(error, HTTPError) else {}
    if isinstance(error, Unauthenticated | InsufficientScope) and error.challenge:
        headers["WWW-Authenticate"] = error.challenge
    if isinstance(error, Throttled | Paused):
        headers["Retry-After"] = str(error.retry_after)
    elif status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = _RETRY_AFTER
    return headers


@dataclass(slots=True)
class HTTPRequest:
    method: str
    headers: Headers
    #: The body, or None where it is longer than MAX_BODY_BYTES. Reports of errors show no bodies.
    body: bytes | None = field(repr=False)
    #: The Django request that the project's hooks are given.
    for_hooks: MCPRequest
    #: The body as it comes, for views that read it so, and under WSGI for one in chunks.
    incoming: IncomingBody | None = None


class EventStream(ABC):
    """A stream of events that an entry point is to write. On the event loop."""

    #: How its events are written.
    format: Format = JSON_FORMAT

    @abstractmethod
    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The bytes to write, until the stream ends. To be closed if the client leaves earlier."""

    @abstractmethod
    def close(self) -> None:
        """The server is going down: end it as its client expects it to end."""

    @abstractmethod
    def abandon(self) -> None:
        """It will never be read."""


@dataclass(slots=True)
class HTTPResponse:
    status: HTTPStatus
    body: bytes = field(default=b"", repr=False)
    headers: dict[str, str] = field(default_factory=dict)
    stream: EventStream | None = None
    #: The questions that a legacy client must answer before there is a response.
    pending: PendingQuestions | None = None
    #: The poll whose response this will be, once a message waits or its time is over.
    poll: WaitingPoll | None = None

    @classmethod
    def json(
        cls, body: bytes, status: HTTPStatus = HTTPStatus.OK, headers: dict[str, str] | None = None
    ) -> HTTPResponse:
        """A response whose body is JSON."""
        return cls(status, body, {"Content-Type": JSON_TYPE, **(headers or {})})

    def written(self, wanted: Format) -> HTTPResponse:
        """The response as its client wants it written. A stream is written so by itself."""
        if self.headers.get("Content-Type") == JSON_TYPE:
            self.body = wanted.message(self.body)
            self.headers["Content-Type"] = wanted.message_type
        return self

    def stream_headers(self) -> dict[str, str]:
        """All headers of a response that is a stream."""
        stream_type = {} if self.stream is None else {"Content-Type": self.stream.format.stream_type}
        return {**STREAM_HEADERS, **stream_type, **self.headers}
