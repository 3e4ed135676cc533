"""Which clients may open a lasting connection: credentials, origin, and how many connections each may have."""

from __future__ import annotations

import os
from collections import Counter
from http import HTTPStatus

from mcp_django.access import origins, pauses, tickets
from mcp_django.access.authentication import authenticate, authenticate_login, login_key, queue_key
from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers
from mcp_django.core.secret import Secret
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.exchange.site import Site
from mcp_django.protocol.errors import InvalidRequest, Overloaded

#: Open connections of this process by the key of their principal.
_open: Counter[str] = Counter()
os.register_at_fork(after_in_child=_open.clear)


def enter(principal: Principal) -> None:
    """Count an open connection of the principal until ``leave``."""
    _open[principal.key] += 1


def leave(principal: Principal) -> None:
    _open[principal.key] -= 1
    if not _open[principal.key]:
        del _open[principal.key]


def check_number(principal: Principal) -> None:
    """Raises Overloaded where the principal has too many connections open."""
    limit = get_conf().MAX_LISTENS
    if _open[principal.key] >= limit:
        raise Overloaded(f"You have {limit} connections open (MAX_LISTENS). Close one of them.")


async def admit(site: Site, request: MCPRequest) -> Principal:
    """The principal of the request that opens a connection to the site. Raises MCPError."""
    ticket = tickets.take(request)
    if ticket is not None:
        key: str | None = tickets.queue_key(ticket, request)
    else:
        key = login_key(request) if _is_by_cookie(request) else queue_key(request)
    if key is None:
        return _admitted(site, request, ticket)
    return await get_workers().run(_admitted, site, request, ticket, principal_key=key)


def _admitted(site: Site, request: MCPRequest, ticket: Secret | None) -> Principal:
    """As ``_principal_of``. Raises Paused too."""
    principal = _principal_of(request, ticket)
    pauses.check(site, principal)
    return principal


def _principal_of(request: MCPRequest, ticket: Secret | None) -> Principal:
    """The principal, found in a worker unless the credentials are malformed. Raises MCPError."""
    if ticket is not None:
        return _redeem(request, ticket)
    if not _is_by_cookie(request):
        origins.check(request)
        return authenticate(request, fresh=True)
    # A browser sends the cookie whatever page asks it to, so the page must be one of ours.
    origins.check(request, required=True)
    return authenticate_login(request) or authenticate(request, fresh=True)


def _is_by_cookie(request: MCPRequest) -> bool:
    return bool(request.cookie) and not request.authorization


def _redeem(request: MCPRequest, ticket: Secret) -> Principal:
    """The principal of a ticket, which is used up even if its request is refused. Raises MCPError."""
    try:
        origins.check(request)
        if request.authorization:
            raise bad_request("Send a ticket or the header Authorization, not both.")
    except MCPError:
        tickets.burn(ticket)
        raise
    return tickets.redeem(ticket, request)


def bad_request(message: str) -> InvalidRequest:
    """An InvalidRequest that HTTP answers with status 400."""
    refused = InvalidRequest(message)
    refused.http_status = HTTPStatus.BAD_REQUEST
    return refused
