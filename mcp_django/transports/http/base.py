"""The base of the views: the checks before a request is handled, and how an error is answered.

A request runs through ``respond`` → ``dispatch`` → ``handle`` → ``finalize``, as in Django REST framework.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import ClassVar

from django.conf import settings

from mcp_django.access import challenges, https, origins, pauses
from mcp_django.access.authentication import authenticate, queue_key
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.running.suspension import Suspended
from mcp_django.core.running.workers import ADDRESS, get_workers
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InternalError, LimitExceeded, Overloaded, RequestCancelled, Unauthenticated
from mcp_django.protocol.revisions import LEGACY, Era
from mcp_django.server import trail
from mcp_django.transports.http.formats import (
    JSON_FORMAT,
    JSON_TYPE,
    Format,
    accepted_format,
    format_named,
    protobuf_format,
)
from mcp_django.transports.http.headers import wanted_params
from mcp_django.transports.http.messages import HTTPError, HTTPRequest, HTTPResponse, headers_of

logger = logging.getLogger("mcp_django")

#: A page may read why it is refused, whatever its origin: that says how to log in, and never anything of the data.
_FOR_EVERY_ORIGIN = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)


@dataclass(eq=False)
class View(ABC):
    """One HTTP request, and its response. A subclass is one of our URLs."""

    site: MCPSite
    http: HTTPRequest
    #: Whether an event loop runs the request, so that the response may be a stream.
    push: bool = False

    #: The methods that its URL knows.
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    #: The error message for another method.
    hint: ClassVar[str] = "Use POST."
    #: The headers that a page of an allowed origin may send, and those that it may read.
    cors_request_headers: ClassVar[str] = (
        "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, "
        "Last-Event-ID, Prefer"
    )
    cors_exposed_headers: ClassVar[str] = (
        "Mcp-Session-Id, WWW-Authenticate, Retry-After, Last-Event-ID, Preference-Applied"
    )
    #: Whether it reads the body as it comes, by ``HTTPRequest.incoming``. Otherwise the entry point has read it.
    reads_as_it_comes: ClassVar[bool] = False
    #: Whether the token is read from the database, even where this process has just read it.
    reads_token_again: ClassVar[bool] = True
    #: Whether a caller who is paused is refused. Otherwise that is decided for each message that it carries.
    refuses_paused: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.request = self.http.for_hooks
        #: The caller, where it is known before the request is dispatched.
        self.principal: Principal | None = None
        #: Names the caller before it is authenticated, to bound how many requests of one caller may wait. None where
        #: the credentials are refused for their form: that needs no worker.
        self.principal_key = queue_key(self.request) if self.push else ""
        #: Whether it was refused as a request of a caller who is not known.
        self.is_turned_away = False
        # Nearly all requests are of JSON, and cost nothing here.
        content_type = self.request.META.get("CONTENT_TYPE", "").partition(";")[0].strip().lower()
        #: The format of the body; None where its type is none of ours.
        self.content_format = JSON_FORMAT if content_type == JSON_TYPE else format_named(content_type)
        #: The format of the response.
        self.format: Format = JSON_FORMAT
        if "protobuf" in self.request.META.get("HTTP_ACCEPT", "").lower():
            self.format = accepted_format(self.http.headers)

    # The way of a request.

    def respond(self) -> HTTPResponse:
        """The response, in the thread of the caller. Never raises: errors of our own are logged."""
        return self.respond_by(self.dispatch)

    def respond_in_thread(self) -> HTTPResponse:
        """The response to a request without an event loop."""
        return self.respond()

    async def respond_on_loop(self) -> HTTPResponse:
        """The response to a request of an event loop, from a worker."""
        if self.principal_key is None:
            return self.respond()
        try:
            return await get_workers().run(self.respond, principal_key=self.principal_key)
        except Overloaded as error:
            return self.refuse(error)

    def respond_by(self, handler: Callable[[], HTTPResponse]) -> HTTPResponse:
        """The handler's response, or the one that its error is turned into. Raises Suspended."""
        try:
            return self._settled(handler)
        except Suspended as suspended:
            suspended.then(self._settled)
            raise

    def _settled(self, run: Callable[[], HTTPResponse]) -> HTTPResponse:
        try:
            return self.finalize(run())
        except MCPError as error:
            return self.refuse(error)
        except Exception:
            logger.exception("A request could not be answered")
            return self.refuse(InternalError())

    def dispatch(self) -> HTTPResponse:
        """Check the request, and handle it. Raises MCPError."""
        # A page that may not call gets past its preflight too, so that it can read why.
        if self.http.method == "OPTIONS":
            return self._preflight()
        origins.check(self.request)
        if self.http.method not in self.methods:
            raise self.not_allowed(self.hint)
        principal = self.principal or authenticate(self.request, fresh=self.reads_token_again)
        self.request.for_principal(principal)
        if self.refuses_paused:
            pauses.check(self.site, principal)
        return self.handle(principal)

    @abstractmethod
    def handle(self, principal: Principal) -> HTTPResponse:
        """The response to an authenticated caller. Raises MCPError."""

    def finalize(self, response: HTTPResponse) -> HTTPResponse:
        """Add the headers that every response has."""
        if settings.SECURE_HSTS_SECONDS:
            response.headers.update(https.hsts_of(self.request))
        origin = self.http.headers.get("origin")
        if origin is None:
            return response
        is_allowed = origin in get_conf().ALLOWED_ORIGINS
        if is_allowed or response.status in _FOR_EVERY_ORIGIN or self.http.method == "OPTIONS":
            response.headers["Access-Control-Allow-Origin"] = origin if is_allowed else "*"
            response.headers["Access-Control-Expose-Headers"] = self.cors_exposed_headers
            response.headers["Vary"] = "Origin"
        return response

    # Refusals.

    @property
    def request_id(self) -> jsonrpc.RequestId | None:
        """The id that an error must carry, where it is known."""
        return None

    @property
    def era(self) -> Era:
        return LEGACY

    def refuse(self, error: MCPError) -> HTTPResponse:
        """The response that an error is turned into."""
        caller = self.principal or getattr(getattr(self.request, "mcp", None), "principal", None)
        trail.refuse(self.site, self.request, caller, error, "http")
        if isinstance(error, Unauthenticated):
            error.challenge = challenges.complete(error.challenge, self.site, self.request)
        self.is_turned_away = not self._is_known and isinstance(error, Unauthenticated | LimitExceeded)
        if isinstance(error, RequestCancelled):
            return self.finalize(HTTPResponse(HTTPStatus.ACCEPTED))
        status = error.status_in(self.era)
        if status is HTTPStatus.OK and self.request_id is None:
            # Without an id, the client can match the error to no request: the status alone tells of it.
            ours = isinstance(error, InternalError)
            status = error.http_status or (HTTPStatus.INTERNAL_SERVER_ERROR if ours else HTTPStatus.BAD_REQUEST)
        body = jsonrpc.encode(jsonrpc.error_message(self.request_id, error, self.era))
        return self.finalize(HTTPResponse.json(body, status, headers_of(error, status)))

    @property
    def _is_known(self) -> bool:
        """Whether the caller was known before it was authenticated."""
        return self.principal_key is not None and not self.principal_key.startswith(ADDRESS)

    def not_allowed(self, message: str, *methods: str) -> HTTPError:
        """The error for a wrong method; the allowed ones are those of the URL, unless others are named."""
        return HTTPError(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": ", ".join(methods or self.methods)})

    def checked_body(self, *, takes_protobuf: bool = False) -> bytes:
        """The body of a POST whose Content-Type is that of JSON, or of Protobuf. Raises HTTPError."""
        if self.content_format is not JSON_FORMAT:
            other = protobuf_format() if takes_protobuf else None
            if other is None or self.content_format is not other:
                types = JSON_TYPE if other is None else f"{JSON_TYPE} or {other.message_type}"
                raise HTTPError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"Send Content-Type: {types}.")
        self.check_length()
        if self.http.body is None:
            limit = get_conf().MAX_BODY_BYTES
            raise HTTPError(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"The body is longer than {limit} bytes (MAX_BODY_BYTES)."
            )
        return self.http.body

    def check_length(self) -> None:
        """Raises HTTPError for a body of which the server does not know where it ends."""
        if self.http.incoming is not None and self.http.incoming.lacks_length:
            text = "Send Content-Length: this server does not know where a body in chunks ends."
            raise HTTPError(HTTPStatus.LENGTH_REQUIRED, text)

    def _preflight(self) -> HTTPResponse:
        """The answer to a browser that asks before it calls from another origin (Fetch standard, CORS protocol)."""
        allow = ", ".join(self.methods)
        return HTTPResponse(
            HTTPStatus.NO_CONTENT,
            headers={
                "Allow": allow,
                "Access-Control-Allow-Methods": allow,
                "Access-Control-Allow-Headers": ", ".join(
                    (self.cors_request_headers, *wanted_params(self.http.headers))
                ),
                "Access-Control-Max-Age": "600",
            },
        )
