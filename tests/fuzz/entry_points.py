"""The entry points as a server process calls them: any bytes as headers and body, in pieces, cut off in the middle."""

from __future__ import annotations

import asyncio
import io
import json
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from mcp_django.exchange.principals import Principal
from mcp_django.transports.stdio.pipes import PipeReader
from mcp_django.transports.stdio.server import StdioServer
from tests.fuzz.limits import LIMITS
from tests.fuzz.reading import Sent, read
from tests.support.asgi import ASGICall
from tests.support.base import MODERN, Message, meta
from tests.support.loop import LoopThread

Header = tuple[str, str]

_UNSUPPORTED_DATA, _TOO_BIG = 1003, 1009


@dataclass
class Sending:
    """One HTTP request. Header values are latin-1 text, as they go over the wire."""

    method: str = "POST"
    headers: list[Header] = field(default_factory=list)
    body: bytes = b""
    #: Lengths of the pieces that the body comes in.
    pieces: list[int] = field(default_factory=list)
    #: The client goes away before the body is whole.
    cut: bool = False
    #: The client goes away as soon as it has sent everything.
    leaves: bool = False
    query: str = ""
    #: What the client says to a question of the server's; None where it goes away instead.
    reply: Message | None = None

    @property
    def said(self) -> str:
        """Everything that the client says, as text."""
        return " ".join([*(value for _, value in self.headers), self.query, self.body.decode("utf-8", "replace")])

    def header(self, name: str) -> str | None:
        found = [value for key, value in self.headers if key.lower() == name.lower()]
        return found[0] if len(found) == 1 else None


