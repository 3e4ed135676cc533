"""The headers of a request, and what those of a modern one must say (2026-07-28 transports/streamable-http)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from mcp_django.protocol.errors import HeaderMismatch
from mcp_django.protocol.types import JSON

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
#: A preflight may ask for this many of them.
_MAX_PARAMS = 100
#: Longer values of Accept are read anew each time.
_USUAL_ACCEPT = 200


@dataclass
class Headers:
    """Request headers by lower-case name, over a request's META.

    ``raw`` are the headers as an ASGI server gives them. WSGI has none: headers that were sent twice are one, joined by
    a comma.
    """

    meta: Mapping[str, Any]
    raw: Iterable[tuple[bytes, bytes]] = field(default=(), repr=False)

    def get(self, name: str) -> str | None:
        value = self.meta.get(_meta_key(name))
        return None if value is None else value.strip(" \t")

    def decoded(self, name: str) -> str | None:
        """The value that a header stands for, and None where it is absent or malformed."""
        value = self.get(name)
        return None if value is None else decode(value)

    def is_repeated(self, name: str) -> bool:
        """Whether the header was sent more than once, as far as that can be seen. META joins the values by a comma."""
        if "," not in self.meta.get(_meta_key(name), ""):
            return False
        raw_name = name.encode("latin-1")
        return sum(sent.lower() == raw_name for sent, _ in self.raw) > 1

    def accepts(self, media_type: str) -> bool:
        """Whether Accept lets ``media_type`` through (RFC 9110 §12.5.1); a missing Accept lets everything."""
        accept = self.get("accept")
        if not accept:
            return True
        # Clients send the same value each time.
        lets_through = _lets_through if len(accept) <= _USUAL_ACCEPT else _lets_through.__wrapped__
        return lets_through(accept, media_type)

    def names(self, media_type: str) -> bool:
        """Whether Accept lets ``media_type`` through, and names it: ``*/*`` does not."""
        return media_type in (self.get("accept") or "").lower() and self.accepts(media_type)


@lru_cache(maxsize=1_000)
def _meta_key(name: str) -> str:
    """Where META has a header. The specification and the tools of a site decide which headers are asked for."""
    key = name.upper().replace("-", "_")
    return key if key == "CONTENT_TYPE" else f"HTTP_{key}"


@lru_cache(maxsize=200)
def _lets_through(accept: str, media_type: str) -> bool:
    ranges = {media_type: 3, media_type.partition("/")[0] + "/*": 2, "*/*": 1}
    best, accepted = 0, False
    for part in accept.lower().split(","):
        media_range, *parameters = (piece.strip() for piece in part.split(";"))
        if ranges.get(media_range, 0) > best:
            best = ranges[media_range]
            accepted = not any(p.partition("=")[0] == "q" and _is_zero(p.partition("=")[2]) for p in parameters)
    return accepted


def _is_zero(quality: str) -> bool:
    return quality.strip("0.") == "" and quality != ""


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
    if headers.is_repeated(name):
        raise HeaderMismatch(f"The header {title} was sent twice.", header=title)
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


def wanted_params(headers: Headers) -> list[str]:
    """The ``Mcp-Param-*`` headers that a browser asks to send. The answer must name each: CORS knows no prefixes."""
    asked = (headers.get("access-control-request-headers") or "").lower().split(",")
    return [name for name in map(str.strip, asked) if _PARAM.fullmatch(name)][:_MAX_PARAMS]
