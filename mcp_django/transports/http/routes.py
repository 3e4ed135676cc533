"""The URLs of a site, and the view that answers a request to each.

A person who opens the endpoint in a browser gets a page that says what it is. Where no login is installed, the
URLs at which clients look for a login answer with JSON, since an HTML page would tell them nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, JsonResponse
from django.urls import URLPattern
from django.urls import path as url_path
from django.views.decorators.csrf import csrf_exempt

from mcp_django.access import tickets
from mcp_django.access.throttling import throttles
from mcp_django.conf import get_conf
from mcp_django.exchange.audience import ENDPOINT
from mcp_django.exchange.principals import Principal
from mcp_django.protocol.jsonrpc import encode
from mcp_django.transports.http import sse
from mcp_django.transports.http.base import View
from mcp_django.transports.http.endpoint import EndpointView
from mcp_django.transports.http.formats import JSON_TYPE, SSE_TYPE
from mcp_django.transports.http.headers import SESSION, VERSION
from mcp_django.transports.http.messages import HTTPResponse
from mcp_django.transports.http.uploads import NewUploadView, UploadView, accepts_uploads


class TicketView(View):
    """Answers ``{"ticket": ..., "expires_in": seconds}``. Errors are those of the endpoint."""

    def handle(self, principal: Principal) -> HTTPResponse:
        throttles.admit(principal, self.request)
        issued = {"ticket": tickets.issue(principal), "expires_in": tickets.SECONDS}
        return HTTPResponse(HTTPStatus.OK, encode(issued), {"Content-Type": JSON_TYPE})


@dataclass(frozen=True)
class Route:
    """One URL, without the slash that may follow it."""

    path: str
    #: Its name in the namespace ``mcp_django``.
    name: str
    view: type[View]
    #: The view under WSGI, where it is another one.
    sync_view: type[View] | None = None
    #: Whether it is served. If it is not, the project may use the URL itself. None: always.
    is_open: Callable[[], bool] | None = None
    #: Whether people who open it in a browser get a page.
    has_page: bool = False
    #: Whether one more segment of the path follows: the key of what is meant.
    has_key: bool = False

    @property
    def pattern(self) -> str:
        """The path as Django's URL patterns have it."""
        return f"{self.path}/<str:key>" if self.has_key else self.path


ROUTES = (
    Route("mcp", "endpoint", EndpointView, has_page=True),
    Route("mcp/ticket", "ticket", TicketView),
    Route("mcp/upload", "uploads", NewUploadView, is_open=accepts_uploads),
    Route("mcp/upload", "upload", UploadView, is_open=accepts_uploads, has_key=True),
    Route("sse", "sse", sse.StreamView, sse.UnservedView, lambda: get_conf().SSE_TRANSPORT),
    Route("sse/messages", "sse-messages", sse.MessageView, sse.UnservedView, lambda: get_conf().SSE_TRANSPORT),
)


#: The methods by which a browser asks for a page.
VISITING = ("GET", "HEAD")
_HTML_TYPE = "text/html"
#: Browsers that are asked for a page send none of these, and clients of the protocol do.
_OF_CLIENTS = ("authorization", SESSION, VERSION, "last-event-id")


def is_visit(header: Callable[[str], str | None]) -> bool:
    """Whether a GET or HEAD of the endpoint is a person's. ``header`` gives a header's value by its lower-case name.

    A person's Accept names HTML itself, while many programs send ``*/*``.
    """
    if not get_conf().LANDING_PAGE:
        return False
    accepted = {part.partition(";")[0].strip().lower() for part in (header("accept") or "").split(",")}
    return _HTML_TYPE in accepted and SSE_TYPE not in accepted and not any(map(header, _OF_CLIENTS))


#: Between host and path of the endpoint, as RFC 9728, RFC 8414 and OpenID Connect Discovery put it. The URLs without
#: the path may be the project's own.
_DOCUMENTS = ("oauth-protected-resource", "oauth-authorization-server", "openid-configuration")


def url_patterns() -> list[URLPattern]:
    """The patterns of these URLs, to stand behind all others."""
    return [
        url_path(f".well-known/{document}/{ENDPOINT}{slash}", not_offered)
        for document in _DOCUMENTS
        for slash in ("", "/")
    ]


@csrf_exempt
@login_not_required
def not_offered(request: HttpRequest) -> JsonResponse:
    """A 404 that a program can read."""
    said = "There is no such document. Send Authorization: Bearer <token>; an administrator of this site makes tokens."
    return JsonResponse(
        {"error": "not_found", "error_description": said},
        status=HTTPStatus.NOT_FOUND,
        headers={"Access-Control-Allow-Origin": "*", "Cache-Control": "no-store"},
    )
