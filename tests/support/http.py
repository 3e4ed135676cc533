"""Clients of Streamable HTTP, through each entry point."""

from __future__ import annotations

import asyncio
import base64
import json
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.test import Client
from mcp_types import PROTOCOL_VERSION_META_KEY

from tests.support import schemas
from tests.support.asgi import ASGICall, decode_headers, encode_headers
from tests.support.base import MODERN, Message, Peer, Watching, meta, wanted_of
from tests.support.loop import LoopThread

_NAMED = {
    "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}  # fmt: skip


@dataclass
class Answered:
    """An HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else None

    @property
    def messages(self) -> list[Message]:
        """The messages of the answer, in their order, whether it is a stream or not."""
        if self.headers.get("content-type") != "text/event-stream":
            return [self.json]
        return [json.loads(event.data) for event in parse_events(self.body) if event.data]


@dataclass
class Event:
    """A server-sent event."""

    data: str = ""
    id: str | None = None
    retry: int | None = None


def parse_events(body: bytes) -> list[Event]:
    """The events of a finished stream; comments are none."""
    events = []
    for block in body.decode().split("\n\n"):
        event = Event()
        for line in block.split("\n"):
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "data":
                event.data = value
            elif name == "id":
                event.id = value
            elif name == "retry":
                event.retry = int(value)
        if event != Event():
            events.append(event)
    return events


class HTTPPeer(Peer):
    """Streamable HTTP; subclasses say which entry point."""

    path = "/mcp"
    query = ""

    def __init__(self, token: str | None) -> None:
        super().__init__(token)
        self.sessions: dict[str, str] = {}

    @abstractmethod
    def http(self, method: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answered:
        """One HTTP exchange with the endpoint; Authorization and JSON headers are added unless given."""

    def headers(self, given: dict[str, str] | None) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        return {name: value for name, value in {**headers, **(given or {})}.items() if value is not None}

    def post(self, message: Any, headers: dict[str, str] | None = None) -> Answered:
        return self.http("POST", json.dumps(message).encode(), headers)

    def modern_headers(self, method: str, params: Message) -> dict[str, str]:
        headers = {"MCP-Protocol-Version": params["_meta"][PROTOCOL_VERSION_META_KEY], "Mcp-Method": method}
        value = params.get(_NAMED.get(method, ""))
        if isinstance(value, str):
            plain = value.isascii() and value.isprintable() and value == value.strip()
            headers["Mcp-Name"] = value if plain else f"=?base64?{base64.b64encode(value.encode()).decode()}?="
        return headers

    def send(self, revision: str, method: str, params: Message | None = None) -> Answered:
        """One request in a revision, as an HTTP answer."""
        message: Message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method}
        if revision == MODERN:
            message["params"] = {**(params or {}), "_meta": self.meta(**(params or {}).get("_meta", {}))}
            return self.post(message, self.modern_headers(method, message["params"]))
        if params is not None:
            message["params"] = params
        headers = {"MCP-Protocol-Version": revision, "Mcp-Session-Id": self.session(revision)}
        return self.post(message, headers)

    def session(self, revision: str) -> str:
        """The key of this peer's session in a legacy revision, opened at first use."""
        if revision not in self.sessions:
            client = {"name": "tests", "version": "1"}
            params = {"protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": client}
            answer = self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
            schemas.check(answer.json, revision, "initialize")
            self.sessions[revision] = answer.headers["mcp-session-id"]
            assert self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, {
                "Mcp-Session-Id": self.sessions[revision], "MCP-Protocol-Version": revision}).status == 202  # fmt: skip
        return self.sessions[revision]

    def request(self, revision: str, method: str, params: Message | None = None) -> Message:
        answer = self.send(revision, method, params)
        message: Message = answer.json
        schemas.check(message, revision, method)
        return message

    def close(self) -> None:
        """Sessions are left as they are: they are rows, which the next test begins without."""


class WSGIPeer(HTTPPeer):
    """The Django view under WSGI, with the project's middleware."""

    push = False

    def http(self, method: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answered:
        given = self.headers(headers)
        meta_names = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in given.items()}
        content_type = meta_names.pop("HTTP_CONTENT_TYPE", "")
        meta_names.setdefault("HTTP_HOST", "localhost")
        meta_names["CONTENT_TYPE"] = content_type  # Otherwise the client leaves it out where the body is empty.
        response = Client(raise_request_exception=False).generic(
            method, self.path, body, content_type, QUERY_STRING=self.query, **meta_names
        )
        return Answered(
            response.status_code, {name.lower(): value for name, value in response.items()}, response.content
        )

    def watch(self, revision: str, uris: list[str], *, tools: bool = False, prompts: bool = False) -> Watching:
        raise NotImplementedError("WSGI offers no push")


