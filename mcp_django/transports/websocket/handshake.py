"""The upgrade of a request to a socket: its credentials, its subprotocol, and how it is refused."""

from __future__ import annotations

import base64
import binascii
from http import HTTPStatus
from typing import Any

from mcp_django.core.secret import Secret
from mcp_django.core.types import Scope
from mcp_django.exceptions import MCPError
from mcp_django.exchange.requests import MCPRequest, from_scope
from mcp_django.exchange.token_format import is_well_formed
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.revisions import LEGACY
from mcp_django.protocol.types import JSON
from mcp_django.transports.http.formats import JSON_TYPE
from mcp_django.transports.http.messages import ANSWER_HEADERS, headers_of
from mcp_django.transports.lasting.admission import bad_request

SUBPROTOCOL = "mcp"


def request_of(scope: Scope) -> MCPRequest:
    """The upgrade request, in which a token that came as a Basic password counts as a Bearer token.

    The official Python client can send credentials only in this way, from ``ws://user:TOKEN@host``.
    """
    request = from_scope(scope)
    password = _password(request.authorization)
    if is_well_formed(password):
        request.authorization = Secret("Bearer " + password)
    return request


def _password(authorization: Secret) -> Secret:
    """The password of Basic credentials; empty for others."""
    scheme, _, encoded = map(Secret, authorization.partition(" "))
    if scheme.lower() != "basic":
        return Secret()
    try:
        return Secret(base64.b64decode(encoded, validate=True).decode("ascii").partition(":")[2])
    except (binascii.Error, ValueError):
        return Secret()


def subprotocol_of(scope: Scope) -> str | None:
    """The subprotocol that both sides speak, if the client offers any. Raises InvalidRequest."""
    offered = scope.get("subprotocols") or []
    if offered and SUBPROTOCOL not in offered:
        raise bad_request(f"The only subprotocol is {SUBPROTOCOL!r}.")
    return SUBPROTOCOL if offered else None


def redirection(scope: Scope, location: str) -> list[dict[str, Any]]:
    """As ``denial``, for a socket that is to be opened at another URL."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        return [{"type": "websocket.close"}]
    headers = [(b"location", location.encode("latin-1")), (b"content-length", b"0")]
    start: JSON = {"type": "websocket.http.response.start", "status": 301, "headers": headers}
    return [start, {"type": "websocket.http.response.body", "body": b""}]


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
