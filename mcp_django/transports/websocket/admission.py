"""Which clients may open a socket: credentials, origin, subprotocol, and how many sockets one of them may have."""

from __future__ import annotations

import base64
import binascii
import os
from collections import Counter
from http import HTTPStatus
from typing import Any

from mcp_django.access import origins, tickets
from mcp_django.access.authentication import authenticate, authenticate_login, login_key, queue_key
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_scope
from mcp_django.exchange.token_format import is_well_formed
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InvalidRequest, Overloaded
from mcp_django.protocol.revisions import LEGACY
from mcp_django.transports.http.messages import ANSWER_HEADERS, JSON_TYPE, headers_of
from mcp_django.types import JSON, Scope
from mcp_django.workers import get_workers

SUBPROTOCOL = "mcp"

#: Open sockets of this process by the key of their principal.
_open: Counter[str] = Counter()
os.register_at_fork(after_in_child=_open.clear)


def enter(principal: Principal) -> None:
    """A socket of the principal is open, until ``leave``."""
    _open[principal.key] += 1


def leave(principal: Principal) -> None:
    _open[principal.key] -= 1
    if not _open[principal.key]:
        del _open[principal.key]


def check_number(principal: Principal) -> None:
    """Raises Overloaded where the principal has too many sockets open."""
    limit = get_conf().MAX_LISTENS
    if _open[principal.key] >= limit:
        raise Overloaded(f"You have {limit} sockets open (MAX_LISTENS). Close one of them.")


def request_of(scope: Scope) -> MCPRequest:
    """The upgrade request, with a token that came as a Basic password taken for a Bearer token.

    The official Python client can send credentials only so, from ``ws://user:TOKEN@host``.
    """
    request = from_scope(scope)
    scheme, _, encoded = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    if scheme.lower() != "basic":
        return request
    try:
        _, _, password = base64.b64decode(encoded, validate=True).decode("ascii").partition(":")
    except (binascii.Error, ValueError):
        return request
    if is_well_formed(password):
        request.META["HTTP_AUTHORIZATION"] = f"Bearer {password}"
    return request


async def admit(request: MCPRequest) -> Principal:
    """The principal of the upgrade request. Raises MCPError."""
    ticket = tickets.take(request)
    if ticket is not None:
        key: str | None = tickets.queue_key(ticket, request)
    else:
        key = login_key(request) if _is_by_cookie(request) else queue_key(request)
    if key is None:
        return _principal_of(request, ticket)
    return await get_workers().run(_principal_of, request, ticket, principal_key=key)


def _principal_of(request: MCPRequest, ticket: str | None) -> Principal:
    """The principal; in a worker, unless the credentials are refused for their form. Raises MCPError."""
    if ticket is not None:
        return _redeem(request, ticket)
    if not _is_by_cookie(request):
        origins.check(request)
        return authenticate(request, fresh=True)
    # A browser sends the cookie whatever page asks it to, so the page must be one of ours.
    origins.check(request, required=True)
    return authenticate_login(request) or authenticate(request, fresh=True)


def _is_by_cookie(request: MCPRequest) -> bool:
    return bool(request.META.get("HTTP_COOKIE")) and not request.META.get("HTTP_AUTHORIZATION")


def _redeem(request: MCPRequest, ticket: str) -> Principal:
    """The principal of a ticket, which is used up even if its request is refused. Raises MCPError."""
    try:
        origins.check(request)
        if request.META.get("HTTP_AUTHORIZATION"):
            raise _bad_request("Send a ticket or the header Authorization, not both.")
    except MCPError:
        tickets.burn(ticket)
        raise
    return tickets.redeem(ticket, request)


def subprotocol_of(scope: Scope) -> str | None:
    """The subprotocol that both sides speak, if the client offers any. Raises InvalidRequest."""
    offered = scope.get("subprotocols") or []
    if offered and SUBPROTOCOL not in offered:
        raise _bad_request(f"The only subprotocol is {SUBPROTOCOL!r}.")
    return SUBPROTOCOL if offered else None


def denial(scope: Scope, error: MCPError) -> list[dict[str, Any]]:
    """The messages that refuse the upgrade: an HTTP answer where the server can give it, else the 403 of a close."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        return [{"type": "websocket.close"}]
    status = int(error.http_status or HTTPStatus.FORBIDDEN)
    body = jsonrpc.encode(jsonrpc.error_message(None, error, LEGACY))
    named = {"Content-Type": JSON_TYPE, "Content-Length": str(len(body)), **ANSWER_HEADERS, **headers_of(error, status)}
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in named.items()]
    start: JSON = {
        "type": "websocket.http.response.start",
        "status": status,
        "headers": headers,
    }
    return [start, {"type": "websocket.http.response.body", "body": body}]


def _bad_request(message: str) -> InvalidRequest:
    refused = InvalidRequest(message)
    refused.http_status = HTTPStatus.BAD_REQUEST
    return refused
