"""Stands where a hub stands, and keeps what the follower of a bus tells it."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mcp_django.core.events.bus import BaseBus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.push.follower import Follower
from tests.support.loop import LoopThread

RESYNCED = "resynced"


class Looking:
    """Keeps in their order the kinds of controls, the changed models with their keys, and when to look again."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.heard: queue.Queue[Any] = queue.Queue()

    def resync(self) -> None:
        self.heard.put(RESYNCED)

    def receive(self, changes: Changes, controls: Any) -> None:
        written = {label: change.written for (_, label), change in changes.items()}
        self.heard.put(written or sorted(control.kind for control in controls))


@contextmanager
def following(bus: BaseBus, loop: LoopThread) -> Iterator[Looking]:
    """Somebody who follows the bus, and has joined it."""
    looking = Looking(loop.loop)

    async def start() -> Any:
        return asyncio.ensure_future(Follower(looking, bus).follow())  # type: ignore[arg-type]

    async def stop() -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    task = loop.run(start())
    try:
        assert looking.heard.get(timeout=60) == RESYNCED
        yield looking
    finally:
        loop.run(stop())