class ASGIPeer(HTTPPeer):
    """An ASGI application, called in the loop of a thread."""

    def __init__(self, token: str | None, application: Any, loop: LoopThread) -> None:
        super().__init__(token)
        self.application = application
        self.loop = loop
        self.streams: list[HTTPWatching] = []

    def scope(self, method: str, headers: dict[str, str]) -> Message:
        return {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": self.path, "raw_path": self.path.encode(), "query_string": self.query.encode(), "root_path": "",
            "headers": encode_headers({"Host": "localhost", **headers}),
            "client": ("127.0.0.1", 50000), "server": ("localhost", 80), "state": {},
        }  # fmt: skip

    def http(self, method: str, body: bytes = b"", headers: dict[str, str] | None = None) -> Answered:
        return self.loop.run(self._exchange(self.scope(method, self.headers(headers)), body))

    def begin(self, method: str, params: Message) -> ASGICall:
        """A request of the modern revision, whose answer is not waited for."""
        params = {**params, "_meta": meta()}
        body = json.dumps({"jsonrpc": "2.0", "id": next(self.ids), "method": method, "params": params}).encode()
        return self.loop.run(self._begin(self.scope("POST", self.headers(self.modern_headers(method, params))), body))

    async def _begin(self, scope: Message, body: bytes) -> ASGICall:
        call = ASGICall(self.application, scope)
        await call.inbox.put({"type": "http.request", "body": body, "more_body": False})
        return call

    async def _exchange(self, scope: Message, body: bytes) -> Answered:
        call = await self._begin(scope, body)
        start = await call.receive()
        chunks = []
        while True:
            part = await call.receive()
            chunks.append(part.get("body", b""))
            if not part.get("more_body"):
                break
        await call.finish()
        return Answered(start["status"], decode_headers(start["headers"]), b"".join(chunks))

    def watch(self, revision: str, uris: list[str], *, tools: bool = False, prompts: bool = False) -> Watching:
        if revision == MODERN:
            wanted = wanted_of(uris, tools=tools, prompts=prompts)
            params = {"notifications": wanted, "_meta": meta()}
            message = {"jsonrpc": "2.0", "id": next(self.ids), "method": "subscriptions/listen", "params": params}
            headers = self.modern_headers("subscriptions/listen", params)
            stream = self.stream("POST", revision, headers, json.dumps(message).encode())
            opened = stream.next()
            assert opened["method"] == "notifications/subscriptions/acknowledged", opened
            stream.honoured = opened["params"]["notifications"]
            return stream
        for uri in uris:
            self.result(revision, "resources/subscribe", {"uri": uri})
        return self.stream(
            "GET", revision, {"Mcp-Session-Id": self.session(revision), "MCP-Protocol-Version": revision}
        )

    def open(self, headers: dict[str, str], body: bytes, revision: str) -> Answering:
        """A POST whose answer is read piece by piece."""
        return Answering(self.loop, self.application, self.scope("POST", self.headers(headers)), body, revision)

    def stream(self, method: str, revision: str, headers: dict[str, str], body: bytes = b"") -> HTTPWatching:
        scope = self.scope(method, self.headers(headers))
        stream = HTTPWatching(self.loop, self.application, scope, body, revision)
        self.streams.append(stream)
        return stream

    def close(self) -> None:
        for stream in self.streams:
            stream.close()
        super().close()


class HTTPWatching(Watching):
    """An open event stream."""

    def __init__(self, loop: LoopThread, application: Any, scope: Message, body: bytes, revision: str) -> None:
        self.loop = loop
        self.revision = revision
        self.ended = False
        self.call: ASGICall = loop.run(self._open(application, scope, body))
        self._buffer = b""

    async def _open(self, application: Any, scope: Message, body: bytes) -> ASGICall:
        call = ASGICall(application, scope)
        await call.inbox.put({"type": "http.request", "body": body, "more_body": False})
        start = await call.receive()
        self.status = start["status"]
        self.headers = decode_headers(start["headers"])
        assert self.status == 200, (start, await call.receive())
        return call

    def next(self, seconds: float = 60) -> Message:
        message = self.loop.run(self._next(seconds), seconds + 5)
        schemas.check(message, self.revision, "subscriptions/listen")
        return message

    async def _next(self, seconds: float) -> Message:
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            event, separator, rest = self._buffer.partition(b"\n\n")
            if separator:
                self._buffer = rest
                data = [line.removeprefix(b"data: ") for line in event.split(b"\n") if line.startswith(b"data: ")]
                if data:
                    return json.loads(b"".join(data))  # type: ignore[no-any-return]
                continue
            if self.ended:
                raise EOFError("the stream has ended")
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                raise TimeoutError
            part = await self.call.receive(left)
            self._buffer += part.get("body", b"")
            self.ended = not part.get("more_body", False)

    def close(self) -> None:
        self.loop.run(self.call.disconnect("http.disconnect"))


class Answering:
    """The answer to a POST, read as it comes: one message, or a stream of them."""

    def __init__(self, loop: LoopThread, application: Any, scope: Message, body: bytes, revision: str) -> None:
        self.loop = loop
        self.revision = revision
        self.call: ASGICall = loop.run(self._open(application, scope, body))

    async def _open(self, application: Any, scope: Message, body: bytes) -> ASGICall:
        call = ASGICall(application, scope)
        await call.inbox.put({"type": "http.request", "body": body, "more_body": False})
        start = await call.receive()
        self.status = start["status"]
        self.headers = decode_headers(start["headers"])
        return call

    def events(self, seconds: float = 60) -> Iterator[Event]:
        """The events of a stream, until it ends."""
        buffer, ended = b"", False
        while not ended:
            part = self.loop.run(self.call.receive(seconds), seconds + 5)
            ended = not part.get("more_body", False)
            blocks, separator, buffer = (buffer + part.get("body", b"")).rpartition(b"\n\n")
            yield from parse_events(blocks + separator)

    def messages(self) -> Iterator[Message]:
        if self.headers.get("content-type") != "text/event-stream":
            body, more = b"", True
            while more:
                part = self.loop.run(self.call.receive())
                body, more = body + part.get("body", b""), part.get("more_body", False)
            yield json.loads(body)
            return
        yield from (json.loads(event.data) for event in self.events() if event.data)

    def leave(self) -> None:
        """Disconnect, even if more messages are on their way."""
        self.loop.run(self.call.disconnect("http.disconnect"))