@dataclass
class Got:
    """What came back: the status, the headers, and the body, of a stream as far as it was read."""

    status: int
    headers: dict[str, str]
    body: bytes
    streamed: bool = False
    #: As much of the request's body as the server was given.
    heard: bytes = b""
    #: Questions of the server's that were answered.
    replied: int = 0

    def messages(self) -> list[Any]:
        """What the body says: one value, or the messages of a stream."""
        if not self.streamed:
            return [json.loads(self.body)]
        found = []
        for event in self.body.split(b"\n\n"):
            data = [line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")]
            if any(data):
                found.append(json.loads(b"\n".join(data)))
        return found


class Entry(ABC):
    """One way into the server over HTTP."""

    @abstractmethod
    def send(self, sending: Sending) -> Got | None:
        """The answer; None where the client did not wait for it. Raises what the application raises."""


class WSGIEntry(Entry):
    """Django's WSGI handler, called as a server calls it."""

    def __init__(self) -> None:
        from django.core.wsgi import get_wsgi_application

        self._application = get_wsgi_application()

    def send(self, sending: Sending) -> Got:
        errors = io.StringIO()
        body = sending.body[: len(sending.body) // 2] if sending.cut else sending.body
        environ: dict[str, Any] = {
            "REQUEST_METHOD": sending.method, "SCRIPT_NAME": "", "PATH_INFO": "/mcp", "QUERY_STRING": sending.query,
            "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "REMOTE_ADDR": "127.0.0.1",
            "wsgi.version": (1, 0), "wsgi.url_scheme": "http", "wsgi.input": io.BytesIO(body), "wsgi.errors": errors,
            "wsgi.multithread": True, "wsgi.multiprocess": True, "wsgi.run_once": False,
        }  # fmt: skip
        for name, value in [("Host", "localhost"), ("Content-Length", str(len(sending.body))), *sending.headers]:
            key = name.upper().replace("-", "_")
            key = key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
            # A server joins what stands twice; of Host and the length it is the later one that the fuzzer means.
            joined = key in environ and key not in ("HTTP_HOST", "CONTENT_LENGTH")
            environ[key] = f"{environ[key]},{value}" if joined else value
        started: list[Any] = []
        response = self._application(environ, lambda status, headers, exc_info=None: started.append((status, headers)))
        try:
            content = b"".join(response)
        finally:
            response.close()
        assert errors.getvalue() == ""
        [(status, headers)] = started
        assert all(isinstance(name, str) and isinstance(value, str) for name, value in headers)
        found = {name.lower(): value for name, value in headers}
        streamed = found.get("content-type", "").startswith("text/event-stream")
        return Got(int(status.split()[0]), found, content, streamed, body[: _length(environ["CONTENT_LENGTH"])])


def _length(announced: str) -> int:
    """What Django takes for the length of a body."""
    try:
        return max(0, int(announced))
    except ValueError:
        return 0


class ASGIEntry(Entry):
    """An ASGI application, called in the loop of a thread."""

    def __init__(self, application: Any, loop: LoopThread) -> None:
        self._application = application
        self._loop = loop

    def send(self, sending: Sending) -> Got | None:
        return self._loop.run(self._send(sending), 60)

    def send_all(self, sendings: list[Sending]) -> list[Got | None]:
        """The answers to requests that are sent at once."""
        return self._loop.run(self._send_all(sendings), 60)

    async def _send_all(self, sendings: list[Sending]) -> list[Got | None]:
        return list(await asyncio.gather(*map(self._send, sendings)))

    async def _send(self, sending: Sending) -> Got | None:
        scope: Message = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": sending.method,
            "scheme": "http", "path": "/mcp", "raw_path": b"/mcp", "query_string": sending.query.encode("latin-1"),
            "root_path": "", "headers": _encoded(sending.headers), "client": ("127.0.0.1", 50000),
            "server": ("localhost", 80), "state": {},
        }  # fmt: skip
        call = ASGICall(self._application, scope)
        for piece in self._pieces(sending):
            await call.inbox.put(piece)
        if sending.cut or sending.leaves:
            await call.inbox.put({"type": "http.disconnect"})
            await call.finish()
            return None
        start = await call.receive()
        assert start["type"] == "http.response.start", start
        found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in start["headers"]}
        streamed = found.get("content-type", "").startswith("text/event-stream")
        got = Got(start["status"], found, b"", streamed, sending.body)
        while await self._read_part(call, sending, got):
            pass
        return got

    async def _read_part(self, call: ASGICall, sending: Sending, got: Got) -> bool:
        """Read on; False once the answer is whole, or is a stream that stays open."""
        part = await call.receive()
        assert part["type"] == "http.response.body", part
        got.body += part.get("body", b"")
        if not part.get("more_body"):
            await call.finish()
            return False
        if not got.streamed:
            return True
        asked = [] if sending.reply is None else _questions(got)
        for question in asked[got.replied :]:
            body = json.dumps({"jsonrpc": "2.0", "id": question["id"], **(sending.reply or {})}).encode()
            replied = await self._send(Sending(headers=sending.headers, body=body))
            assert replied is not None and replied.status in (202, 400), replied
            got.replied += 1
        if sending.method == "GET" or (not asked and _stays_open(got)):
            await call.disconnect("http.disconnect")
            return False
        return True

    @staticmethod
    def _pieces(sending: Sending) -> list[Message]:
        found, start = [], 0
        for length in [*sending.pieces, len(sending.body)]:
            found.append({"type": "http.request", "body": sending.body[start : start + length], "more_body": True})
            start += length
        if not sending.cut:
            found[-1]["more_body"] = False
        else:
            found = found[:-1]
        return found


def _encoded(headers: list[Header]) -> list[tuple[bytes, bytes]]:
    """Headers as a server hands them on, with a Host if none is named."""
    named = any(name.lower() == "host" for name, _ in headers)
    pairs = headers if named else [("Host", "localhost"), *headers]
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in pairs]


def _questions(got: Got) -> list[Message]:
    return [message for message in got.messages() if {"id", "method"} <= set(message)]


def _stays_open(got: Got) -> bool:
    """Whether the stream is a listen, or waits for the client's answer to a question."""
    acknowledged = "notifications/subscriptions/acknowledged"
    return bool(_questions(got)) or any(message.get("method") == acknowledged for message in got.messages())


