"""Writing the frames of a socket: one at a time, in their order, whoever gives up meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from mcp_django.transports.lasting.frames import FrameWire
from tests.support.loop import LoopThread


class Server:
    """Its ``send`` waits while the client does not read."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.sent: list[str] = []
        self.reads = asyncio.Event()
        self.is_gone = False

    async def send(self, message: Any) -> None:
        self.begun.append(message["text"])
        await self.reads.wait()
        if self.is_gone:
            raise OSError("gone")
        self.sent.append(message["text"])


async def _begin(wire: FrameWire, *texts: str) -> list[asyncio.Task[None]]:
    """Tasks that write these texts, each of which has done what it can do for now."""
    tasks = [asyncio.create_task(wire.write(text.encode())) for text in texts]
    for _ in range(5):
        await asyncio.sleep(0)
    return tasks


def test_frames_are_written_one_after_another_in_their_order(serving_loop: LoopThread) -> None:
    async def write() -> tuple[list[str], list[str]]:
        server = Server()
        wire = FrameWire(server.send)
        tasks = await _begin(wire, "a", "b", "c")
        begun = server.begun.copy()
        server.reads.set()
        # It comes while the turn is being handed to the second one.
        await asyncio.gather(*tasks, wire.write(b"d"))
        return begun, server.sent

    assert serving_loop.run(write()) == (["a"], ["a", "b", "c", "d"])


def test_a_frame_that_nobody_writes_any_more_holds_no_other_up(serving_loop: LoopThread) -> None:
    async def write() -> list[str]:
        server = Server()
        wire = FrameWire(server.send)
        first, second, third = await _begin(wire, "a", "b", "c")
        second.cancel()
        server.reads.set()
        await asyncio.gather(first, third)
        await wire.write(b"d")
        return server.sent

    assert serving_loop.run(write()) == ["a", "c", "d"]


def test_a_frame_that_is_given_up_in_the_moment_of_its_turn_passes_it_on(serving_loop: LoopThread) -> None:
    async def write() -> list[str]:
        server = Server()
        wire = FrameWire(server.send)

        async def write_and_cancel() -> None:
            await wire.write(b"a")
            # The turn has been given to the second frame, whose task has not gone on yet.
            second.cancel()

        first = asyncio.create_task(write_and_cancel())
        second, third = await _begin(wire, "b", "c")
        server.reads.set()
        await asyncio.wait({first, second, third}, timeout=30)
        await wire.write(b"d")
        return server.sent

    assert serving_loop.run(write()) == ["a", "c", "d"]


def test_a_frame_that_is_given_up_while_it_is_written_passes_its_turn_on(serving_loop: LoopThread) -> None:
    async def write() -> list[str]:
        server = Server()
        wire = FrameWire(server.send)
        first, second = await _begin(wire, "a", "b")
        first.cancel()
        server.reads.set()
        await asyncio.wait_for(second, 30)
        return server.sent

    assert serving_loop.run(write()) == ["b"]


def test_nothing_more_is_written_to_a_client_that_is_gone(serving_loop: LoopThread) -> None:
    async def write() -> list[str]:
        server = Server()
        server.is_gone = True
        wire = FrameWire(server.send)
        tasks = await _begin(wire, "a", "b")
        server.reads.set()
        await asyncio.gather(*tasks, wire.write(b"c"))
        return server.begun

    assert serving_loop.run(write()) == ["a"]
