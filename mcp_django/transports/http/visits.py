"""A person who opens the endpoint in a browser gets a page that says what it is, where a client would get an error."""

from __future__ import annotations

from collections.abc import Callable

from mcp_django.conf import get_conf
from mcp_django.transports.http.formats import SSE_TYPE
from mcp_django.transports.http.headers import SESSION, VERSION

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
