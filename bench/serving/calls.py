"""What is asked of a server: the two tools, in both eras, and of ours a third that writes."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

JSON = dict[str, Any]

MODERN, LEGACY = "2026-07-28", "2025-11-25"
GREET, FIND, CHANGE = "trivial call", "find 20 rows", "change a row"

_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
}
_GREETING = ("greet", {"name": "Ada"})
#: The two tools of the other servers, and ours.
THEIR_TOOLS: Mapping[str, tuple[str, JSON]] = {GREET: _GREETING, FIND: ("find_flights", {"limit": 20})}
OUR_TOOLS: Mapping[str, tuple[str, JSON]] = {
    GREET: _GREETING,
    FIND: ("find_records", {"model": "flights.flight", "order_by": ["departs_at", "id"], "limit": 20}),
    CHANGE: ("note_delay", {"minutes": 20}),
}
#: Ours where they are an ``async def``.
OUR_ASYNC_TOOLS: Mapping[str, tuple[str, JSON]] = {GREET: ("greet_async", {"name": "Ada"})}


@dataclass(frozen=True, slots=True)
class Call:
    """One request, over and over."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


def call(tool: tuple[str, JSON], era: str, more_headers: Mapping[str, str]) -> Call:
    name, arguments = tool
    params: JSON = {"name": name, "arguments": arguments}
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": era,
        **more_headers,
    }
    if era == MODERN:
        params["_meta"] = _META
        headers |= {"Mcp-Method": "tools/call", "Mcp-Name": name}
    return Call(message("tools/call", params), headers)


def message(method: str, params: JSON) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


INITIALIZE = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}
INITIALIZED = json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}).encode()


def open_session(port: int, headers: Mapping[str, str]) -> dict[str, str]:
    """The header of a new legacy session."""
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", **headers}
    _, received = _post(port, Call(message("initialize", INITIALIZE), sent))
    session = {"Mcp-Session-Id": received["Mcp-Session-Id"]}
    _post(port, Call(INITIALIZED, {**sent, **session, "MCP-Protocol-Version": LEGACY}))
    return session


def ask(port: int, asked: Call) -> Any:
    """What a call is answered with, to be held against the answers of others: a text, or rows by their columns.

    Raises RuntimeError for an answer that is an error.
    """
    body, _ = _post(port, asked)
    return answer_in(body)


def answer_in(body: bytes) -> Any:
    result = json.loads(body).get("result") or {}
    if result.get("isError", True):
        raise RuntimeError(f"A call was answered with {body[:500]!r}")
    text = result["content"][0]["text"]
    try:
        table = json.loads(text)
    except ValueError:
        return text
    return [_comparable(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def _comparable(row: Any) -> JSON:
    """A row by the names of its columns, whatever time zone its instants are written in."""
    values = dict(row)
    values["departs_at"] = datetime.fromisoformat(values["departs_at"]).astimezone(UTC)
    return values


def _post(port: int, sent: Call) -> tuple[bytes, http.client.HTTPMessage]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("POST", "/mcp", sent.body, dict(sent.headers))
        response = connection.getresponse()
        body = response.read()
    finally:
        connection.close()
    if response.status >= 300:
        raise RuntimeError(f"A call was answered with {response.status}: {body[:500]!r}")
    return body, response.headers
