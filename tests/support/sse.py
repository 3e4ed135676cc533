"""Clients of the transport HTTP+SSE of 2024-11-05."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.support.asgi import ASGICall
from tests.support.base import MODERN
from tests.support.duplex import Connection, DuplexPeer
from tests.support.http import Answered, ASGIPeer
from tests.support.loop import LoopThread


@contextmanager
def sse_peers(application: Any, loop: LoopThread) -> Iterator[Callable[[str | None], SSEPeer]]:
    """Makes clients of one application by their tokens, and closes them."""
    with ExitStack() as made:
        yield lambda token: made.enter_context(closing(SSEPeer(token, application, loop)))


class SSEPeer(DuplexPeer):
    """A client of HTTP+SSE, which knows legacy sessions only."""

    path = "/sse"

    def __init__(self, token: str | None, application: Any, loop: LoopThread) -> None:
        super().__init__(token, loop)
        #: Makes the HTTP requests.
        self.http = ASGIPeer(token, application, loop)

    def open(self, headers: dict[str, str] | None = None) -> Stream:
        """A new stream; it may have been refused."""
        stream = Stream(self.http, self.path, headers or {})
        self.connections[f"extra {len(self.connections)}"] = stream
        return stream

    def _connect(self) -> Stream:
        stream = Stream(self.http, self.path, {})
        assert stream.status == 200, stream.refused
        return stream

    def connection(self, revision: str) -> Connection:
        assert revision != MODERN, "HTTP+SSE serves legacy sessions"
        return super().connection(revision)


class Stream(Connection):
    """One event stream, and the URL to post to."""

    def __init__(self, http: ASGIPeer, path: str, headers: dict[str, str]) -> None:
        super().__init__(http.loop)
        self._http = http
        #: The data of the first event.
        self.endpoint = ""
        #: Comments that came.
        self.comments: asyncio.Queue[bytes] = asyncio.Queue()
        self.refused: Any = None
        http.path, http.query = path, ""
        scope = http.scope("GET", http.headers({"Accept": "text/event-stream", **headers}))
        self.loop.run(self._open(scope))

    async def _open(self, scope: dict[str, Any]) -> None:
        self.call = ASGICall(self._http.application, scope)
        await self.call.inbox.put({"type": "http.request", "body": b"", "more_body": False})
        start = await self.call.receive()
        self.status = start["status"]
        self.headers = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        if self.status != 200:
            self.refused = json.loads((await self.call.receive())["body"])
            return
        opened = asyncio.Event()
        self._reader = asyncio.ensure_future(self._read(opened))
        await asyncio.wait_for(opened.wait(), 30)

    async def _read(self, opened: asyncio.Event) -> None:
        begun = b""
        while True:
            part = await self.call.receive(60)
            *events, begun = (begun + part.get("body", b"")).split(b"\n\n")
            for event in events:
                await self._take(event, opened)
            if not part.get("more_body", False):
                assert begun == b"", "the stream ends within an event"
                return

    async def _take(self, event: bytes, opened: asyncio.Event) -> None:
        if event.startswith(b":"):
            await self.comments.put(event)
            return
        name, data = event.split(b"\n")
        if not opened.is_set():
            assert name == b"event: endpoint", event
            self.endpoint = data.removeprefix(b"data: ").decode()
            opened.set()
            return
        assert name == b"event: message", event
        await self.sort(data.removeprefix(b"data: "))

    def post(self, body: str | bytes, headers: dict[str, str] | None = None, endpoint: str = "") -> Answered:
        """Post a body to the URL of the first event, or to another one."""
        url = urlsplit(endpoint or self.endpoint)
        self._http.path, self._http.query = url.path, url.query
        return self._http.http("POST", body.encode() if isinstance(body, str) else body, headers)

    def send_text(self, text: str) -> None:
        answered = self.post(text)
        assert (answered.status, answered.body) == (202, b""), answered

    def wait_ended(self, seconds: float = 60) -> None:
        """Wait until the server has ended the stream."""
        self.loop.run(asyncio.wait_for(asyncio.shield(self._reader), seconds), seconds + 5)

    def assert_shut_out(self, seconds: float = 60) -> None:
        self.wait_ended(seconds)

    def leave(self) -> None:
        """Go away, and wait until the server has noticed."""
        self.loop.run(self.call.disconnect("http.disconnect"))

    def close(self) -> None:
        if self.status == 200:
            self._reader.get_loop().call_soon_threadsafe(self._reader.cancel)
            self.leave()
