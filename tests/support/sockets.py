"""Clients over WebSocket."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.support.asgi import ASGICall, encode_headers
from tests.support.base import Message
from tests.support.duplex import Connection, DuplexPeer
from tests.support.loop import LoopThread


class SocketPeer(DuplexPeer):
    """A client over WebSocket."""

    def __init__(self, token: str | None, application: Any, loop: LoopThread) -> None:
        super().__init__(token, loop)
        self.application = application

    def connect(self, headers: dict[str, str] | None = None, subprotocols: Any = ("mcp",), query: str = "") -> Socket:
        """A new socket, before any message; it may have been refused."""
        given = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        socket = Socket(self.loop, self.application, {**given, **(headers or {})}, subprotocols, query)
        self.connections[f"extra {len(self.connections)}"] = socket
        return socket

    def socket(self, revision: str) -> Socket:
        """The peer's socket of a revision; a legacy one with its session."""
        connection = self.connection(revision)
        assert isinstance(connection, Socket)
        return connection

    def _connect(self) -> Socket:
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        socket = Socket(self.loop, self.application, headers)
        assert socket.accepted, socket.refused
        return socket


class Socket(Connection):
    """One WebSocket connection."""

    def __init__(
        self,
        loop: LoopThread,
        application: Any,
        headers: dict[str, str],
        subprotocols: Any = ("mcp",),
        query: str = "",
    ) -> None:
        super().__init__(loop)
        self.accepted = False
        self.refused: list[Message] = []
        self.closed_with: int | None = None
        self.close_reason = ""
        loop.run(self._open(application, headers, list(subprotocols), query))

    async def _open(self, application: Any, headers: dict[str, str], subprotocols: list[str], query: str) -> None:
        scope = {
            "type": "websocket", "asgi": {"version": "3.0"}, "scheme": "ws", "path": "/mcp", "raw_path": b"/mcp",
            "query_string": query.encode(), "root_path": "", "subprotocols": subprotocols,
            "headers": encode_headers({"Host": "localhost", **headers}),
            "client": ("127.0.0.1", 50000), "server": ("localhost", 80), "state": {},
            "extensions": {"websocket.http.response": {}},
        }  # fmt: skip
        self.call = ASGICall(application, scope)
        await self.call.inbox.put({"type": "websocket.connect"})
        opened = await self.call.receive()
        self.accepted = opened["type"] == "websocket.accept"
        self.subprotocol = opened.get("subprotocol")
        if not self.accepted:
            self.refused = [opened]
            if opened["type"] == "websocket.http.response.start":
                self.refused.append(await self.call.receive())
            return
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        while True:
            try:
                message = await self.call.receive(60)
            except EOFError:
                return
            if message["type"] == "websocket.close":
                self.closed_with = message.get("code", 1000)
                self.close_reason = message.get("reason", "")
                return
            await self.sort(message["text"])

    def send_text(self, text: str) -> None:
        self.loop.run(self.call.inbox.put({"type": "websocket.receive", "text": text}))

    def send_bytes(self, data: bytes) -> None:
        self.loop.run(self.call.inbox.put({"type": "websocket.receive", "bytes": data}))

    def wait_closed(self, seconds: float = 60) -> int | None:
        """The close code, once the server has closed the socket."""
        self.loop.run(asyncio.wait_for(asyncio.shield(self._reader), seconds), seconds + 5)
        return self.closed_with

    def assert_shut_out(self, seconds: float = 60) -> None:
        assert self.wait_closed(seconds) == 1008

    def close(self) -> None:
        if self.accepted:
            self._reader.get_loop().call_soon_threadsafe(self._reader.cancel)
        self.loop.run(self.call.disconnect("websocket.disconnect", code=1000))
