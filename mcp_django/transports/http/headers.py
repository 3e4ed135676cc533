"""The headers of a modern request, which must say what its body says (2026-07-28 transports/streamable-http)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from mcp_django.protocol.errors import HeaderMismatch
from mcp_django.tools.mirrored import MAX_INTEGER, Mirrored
from mcp_django.transports.http.incoming import Headers

JSON = dict[str, Any]

VERSION = "mcp-protocol-version"
METHOD = "mcp-method"
NAME = "mcp-name"
SESSION = "mcp-session-id"

#: Method → the param that Mcp-Name repeats.
_NAMED = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    "tasks/get": "taskId",
    "tasks/update": "taskId",
    "tasks/cancel": "taskId",
}

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=")
_LEGAL = re.compile(r"[\x20-\x7e\t]*")
_PARAM = re.compile(r"mcp-param-[a-z0-9!#$%&'*+.^`|~-]{1,100}")
#: How many of them a preflight may ask for.
_MAX_PARAMS = 100
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


def check_headers(headers: Headers, method: str, params: JSON, revision: str) -> None:
    """Raises HeaderMismatch where a header is missing, repeated, malformed or says otherwise than the body."""
    _compare(headers, VERSION, "MCP-Protocol-Version", revision)
    _compare(headers, METHOD, "Mcp-Method", method)
    param = _NAMED.get(method)
    if param is not None and isinstance(params.get(param), str):
        _compare(headers, NAME, "Mcp-Name", params[param], encoded=True)


def _compare(headers: Headers, name: str, title: str, expected: str, *, encoded: bool = False) -> None:
    value = headers.get(name)
    if value is None:
        raise HeaderMismatch(f"The header {title} is missing.", header=title)
    if name in headers.repeated:
        raise HeaderMismatch(f"The header {title} stands twice.", header=title)
    if (decode(value) if encoded else value) != expected:
        raise HeaderMismatch(f"The header {title} differs from the body.", header=title)


def decode(value: str) -> str | None:
    """The value that a header stands for: ``=?base64?…?=`` is decoded, anything else is itself; None if malformed."""
    if not _LEGAL.fullmatch(value):
        return None
    encoded = _SENTINEL.fullmatch(value)
    if encoded is None:
        return value
    try:
        decoded = base64.b64decode(encoded[1], validate=True)
        # One encoding for each value: bits that the padding leaves over are zero (RFC 4648 §3.5).
        return decoded.decode() if base64.b64encode(decoded).decode() == encoded[1] else None
    except (binascii.Error, ValueError):
        return None


def find_mismatch(headers: Headers, mirrored: Iterable[Mirrored], arguments: Any) -> HeaderMismatch | None:
    """Where an ``Mcp-Param-*`` header does not say what the argument says that it repeats.

    What is null or absent has no header, nor what no header could say. A header that no argument names is ignored.
    """
    for argument in mirrored:
        title, value = argument.header, argument.value_in(arguments)
        if problem := _problem(headers, title.lower(), value):
            where = ".".join(("arguments", *argument.path))
            return HeaderMismatch(f"The header {title} {problem}: it repeats {where} of the body.", header=title)
    return None


def wanted_params(headers: Headers) -> list[str]:
    """The ``Mcp-Param-*`` headers that a browser asks to send: it takes no pattern for an answer."""
    asked = (headers.get("access-control-request-headers") or "").lower().split(",")
    return [name for name in map(str.strip, asked) if _PARAM.fullmatch(name)][:_MAX_PARAMS]


def _problem(headers: Headers, name: str, value: Any) -> str:
    received = headers.get(name)
    if received is None:
        return "is missing" if isinstance(value, str | bool | int | float) else ""
    if name in headers.repeated:
        return "stands twice"
    if value is None:
        return "stands for what is not given"
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        # A gateway that reads it as a float reads another number.
        return f"cannot say an integer beyond ±{MAX_INTEGER}"
    return "" if _says(decode(received), value) else "differs from the body"


def _says(decoded: str | None, value: Any) -> bool:
    """Whether a header's value is that of the body: numbers as numbers, ``true`` and ``false``, text as it is."""
    if isinstance(value, bool):
        return decoded == ("true" if value else "false")
    if not isinstance(value, int | float):
        return bool(decoded == value)
    if decoded is None or not _NUMBER.fullmatch(decoded):
        return False
    return Decimal(decoded) == Decimal(str(value))
