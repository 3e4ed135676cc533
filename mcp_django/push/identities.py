"""Identities: listeners with the same identity may be notified of the same things, so they are checked together."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from django.utils import timezone
from django.utils.functional import LazyObject

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

#: Headers that differ between the connections of one client, and on which nothing depends that the client may see.
_INDIFFERENT_HEADERS = frozenset(
    {
        "HTTP_ACCEPT",
        "HTTP_LAST_EVENT_ID",
        "HTTP_MCP_METHOD",
        "HTTP_MCP_NAME",
        "HTTP_MCP_PROTOCOL_VERSION",
        "HTTP_MCP_SESSION_ID",
        "HTTP_PREFER",
        "HTTP_SEC_WEBSOCKET_KEY",
        "HTTP_TRACEPARENT",
        "HTTP_USER_AGENT",
        "HTTP_X_REQUEST_ID",
    }
)
#: Other entries of META on which a project may decide.
_ORIGIN = frozenset({"QUERY_STRING", "REMOTE_ADDR", "REMOTE_USER"})


class Identity:
    """Everything that decides what a listener may see: the site, its principal's rights, its request, its time zone."""

    __slots__ = ("__weakref__", "principal_key")

    def __init__(self, principal_key: str) -> None:
        self.principal_key = principal_key


_identities: WeakValueDictionary[tuple[Any, ...], Identity] = WeakValueDictionary()
_identities_lock = Lock()


def identity_of(site: Site, principal: Principal, request: MCPRequest) -> Identity:
    """The identity of a listener. Equal listeners get the same object, as long as any of them is there."""
    # A project may read a tenant from any of these, or a middleware of the project may have set it.
    headers = {
        (name, value)
        for name, value in request.META.items()
        if name in _ORIGIN or (name.startswith("HTTP_") and name not in _INDIFFERENT_HEADERS)
    }
    attributes = {
        (name, _compared(value)) for name, value in request.attributes().items() if name not in ("mcp", "auth")
    }
    # Answers have their date-times in the zone that a call context activates.
    zone = timezone.get_current_timezone_name()
    parts = (principal.key, site.name, principal.rights, request.path, frozenset(headers), frozenset(attributes), zone)
    with _identities_lock:
        return _identities.setdefault(parts, Identity(principal.key))


def _compared(value: Any) -> Hashable:
    """A stand-in for an attribute of a request: the value itself, or an object that equals nothing else."""
    if isinstance(value, LazyObject):
        return object()  # Looking at it may query the database.
    try:
        hash(value)
    except TypeError:
        return object()
    return value  # type: ignore[no-any-return]
