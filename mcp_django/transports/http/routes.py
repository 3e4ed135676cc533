"""The URLs of a site, and the view that answers a request to each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mcp_django.conf import get_conf
from mcp_django.transports.http import sse
from mcp_django.transports.http.base import View
from mcp_django.transports.http.endpoint import EndpointView
from mcp_django.transports.http.ticket import TicketView


@dataclass(frozen=True)
class Route:
    """One URL, without the slash that may follow it."""

    path: str
    #: Its name in the namespace ``mcp_django``.
    name: str
    view: type[View]
    #: The view under WSGI, where it is another one.
    sync_view: type[View] | None = None
    #: Whether it is there: where it is not, the URL may be the project's own. None: always.
    is_open: Callable[[], bool] | None = None
    #: Whether people who open it in a browser get a page.
    has_page: bool = False


ROUTES = (
    Route("mcp", "endpoint", EndpointView, has_page=True),
    Route("mcp/ticket", "ticket", TicketView),
    Route("sse", "sse", sse.StreamView, sse.UnservedView, lambda: get_conf().SSE_TRANSPORT),
    Route("sse/messages", "sse-messages", sse.MessageView, sse.UnservedView, lambda: get_conf().SSE_TRANSPORT),
)
