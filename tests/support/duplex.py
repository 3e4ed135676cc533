"""Clients of the transports on which both sides speak at any time: sockets, and the pipes of stdio."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from typing import Any

from tests.support import schemas
from tests.support.base import MODERN, Message, Peer, Watching, meta, wanted_of
from tests.support.loop import LoopThread


class Connection(ABC):
    """One connection. Its messages are sorted into answers and notifications."""

    def __init__(self, loop: LoopThread) -> None:
        self.loop = loop
        self.answers: asyncio.Queue[Any] = asyncio.Queue()
        self.notifications: asyncio.Queue[Message] = asyncio.Queue()
        #: All messages in their order, while a test talks on the connection.
        self.talk: asyncio.Queue[Message] | None = None

    @abstractmethod
    def send_text(self, text: str) -> None:
        """Send one frame or line."""

    @abstractmethod
    def assert_shut_out(self, seconds: float = 60) -> None:
        """The server ends the connection, since its principal may no longer be there."""

    @abstractmethod
    def close(self) -> None:
        """Go away, and wait until the server has noticed."""

    async def sort(self, text: str | bytes) -> None:
        """Take in one message of the server."""
        value = json.loads(text)
        if self.talk is not None:
            await self.talk.put(value)
        elif isinstance(value, dict) and "method" in value:
            await self.notifications.put(value)
        else:
            await self.answers.put(value)

    def send(self, message: Any) -> None:
        self.send_text(json.dumps(message))

    def ask(self, message: Any, seconds: float = 60) -> Any:
        """Send a message and return the next answer."""
        self.send(message)
        return self.answer(seconds)

    def answer(self, seconds: float = 60) -> Any:
        return self.loop.run(asyncio.wait_for(self.answers.get(), seconds), seconds + 5)


class DuplexPeer(Peer):
    """A connection for each legacy revision, and one for the modern one."""

    def __init__(self, token: str | None, loop: LoopThread) -> None:
        super().__init__(token)
        self.loop = loop
        self.connections: dict[str, Connection] = {}

    @abstractmethod
    def _connect(self) -> Connection:
        """Open a connection with the peer's credentials."""

    def connect(self) -> Connection:
        """A new connection, before any message."""
        connection = self.connections[f"extra {len(self.connections)}"] = self._connect()
        return connection

    def connection(self, revision: str) -> Connection:
        """The peer's connection of a revision; a legacy one with its session."""
        if revision not in self.connections:
            connection = self.connections[revision] = self._connect()
            if revision != MODERN:
                client = {"name": "tests", "version": "1"}
                params = {"protocolVersion": revision, "capabilities": self.capabilities, "clientInfo": client}
                answer = connection.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
                schemas.check(answer, revision, "initialize")
                connection.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return self.connections[revision]

    def request(self, revision: str, method: str, params: Message | None = None) -> Message:
        message: Message = {"jsonrpc": "2.0", "id": next(self.ids), "method": method}
        if revision == MODERN:
            message["params"] = {**(params or {}), "_meta": self.meta(**(params or {}).get("_meta", {}))}
        elif params is not None:
            message["params"] = params
        answer: Message = self.connection(revision).ask(message)
        schemas.check(answer, revision, method)
        return answer

    def watch(self, revision: str, uris: list[str], *, tools: bool = False, prompts: bool = False) -> Watching:
        connection = self.connection(revision)
        if revision != MODERN:
            for uri in uris:
                self.result(revision, "resources/subscribe", {"uri": uri})
            return DuplexWatching(connection, revision, None)
        wanted = wanted_of(uris, tools=tools, prompts=prompts)
        listen_id = next(self.ids)
        connection.send({"jsonrpc": "2.0", "id": listen_id, "method": "subscriptions/listen",
                         "params": {"notifications": wanted, "_meta": meta()}})  # fmt: skip
        watching = DuplexWatching(connection, revision, listen_id)
        opened = watching.next()
        assert opened["method"] == "notifications/subscriptions/acknowledged", opened
        watching.honoured = opened["params"]["notifications"]
        return watching

    def close(self) -> None:
        for connection in self.connections.values():
            connection.close()


class DuplexWatching(Watching):
    def __init__(self, connection: Connection, revision: str, listen_id: int | str | None) -> None:
        self.connection = connection
        self.revision = revision
        self.listen_id = listen_id

    def next(self, seconds: float = 60) -> Message:
        waiting = asyncio.wait_for(self.connection.notifications.get(), seconds)
        message = self.connection.loop.run(waiting, seconds + 5)
        schemas.check(message, self.revision)
        return message

    def close(self) -> None:
        if self.listen_id is not None:
            self.connection.send(
                {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": self.listen_id}}
            )
