"""What stands around every answer over HTTP, at whichever of our URLs: who asks, from where, and how to say no."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from http import HTTPStatus
from typing import ClassVar

from mcp_django.access import origins
from mcp_django.access.authentication import authenticate
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InternalError, Overloaded, Unauthenticated
from mcp_django.protocol.revisions import LEGACY, Era
from mcp_django.sites import MCPSite
from mcp_django.transports.http import headers as mcp_headers
from mcp_django.transports.http.incoming import Answer, Incoming, Refusal

logger = logging.getLogger("mcp_django")

_CORS_REQUEST_HEADERS = (
    "Authorization, Content-Type, Accept, MCP-Protocol-Version, Mcp-Method, Mcp-Name, Mcp-Session-Id, Last-Event-ID"
)


class Answering(ABC):
    """One HTTP request, being answered. A subclass is one of our URLs."""

    #: The methods that its URL knows.
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    #: What is said to another method.
    hint: ClassVar[str] = "Use POST."

    def __init__(self, site: MCPSite, incoming: Incoming) -> None:
        self._site = site
        self._incoming = incoming
        self._headers = incoming.headers
        self.request = incoming.request

    def _authenticate(self) -> Principal:
        """The caller. Raises MCPError."""
        return authenticate(self.request, fresh=True)

    @abstractmethod
    def _serve(self, principal: Principal) -> Answer:
        """The answer to a caller who may ask. Raises MCPError."""

    @property
    def request_id(self) -> jsonrpc.RequestId | None:
        """The id that an error must carry, where it is known."""
        return None

    @property
    def era(self) -> Era:
        return LEGACY

    @property
    def principal_key(self) -> str:
        """Names the caller before it is authenticated, to bound what one caller may have waiting."""
        # The last word alone: the scheme may be spelled in many ways, and each would count as another caller.
        words = str(self.request.META.get("HTTP_AUTHORIZATION", "")).split()
        return words[-1] if words else "anonymous"

    def answer(self) -> Answer:
        """Never raises: what is wrong is said in the answer, and what is our fault is logged."""
        return self._answered(self._answer)

    def refuse(self, error: MCPError) -> Answer:
        """The answer that an error is, as it leaves."""
        headers = dict(error.headers) if isinstance(error, Refusal) else {}
        if isinstance(error, Unauthenticated):
            headers["WWW-Authenticate"] = error.challenge
        status = error.status_in(self.era)
        if status is HTTPStatus.OK and self.request_id is None:
            # Nobody waits for a message of that id: the status is all that can be told.
            status = HTTPStatus.SERVICE_UNAVAILABLE if isinstance(error, Overloaded) else HTTPStatus.BAD_REQUEST
        body = jsonrpc.encode(jsonrpc.error_message(self.request_id, error, self.era))
        return self._finished(Answer.of(body, status, headers))

    def _answered(self, function: Callable[[], Answer]) -> Answer:
        """What the function answers, or what its error is."""
        try:
            return self._finished(function())
        except MCPError as error:
            return self.refuse(error)
        except Exception:
            logger.exception("A request could not be answered")
            return self.refuse(InternalError())

    def _finished(self, answer: Answer) -> Answer:
        """The answer as it leaves."""
        origin = self._headers.get("origin")
        if origin in get_conf().ALLOWED_ORIGINS:
            answer.headers["Access-Control-Allow-Origin"] = origin or ""
            answer.headers["Access-Control-Expose-Headers"] = "Mcp-Session-Id, WWW-Authenticate"
            answer.headers["Vary"] = "Origin"
        return answer

    def _answer(self) -> Answer:
        origins.check(self.request)
        if self._incoming.method == "OPTIONS":
            return self._preflight()
        if self._incoming.method not in self.methods:
            raise self.not_allowed(self.hint)
        principal = self._authenticate()
        self.request.for_principal(principal)
        return self._serve(principal)

    def not_allowed(self, message: str, *methods: str) -> Refusal:
        """The refusal of a method; those that are allowed are those of the URL, unless others are named."""
        return Refusal(HTTPStatus.METHOD_NOT_ALLOWED, message, {"Allow": ", ".join(methods or self.methods)})

    def _preflight(self) -> Answer:
        """The question of a browser before a call from another origin (Fetch standard, CORS protocol)."""
        allow = ", ".join(self.methods)
        return Answer(
            HTTPStatus.NO_CONTENT,
            headers={
                "Allow": allow,
                "Access-Control-Allow-Methods": allow,
                "Access-Control-Allow-Headers": ", ".join(
                    (_CORS_REQUEST_HEADERS, *mcp_headers.wanted_params(self._headers))
                ),
                "Access-Control-Max-Age": "600",
            },
        )
