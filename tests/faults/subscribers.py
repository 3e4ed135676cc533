"""Clients that listen: each keeps when it was told of what, and comes back when it loses its connection.

A client that comes back reads what it watches once it is acknowledged, as clients do: what was committed before that
moment it has read, and need not be told.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any

import grpc
import httpx
from websockets import Subprotocol
from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from mcp_django.protocol import mcp_pb2_grpc, protobuf
from tests.faults.servers import Server
from tests.support.base import LEGACY, MODERN, Message, meta

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_PAUSE_SECONDS = 0.2
_CONNECT_SECONDS = 60.0
_UPDATED = "notifications/resources/updated"
_LISTS = frozenset(f"notifications/{name}/list_changed" for name in ("prompts", "resources", "tools"))


class Lost(Exception):
    """The connection is over, or could not be had."""


class Subscriber(ABC):
    """One client with its listen."""

    def __init__(self, number: int, server: Server, token: str, view: str, uris: Sequence[str]) -> None:
        self.number = number
        self.origin = server.origin
        self.grpc = server.grpc
        self.token = token
        self.view = view
        self.uris = list(uris)
        #: What the server has acknowledged of them.
        self.honoured: frozenset[str] = frozenset()
        #: When the present connection was acknowledged, and how often it was.
        self.since = 0.0
        self.times = 0
        #: By URI: when it was told last, and how often since ``forget``.
        self.last: dict[str, float] = {}
        self.heard: Counter[str] = Counter()
        self.lists = 0
        #: What no server may send, in words.
        self.wrong: list[str] = []
        self.is_there = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return f"{type(self).__name__} {self.number} ({self.view}, {self.origin})"

    def start(self) -> None:
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Go away, without a word."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    def forget(self) -> None:
        """Begin to count anew."""
        self.heard.clear()
        self.lists = 0

    async def _run(self) -> None:
        while True:
            try:
                await self._listen()
            except (Lost, OSError, httpx.HTTPError, WebSocketException, TimeoutError, grpc.aio.AioRpcError):
                pass  # Clients come back.
            except Exception as error:  # noqa: BLE001 - told as what it is: an answer that no server may give
                self.wrong.append(f"could not understand its server: {error!r}")
            self.is_there.clear()
            await asyncio.sleep(_PAUSE_SECONDS)

    @abstractmethod
    async def _listen(self) -> None:
        """Connect, and take what comes until the connection is lost. Raises Lost, and what libraries raise."""

    def _acknowledged(self, honoured: Sequence[str]) -> None:
        if not set(honoured) <= set(self.uris):
            self.wrong.append(f"was acknowledged {honoured}")
        self.honoured = frozenset(honoured)
        self.since = time.monotonic()
        self.times += 1
        self.is_there.set()

    def _take(self, message: Message, listen_id: int | None) -> None:
        now = time.monotonic()
        if "result" in message:
            raise Lost  # The server has ended the listen.
        if listen_id is None and message.get("method") in _LISTS:
            self.lists += 1  # A session is told of its lists too, without having asked for it.
            return
        uri = message.get("params", {}).get("uri", "")
        tag = {} if listen_id is None else {"_meta": {SUBSCRIPTION_ID: listen_id}}
        if message != {"jsonrpc": "2.0", "method": _UPDATED, "params": {"uri": uri, **tag}}:
            self.wrong.append(f"was sent {message}")
        elif uri not in self.honoured:
            self.wrong.append(f"was told of {uri}, which it does not watch")
        self.last[uri] = now
        self.heard[uri] += 1

    def _listen_message(self) -> Message:
        params = {"notifications": {"resourceSubscriptions": self.uris}, "_meta": meta()}
        return {"jsonrpc": "2.0", "id": self.number, "method": "subscriptions/listen", "params": params}


class _OverHTTP(Subscriber):
    @property
    def _headers(self) -> dict[str, str]:
        accept = "application/json, text/event-stream"
        return {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "Accept": accept}

    @contextlib.asynccontextmanager
    async def _events(self, method: str, headers: dict[str, str], body: Message | None) -> Any:
        """The messages of a stream. Raises Lost where there is none."""
        timeout = httpx.Timeout(_CONNECT_SECONDS, read=None)
        async with httpx.AsyncClient(timeout=timeout, verify=False) as client:
            content = None if body is None else json.dumps(body).encode()
            url = f"{self.origin}/mcp"
            async with client.stream(method, url, content=content, headers={**self._headers, **headers}) as response:
                if response.status_code != 200:
                    raise Lost(response.status_code)
                yield _messages(response)


async def _messages(response: httpx.Response) -> Any:
    async for line in response.aiter_lines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


class Stream(_OverHTTP):
    """A modern listen over HTTP."""

    async def _listen(self) -> None:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}
        async with self._events("POST", headers, self._listen_message()) as messages:
            first = True
            async for message in messages:
                if first:
                    self._acknowledged(message["params"]["notifications"].get("resourceSubscriptions", []))
                    first = False
                else:
                    self._take(message, self.number)


class Session(_OverHTTP):
    """The stream of a legacy session, which outlives its connections."""

    revision = LEGACY[-1]

    def __init__(self, number: int, server: Server, token: str, view: str, uris: Sequence[str]) -> None:
        super().__init__(number, server, token, view, uris)
        self._key = ""
        self._subscribed: list[str] = []

    async def _listen(self) -> None:
        if not self._key:
            await self._open()
        headers = {"Mcp-Session-Id": self._key, "MCP-Protocol-Version": self.revision}
        async with self._events("GET", headers, None) as messages:
            self._acknowledged(self._subscribed)
            async for message in messages:
                self._take(message, None)

    async def _open(self) -> None:
        async with httpx.AsyncClient(timeout=_CONNECT_SECONDS, headers=self._headers, verify=False) as client:
            url = f"{self.origin}/mcp"
            known = {"name": "tests", "version": "1"}
            opening = {"protocolVersion": self.revision, "capabilities": {}, "clientInfo": known}
            request: Message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": opening}
            opened = (await client.post(url, json=request)).raise_for_status()
            headers = {"Mcp-Session-Id": opened.headers["mcp-session-id"], "MCP-Protocol-Version": self.revision}
            await client.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=headers)
            subscribed = []
            for number, uri in enumerate(self.uris, 1):
                request = {"jsonrpc": "2.0", "id": number, "method": "resources/subscribe", "params": {"uri": uri}}
                answer = (await client.post(url, json=request, headers=headers)).json()
                if answer.get("result") == {}:
                    subscribed.append(uri)
                elif answer["error"]["code"] != -32002:
                    raise Lost(answer)
            self._subscribed, self._key = subscribed, headers["Mcp-Session-Id"]


class Socket(Subscriber):
    """A modern listen on a WebSocket."""

    async def _listen(self) -> None:
        url = self.origin.replace("http", "ws", 1) + "/mcp"
        # Pings of ours would end it while its server is stopped.
        connecting = connect(
            url, additional_headers={"Authorization": f"Bearer {self.token}"}, subprotocols=[Subprotocol("mcp")],
            open_timeout=_CONNECT_SECONDS, ping_interval=None, close_timeout=1, proxy=None,
        )  # fmt: skip
        async with connecting as websocket:
            await websocket.send(json.dumps(self._listen_message()))
            first = json.loads(await websocket.recv())
            if "error" in first:
                raise Lost(first)
            self._acknowledged(first["params"]["notifications"].get("resourceSubscriptions", []))
            async for body in websocket:
                self._take(json.loads(body), self.number)


class GRPC(Subscriber):
    """A modern listen over gRPC."""

    async def _listen(self) -> None:
        # A connection of its own.
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with grpc.aio.insecure_channel(self.grpc, options) as channel:
            metadata = [("authorization", f"Bearer {self.token}")]
            stub: Any = mcp_pb2_grpc.MCPStub(channel)  # type: ignore[no-untyped-call]
            call = stub.Session(metadata=metadata, wait_for_ready=True)
            await call.write(protobuf.message_of(self._listen_message()))
            first = True
            async for sent in call:
                message = protobuf.value_of(sent)
                if not first:
                    self._take(message, self.number)
                elif "error" in message:
                    raise Lost(message)
                else:
                    self._acknowledged(message["params"]["notifications"].get("resourceSubscriptions", []))
                    first = False


KINDS: tuple[type[Subscriber], ...] = (Stream, Socket, Session, GRPC)


class Unreading:
    """A client that listens and then reads no more."""

    def __init__(self, origin: str, token: str, uris: Sequence[str]) -> None:
        self._origin = httpx.URL(origin)
        self._token = token
        self._uris = list(uris)
        self._writer: asyncio.StreamWriter | None = None

    async def open(self) -> None:
        connection = socket.socket()
        # As little as there may be on the way to it.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.setblocking(False)
        address = (str(self._origin.host), int(self._origin.port or 80))
        await asyncio.get_running_loop().sock_connect(connection, address)
        reader, self._writer = await asyncio.open_connection(sock=connection, limit=1024)
        params = {"notifications": {"resourceSubscriptions": self._uris}, "_meta": meta()}
        # Each notification repeats the id of its listen: a few of them are more than any buffer takes.
        message = {"jsonrpc": "2.0", "id": "x" * 1_000, "method": "subscriptions/listen", "params": params}
        body = json.dumps(message).encode()
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {self._token}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
            f"MCP-Protocol-Version: {MODERN}\r\nMcp-Method: subscriptions/listen\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        status = await reader.readline()
        if b"200" not in status:
            raise Lost(status)

    async def close(self) -> None:
        if self._writer is not None:
            self._writer.transport.abort()
