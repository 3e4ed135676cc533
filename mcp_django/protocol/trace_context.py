"""The trace that a request belongs to, as W3C Trace Context writes it into ``params._meta``."""

from __future__ import annotations

import re

from mcp_django.protocol.types import JSON

#: version, trace id, parent id and flags. Version ff is forbidden (W3C Trace Context §3.2.2).
_TRACEPARENT = re.compile(r"(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_FIRST_VERSION = "00"
#: The longest ``traceparent`` and ``tracestate`` that are read. Of the latter, 512 characters must pass (§3.3.1.5).
_MAX_PARENT, _MAX_STATE = 200, 512


def trace_id(params: JSON) -> str:
    """The 32 hex digits of the trace that the request's ``_meta.traceparent`` names; empty if it is not valid."""
    text = traceparent(params)
    return text[3:35] if text else ""


def traceparent(params: JSON) -> str:
    """The valid ``_meta.traceparent`` of a request, or an empty text. What a later version appends is left out."""
    text = _meta_text(params, "traceparent", _MAX_PARENT)
    match = _TRACEPARENT.fullmatch(text)
    if match is None or (match[1] == _FIRST_VERSION and match[5]):
        return ""
    return "-".join(match.group(1, 2, 3, 4))


def tracestate(params: JSON) -> str:
    """The ``_meta.tracestate`` of a request as it was sent, if it is a text that is not too long."""
    return _meta_text(params, "tracestate", _MAX_STATE)


def _meta_text(params: JSON, key: str, longest: int) -> str:
    meta = params.get("_meta")
    text = meta.get(key) if isinstance(meta, dict) else None
    return text if isinstance(text, str) and len(text) <= longest else ""
