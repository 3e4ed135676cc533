"""JSON-RPC 2.0 messages in and out, with the rules of MCP on top (SPEC 2026-07-28 basic, JSON-RPC 2.0 §4 to §6)."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic_core import from_json, to_json

from mcp_django.exceptions import MCPError
from mcp_django.protocol.errors import InvalidRequest, ParseError
from mcp_django.protocol.revisions import Era
from mcp_django.protocol.types import JSON

RequestId = int | str

#: The notifications of a listen carry the id of its request under this key (2026-07-28 patterns/subscriptions).
SUBSCRIPTION_ID_META_KEY = "io.modelcontextprotocol/subscriptionId"

_ABSENT = object()
_BOM = b"\xef\xbb\xbf"
#: Finds candidates for numbers that JSON can express and a float cannot hold. Such a number has an exponent of three
#: digits, or hundreds of digits. A pattern that begins with digits is the fastest, and sees each run of digits once.
_DIGITS = re.compile(rb"[0-9]{3,}")
_MANY_DIGITS = 300
#: A colon in a text, spelt as an escape.
_ESCAPED_COLON = re.compile(rb"\\u003a", re.IGNORECASE)
#: Of the name of a member in an error.
_MAX_NAME_CHARS = 100
_MAX_ID_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class Request:
    id: RequestId
    method: str
    params: JSON


@dataclass(frozen=True, slots=True)
class Notification:
    method: str
    params: JSON


@dataclass(frozen=True, slots=True)
class Response:
    """The client's answer to a request of the server."""

    id: RequestId | None
    body: JSON


Message = Request | Notification | Response


class Malformed(Exception):
    """The message is not valid. ``request_id`` is the id that its error must carry; None if it cannot be read."""

    def __init__(self, error: MCPError, request_id: RequestId | None = None) -> None:
        super().__init__(error.message)
        self.error = error
        self.request_id = request_id


def decode(body: bytes | str) -> Any:
    """The JSON value of a body. Raises ParseError for anything that RFC 8259 or this server refuses.

    NaN, Infinity, numbers that overflow to them, lone surrogates, and nesting beyond the parser's bound are refused. So
    is an object that has a member twice, at whatever depth: a proxy in front of us may read the other one.

    A byte order mark before it is ignored (RFC 8259 §8.1): clients on Windows write one.
    """
    body = body.removeprefix(_BOM) if isinstance(body, bytes) else body.removeprefix(_BOM.decode())
    try:
        value = from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise ParseError("Parse error: the body is not valid JSON.", detail=str(error)[:200]) from None
    text = body if isinstance(body, bytes) else body.encode()
    if _may_overflow(text) and not _finite(value):
        raise ParseError("Parse error: a number is out of range.")
    if _may_repeat(text, value):
        _check_members(text)
    return value


def _may_repeat(text: bytes, value: Any) -> bool:
    """Whether an object may have a member twice, of which the parser has kept the last one in ``value``.

    Each member has a colon, which the parser dropped with it. Writing the value is much faster than reading the text
    with Python's own parser, which shows all members. Only an escape hides a colon of a text.
    """
    return text.count(b":") != to_json(value).count(b":") or _ESCAPED_COLON.search(text) is not None


def _check_members(text: bytes) -> None:
    """Raises ParseError if an object has a member twice."""
    json.loads(text, object_pairs_hook=_check_names)


def _check_names(members: list[tuple[str, Any]]) -> None:
    seen: set[str] = set()
    for name, _ in members:
        if name in seen:
            raise ParseError(f"Parse error: an object has the member {name[:_MAX_NAME_CHARS]!r} twice.")
        seen.add(name)


def _may_overflow(text: bytes) -> bool:
    for digits in _DIGITS.finditer(text):
        start, end = digits.span()
        if end - start >= _MANY_DIGITS or text[start - 1 : start] in (b"e", b"E", b"+"):
            return True
    return False


def _finite(value: Any) -> bool:
    """Whether no float in the value is infinite. ``1e400`` is legal JSON, and Python reads it as infinity."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, float):
            if not math.isfinite(item):
                return False
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return True


def encode(value: Any) -> bytes:
    """Compact JSON. NaN and Infinity become null, and a lone surrogate becomes U+FFFD."""
    try:
        return to_json(value, inf_nan_mode="null")
    except ValueError:
        return to_json(_without_surrogates(value), inf_nan_mode="null")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value


def parse(value: Any) -> Message:
    """The message that a JSON value represents. Raises Malformed, which carries the id for the answer."""
    if not isinstance(value, dict):
        raise Malformed(InvalidRequest("A message must be a JSON object."))
    raw_id = value.get("id", _ABSENT)
    request_id = raw_id if is_request_id(raw_id) else None
    if value.get("jsonrpc") != "2.0":
        raise Malformed(InvalidRequest('A message must carry "jsonrpc": "2.0".'), request_id)
    method = value.get("method", _ABSENT)
    if raw_id is not _ABSENT and request_id is None and (method is not _ABSENT or "error" not in value):
        raise Malformed(InvalidRequest(f"id must be an integer, or a string of at most {_MAX_ID_CHARS} characters."))
    if method is _ABSENT:
        if "error" in value and "result" not in value:
            return Response(id=request_id, body=value)
        if "result" in value and "error" not in value and request_id is not None:
            return Response(id=request_id, body=value)
        raise Malformed(InvalidRequest("A message must have a method, a result or an error."), request_id)
    if not isinstance(method, str):
        raise Malformed(InvalidRequest("method must be a string."), request_id)
    params = value.get("params", _ABSENT)
    if params is _ABSENT or params is None:  # Some clients write null for what they do not send.
        params = {}
    if not isinstance(params, dict):
        raise Malformed(InvalidRequest("params must be an object."), request_id)
    if request_id is None:
        return Notification(method=method, params=params)
    return Request(id=request_id, method=method, params=params)


def is_request_id(value: object) -> bool:
    """Whether the value may be a request id: a string or an integer. True is no integer here."""
    if isinstance(value, str):
        return len(value) <= _MAX_ID_CHARS
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**100


def request_message(request_id: RequestId, method: str, params: JSON) -> JSON:
    message: JSON = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return {**message, "params": params} if params else message


def cancelled_message(request_id: RequestId, reason: str) -> JSON:
    """The notification that we no longer wait for the answer to a request of ours."""
    return notification_message("notifications/cancelled", {"requestId": request_id, "reason": reason})


def result_message(request_id: RequestId, result: JSON) -> JSON:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_message(request_id: RequestId | None, error: MCPError, era: Era) -> JSON:
    """An error answer. If the request's id could not be read it has none, which all five schemas prefer to null."""
    message: JSON = {"jsonrpc": "2.0", "error": error.to_json(era)}
    return message if request_id is None else {"jsonrpc": "2.0", "id": request_id, "error": message["error"]}


def notification_message(method: str, params: JSON | None = None) -> JSON:
    message: JSON = {"jsonrpc": "2.0", "method": method}
    return message if params is None else {**message, "params": params}
