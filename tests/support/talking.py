"""A request with all messages before its answer: notifications, and questions to the client."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.support import schemas
from tests.support.asking import text_of
from tests.support.base import MODERN, Message, Peer
from tests.support.duplex import DuplexPeer
from tests.support.http import ASGIPeer, HTTPPeer

#: Answers a question: its method and params in, the result out; None leaves it open.
Answerer = Callable[[str, Message], "Message | None"]


@dataclass
class Talk:
    """The messages until the request was answered."""

    told: list[Message] = field(default_factory=list)
    #: ``(method, params)`` of each question.
    asked: list[tuple[str, Message]] = field(default_factory=list)
    answer: Message = field(default_factory=dict)
    #: Answers of modern rounds before the last.
    rounds: list[Message] = field(default_factory=list)

    @property
    def progress(self) -> list[tuple[Any, ...]]:
        return [
            (params["progress"], params.get("total"), params.get("message"))
            for params in (told["params"] for told in self.told if told["method"] == "notifications/progress")
        ]

    @property
    def logged(self) -> list[tuple[Any, ...]]:
        return [
            (told["params"]["level"], told["params"]["data"])
            for told in self.told
            if told["method"] == "notifications/message"
        ]

    @property
    def text(self) -> str:
        """The one text of a CallToolResult."""
        return text_of(self.answer["result"])


def talk(
    peer: Peer, revision: str, method: str, params: Message | None = None, answerer: Answerer | None = None
) -> Talk:
    """Send a request, answer the questions, and validate each message with the schema of the revision."""
    found = Talk()
    params = dict(params or {})
    while True:
        for message in _messages(peer, revision, method, params, found, answerer):
            if "method" in message:
                schemas.check(message, revision)
                found.told.append(message)
            else:
                schemas.check(message, revision, method)
                found.answer = message
        result = found.answer.get("result", {})
        if result.get("resultType") != "input_required" or answerer is None:
            return found
        found.rounds.append(found.answer)
        responses = {}
        for key, request in result["inputRequests"].items():
            found.asked.append((request["method"], request.get("params", {})))
            given = answerer(request["method"], request.get("params", {}))
            if given is not None:
                responses[key] = given
        params["inputResponses"] = responses
        params.pop("requestState", None)
        if "requestState" in result:
            params["requestState"] = result["requestState"]


def call(peer: Peer, tool: str, revision: str = MODERN, answerer: Answerer | None = None, /, **arguments: Any) -> Talk:
    return talk(peer, revision, "tools/call", {"name": tool, "arguments": arguments}, answerer)


def accept(**content: Any) -> Answerer:
    """Accepts every form with the same content."""
    return lambda method, params: {"action": "accept", "content": content}


def _messages(
    peer: Peer, revision: str, method: str, params: Message, found: Talk, answerer: Answerer | None
) -> Iterator[Message]:
    """The messages for the request, up to its answer. Questions of a legacy server are answered on the way."""

    def answer(question: Message) -> Message | None:
        schemas.check(question, revision)
        found.asked.append((question["method"], question.get("params", {})))
        given = answerer(question["method"], question.get("params", {})) if answerer is not None else None
        return None if given is None else {"jsonrpc": "2.0", "id": question["id"], **_body(given)}

    if isinstance(peer, DuplexPeer):
        yield from _on_connection(peer, revision, method, params, answer)
    elif isinstance(peer, ASGIPeer):
        yield from _on_stream(peer, revision, method, params, answer)
    else:
        assert isinstance(peer, HTTPPeer)
        yield from peer.send(revision, method, params).messages


def _body(given: Message) -> Message:
    return {"error": given["error"]} if "error" in given else {"result": given}


def _framed(peer: Peer, revision: str, method: str, params: Message) -> Message:
    if revision == MODERN:
        params = {**params, "_meta": peer.meta(**params.get("_meta", {}))}
    return {"jsonrpc": "2.0", "id": next(peer.ids), "method": method, "params": params}


def _on_connection(
    peer: DuplexPeer, revision: str, method: str, params: Message, answer: Callable[[Message], Message | None]
) -> Iterator[Message]:
    connection = peer.connection(revision)
    connection.talk = asyncio.Queue()
    try:
        request = _framed(peer, revision, method, params)
        connection.send(request)
        while True:
            message = connection.loop.run(asyncio.wait_for(connection.talk.get(), 30))
            if "method" in message and "id" in message:
                if (response := answer(message)) is not None:
                    connection.send(response)
                continue
            yield message
            if "method" not in message:
                assert message["id"] == request["id"]
                return
    finally:
        connection.talk = None


def _on_stream(
    peer: ASGIPeer, revision: str, method: str, params: Message, answer: Callable[[Message], Message | None]
) -> Iterator[Message]:
    request = _framed(peer, revision, method, params)
    headers = peer.modern_headers(method, request["params"]) if revision == MODERN else in_session(peer, revision)
    stream = peer.open(headers, json.dumps(request).encode(), revision)
    for message in stream.messages():
        if "method" in message and "id" in message:
            if (response := answer(message)) is not None:
                assert peer.post(response, in_session(peer, revision)).status == 202
            continue
        yield message


def in_session(peer: HTTPPeer, revision: str) -> dict[str, str]:
    return {"Mcp-Session-Id": peer.session(revision), "MCP-Protocol-Version": revision}
