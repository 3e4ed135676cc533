"""Writing to many sockets: one that does not take what is written holds nobody up, also not when it is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

from django.contrib.auth.models import User

from mcp_django.bridge.sites import site
from mcp_django.push.hub import get_hub
from mcp_django.push.listeners import Delivery, Listener
from mcp_django.transports.lasting.duplex import DuplexConnection
from mcp_django.transports.lasting.frames import ListenerWriter
from tests.support.asking import request_of
from tests.support.loop import LoopThread

URI = "db://flights/flight/1"


class Client:
    """The other end of a conversation: what was written to it, and a pipe that may be full."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.crashed = False
        self.room = asyncio.Event()
        self.room.set()
        self.request = request_of(User(pk=1, username="reader"))
        self.conversation = DuplexConnection(
            site,
            self.request.mcp.principal,
            self.request,
            self._write,
            lambda: None,
            transport="test",
            crash=self._crash,
        )
        self.writers: list[ListenerWriter] = []

    def listens(self, listen_id: int = 1) -> Listener:
        listener = Listener(
            site=site, principal=self.request.mcp.principal, request=self.request, subscription_id=listen_id
        )
        get_hub().add(listener)
        self.writers.append(ListenerWriter(self.conversation, listener))
        return listener

    async def _write(self, body: bytes) -> None:
        await self.room.wait()
        self.told.append(json.loads(body)["params"]["uri"])

    def _crash(self) -> None:
        self.crashed = True


async def turns(condition: Callable[[], bool]) -> None:
    """Let the loop go on until the condition holds."""
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0)


def test_whoever_does_not_read_holds_nobody_up(db: None, serving_loop: LoopThread) -> None:
    async def tell() -> list[list[str]]:
        clients = [Client() for _ in range(250)]
        listeners = [client.listens() for client in clients]
        stuck = clients[::50]
        for client in stuck:
            client.room.clear()
        for listener in listeners:
            listener.notify_updated(URI)
        await turns(lambda: all(client.told == [URI] for client in clients if client not in stuck))
        before = [client.told.copy() for client in stuck]
        for client in stuck:
            client.room.set()
        await turns(lambda: all(client.told == [URI] for client in clients))
        return before

    assert serving_loop.run(tell()) == [[]] * 5


def test_what_is_told_while_a_client_does_not_read_is_written_once_after(db: None, serving_loop: LoopThread) -> None:
    async def tell() -> list[str]:
        client = Client()
        listener = client.listens()
        client.room.clear()
        listener.notify_updated(URI)
        await turns(lambda: not listener._pending)
        for _ in range(10):
            await asyncio.sleep(0)
            listener.notify_updated(URI)
            listener.notify_updated("db://flights/flight/2")
        client.room.set()
        await turns(lambda: len(client.told) == 3)
        for _ in range(10):
            await asyncio.sleep(0)
        return client.told

    assert serving_loop.run(tell()) == [URI, URI, "db://flights/flight/2"]


def test_a_client_that_goes_while_it_is_written_to_takes_nobody_with_it(db: None, serving_loop: LoopThread) -> None:
    async def tell() -> tuple[list[str], set[Any], bool]:
        gone, other = Client(), Client()
        gone.room.clear()
        listener, listening = gone.listens(), other.listens()
        listener.notify_updated(URI)
        for _ in range(5):
            await asyncio.sleep(0)
        # In the same turn as the rest of what the task that was writing to it has to do.
        listening.notify_updated(URI)
        gone.conversation.leave()
        await turns(lambda: other.told == [URI])
        await turns(lambda: not get_hub().delivery._tasks)
        return gone.told, gone.conversation.writers, listener in get_hub()._listeners

    assert serving_loop.run(tell()) == ([], set(), False)


def test_a_listener_that_is_closed_is_written_to_its_end(db: None, serving_loop: LoopThread) -> None:
    async def tell() -> tuple[list[str], bool]:
        client = Client()
        listener = client.listens()
        listener.notify_updated(URI)
        [writer] = client.writers
        async with asyncio.timeout(60):
            await writer.close()
        return client.told, listener in get_hub()._listeners

    assert serving_loop.run(tell()) == ([URI], False)


def test_a_message_that_cannot_be_written_ends_its_connection_alone(db: None, serving_loop: LoopThread) -> None:
    async def tell() -> tuple[bool, bool]:
        broken, other = Client(), Client()
        listener, listening = broken.listens(), other.listens()
        listener._pending["notifications/resources/updated", URI] = b"{"
        listener._wake()
        listening.notify_updated(URI)
        await turns(lambda: other.told == [URI])
        return broken.crashed, listener in get_hub()._listeners

    assert serving_loop.run(tell()) == (True, False)


def test_the_loop_goes_on_between_many_sinks(db: None, serving_loop: LoopThread) -> None:
    class Sink:
        flushed = 0

        async def flush(self, task: Any) -> None:
            Sink.flushed += 1

    async def deliver() -> int:
        delivery = Delivery(asyncio.get_running_loop())
        for _ in range(1_000):
            delivery.add(Sink())
        for _ in range(3):
            await asyncio.sleep(0)
        reached = Sink.flushed
        await turns(lambda: Sink.flushed == 1_000)
        return reached

    assert 0 < serving_loop.run(deliver()) < 1_000
