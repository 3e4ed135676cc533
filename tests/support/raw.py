"""Sends any text, which a well-behaved client would not do, before or within a session, over every transport."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from tests.support import schemas
from tests.support.peers import MODERN, Connection, DuplexPeer, HTTPPeer, Message, Peer, meta

_ABSENT = object()


@dataclass
class Raw:
    """The answer with its HTTP status, which is None on other transports."""

    status: int | None
    message: Any


def send_raw(peer: Peer, text: str, revision: str | None = None, headers: dict[str, str] | None = None) -> Raw:
    """Send one body or frame: in the peer's session of a legacy revision, or before any session."""
    if isinstance(peer, DuplexPeer):
        connection = peer.connect() if revision in (None, MODERN) else peer.connection(str(revision))
        connection.send_text(text)
        return Raw(None, _checked(connection.answer(), revision))
    assert isinstance(peer, HTTPPeer)
    in_session = {} if revision in (None, MODERN) else session_headers(peer, str(revision))
    answer = peer.http("POST", text.encode(), {**in_session, **(headers or {})})
    return Raw(answer.status, _checked(answer.json, revision))


def send_unanswered(peer: Peer, message: Any, revision: str | None = None) -> None:
    """Send a message that must not be answered. HTTP gives 202 without a body; elsewhere another answer comes next."""
    if isinstance(peer, HTTPPeer):
        answer = peer.post(message, {} if revision is None else session_headers(peer, revision))
        assert (answer.status, answer.body) == (202, b"")
        return
    assert isinstance(peer, DuplexPeer)
    connection = peer.connect() if revision is None else peer.connection(revision)
    connection.send(message)
    assert_next_is_mine(connection)


def assert_next_is_mine(connection: Connection) -> None:
    """Nothing that was sent before is still to be answered."""
    assert connection.ask({"jsonrpc": "2.0", "id": "probe", "method": "ping"}) == {
        "jsonrpc": "2.0",
        "id": "probe",
        "result": {},
    }


def session_headers(peer: HTTPPeer, revision: str) -> dict[str, str]:
    return {"Mcp-Session-Id": peer.session(revision), "MCP-Protocol-Version": revision}


def send_modern(peer: Peer, method: str, params: Message | None = None) -> Raw:
    """The answer to a modern request that is sent unchanged, with its HTTP status."""
    params = {**(params or {}), "_meta": (params or {}).get("_meta", meta())}
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    headers = peer.modern_headers(method, params) if isinstance(peer, HTTPPeer) else {}
    return send_raw(peer, json.dumps(message), MODERN, headers)


def error(code: int, reason: str, message: str, request_id: Any = _ABSENT, **data: Any) -> Message:
    """A whole error message."""
    body = {"code": code, "message": message, "data": {"reason": reason, **data}}
    return {"jsonrpc": "2.0", **({} if request_id is _ABSENT else {"id": request_id}), "error": body}


def _checked(message: Any, revision: str | None) -> Any:
    """Errors are the same in every revision from 2025-11-25 on; results are for the test to check."""
    for one in message if isinstance(message, list) else [message]:
        if one is not None and "error" in one:
            schemas.check(one, revision or "2025-11-25")
    return message
