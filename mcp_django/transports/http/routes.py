"""The URLs of a site, and the view that answers a request to each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp_django.conf import get_conf
from mcp_django.transports.http import sse
from mcp_django.transports.http.base import View
from mcp_django.transports.http.endpoint import EndpointView
from mcp_django.transports.http.ticket import TicketView
from mcp_django.transports.http.uploads import NewUploadView, UploadView, accepts_uploads


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
