"""Calls over HTTP whose answer is read as it comes, in the middle of which a test can act."""

from __future__ import annotations

import json
import threading
from typing import Any

from tests.support.http import Answering, ASGIPeer, Event
from tests.support.peers import MODERN, Message
from tests.support.talking import in_session

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


class Gate:
    """Where a tool waits, so that a test can act in the middle of its call."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.left = threading.Event()
        self.cancelled = False

    def wait(self, request: Any) -> None:
        self.reached.set()
        assert self.opened.wait(30)
        self.cancelled = request.mcp.cancelled
        self.left.set()


def begin(
    peer: ASGIPeer,
    tool: str,
    revision: str,
    request_id: Any = 1,
    *,
    headers: dict[str, str] | None = None,
    **more: Any,
) -> Answering:
    """Call a tool in the session of a legacy revision, or in the modern one; ``more`` params beside the name."""
    params = {"name": tool, **more}
    if revision == MODERN:
        params["_meta"] = peer.meta(**params.get("_meta", {}))
    body = {"jsonrpc": "2.0", "id": request_id, "method": "tools/call", "params": params}
    own = peer.modern_headers("tools/call", params) if revision == MODERN else in_session(peer, revision)
    return peer.open({**own, **(headers or {})}, json.dumps(body).encode(), revision)


def resume(peer: ASGIPeer, revision: str, event_id: str) -> Answering:
    headers = {**in_session(peer, revision), "Last-Event-ID": event_id}
    return Answering(peer.loop, peer.application, peer.scope("GET", peer.headers(headers)), b"", revision)


def events_until(call: Answering, count: int) -> list[Event]:
    """The first events of a stream that goes on."""
    found: list[Event] = []
    for event in call.events():
        found.append(event)
        if len(found) == count:
            break
    return found


def message(event: Event) -> Message:
    found: Message = json.loads(event.data)
    return found