class Lines:
    """The pipes of stdio under test: lines of any kind in, every line out kept."""

    def __init__(self, site: Any, principal: Principal, loop: LoopThread) -> None:
        self._loop = loop
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        loop.run(self._open(site, principal))

    async def _open(self, site: Any, principal: Principal) -> None:
        stdin, self._stdin = os.pipe()
        output, stdout = os.pipe()
        self._server = StdioServer(site, principal, stdin, stdout)
        self._serving = asyncio.ensure_future(self._server.serve())
        self._reading = asyncio.ensure_future(self._listen(output))

    async def _listen(self, output: int) -> None:
        begun = b""
        async for chunk in PipeReader(output):
            *lines, begun = (begun + chunk).split(b"\n")
            for line in lines:
                await self._said.put(line)
        assert begun == b""
        await self._said.put(None)

    def put(self, *frames: str | bytes) -> None:
        for frame in frames:
            data = _line(frame) + b"\n"
            while data:
                data = data[os.write(self._stdin, data) :]

    def read(self, frame: str | bytes) -> Sent | int | None:
        """What a line says; None for a blank one."""
        line = _line(frame)
        if len(line) > LIMITS["MAX_BODY_BYTES"]:
            return Sent("malformed")
        return read(line) if line.strip() else None

    def next(self, seconds: float = 60) -> Message:
        said = self._loop.run(asyncio.wait_for(self._said.get(), seconds), seconds + 5)
        return {"code": 0} if said is None else {"text": said.decode()}

    def leave(self) -> None:
        """The client is gone."""
        os.close(self._stdin)
        self._loop.run(self._end())

    async def _end(self) -> None:
        await asyncio.wait_for(asyncio.gather(self._serving, self._reading), 60)


def _line(frame: str | bytes) -> bytes:
    """A frame as one line."""
    data = frame if isinstance(frame, bytes) else frame.encode("utf-8", "surrogatepass")
    return data.replace(b"\n", b" ").removesuffix(b"\r")


class Frames:
    """A socket under test: frames of any kind in, every frame out kept."""

    def __init__(self, application: Any, loop: LoopThread, headers: list[Header], subprotocols: list[str]) -> None:
        self._loop = loop
        self.out: list[Message] = []
        self.scope: Message = {
            "type": "websocket", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "ws", "path": "/mcp",
            "raw_path": b"/mcp", "query_string": b"", "root_path": "", "subprotocols": subprotocols,
            "headers": _encoded(headers),
            "client": ("127.0.0.1", 50000), "server": ("localhost", 80), "state": {},
            "extensions": {"websocket.http.response": {}},
        }  # fmt: skip
        self.opened = loop.run(self._open(application))

    async def _open(self, application: Any) -> Message:
        self.call = ASGICall(application, self.scope)
        await self.call.inbox.put({"type": "websocket.connect"})
        opened = await self.call.receive()
        if opened["type"] == "websocket.http.response.start":
            opened["content"] = (await self.call.receive())["body"]
            await self.call.finish()
        return opened

    @property
    def accepted(self) -> bool:
        return bool(self.opened["type"] == "websocket.accept")

    def put(self, *frames: str | bytes) -> None:
        """Frames, one close upon the other."""
        self._loop.run(self._put(frames))

    async def _put(self, frames: tuple[str | bytes, ...]) -> None:
        for frame in frames:
            key = "text" if isinstance(frame, str) else "bytes"
            await self.call.inbox.put({"type": "websocket.receive", key: frame})

    def next(self, seconds: float = 60) -> Message:
        """The next message of the server: a frame, or the close."""
        return self._loop.run(self.call.receive(seconds), seconds + 5)

    def __enter__(self) -> Frames:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def read(self, frame: str | bytes) -> Sent | int | None:
        """What a frame says, or the close code that it earns."""
        if isinstance(frame, bytes):
            return _UNSUPPORTED_DATA
        return _TOO_BIG if len(frame.encode()) > LIMITS["MAX_BODY_BYTES"] else read(frame)

    def leave(self) -> None:
        """The client is gone."""
        if self.accepted:
            self._loop.run(self._leave())

    async def _leave(self) -> None:
        await self.call.inbox.put({"type": "websocket.disconnect", "code": 1006})
        await self.call.finish()


def authorization(token: str | None) -> list[Header]:
    return [] if token is None else [("Authorization", f"Bearer {token}")]


def discover(token: str | None) -> Sending:
    """What any modern client asks first."""
    headers = [
        *authorization(token), ("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", MODERN), ("Mcp-Method", "server/discover"),
    ]  # fmt: skip
    message = {"jsonrpc": "2.0", "id": "probe", "method": "server/discover", "params": {"_meta": meta()}}
    return Sending(headers=headers, body=json.dumps(message).encode())


def ping(token: str | None) -> Sending:
    """What any legacy client may ask."""
    headers = [
        *authorization(token), ("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"),
    ]  # fmt: skip
    return Sending(headers=headers, body=b'{"jsonrpc": "2.0", "id": "ping", "method": "ping"}')
