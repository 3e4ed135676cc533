"""Delivery: one task writes to connection after connection, and another one goes on when a client makes it wait.

Waking a task for each of thousands of sockets would cost as much as writing their frames.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any, Protocol

#: Connections that are written to before the loop looks at anything else.
_AT_ONCE = 100


class Flushable(Protocol):
    """A connection with something to write."""

    async def flush(self, task: asyncio.Task[None]) -> None:
        """Write what is pending, however long that takes. It raises nothing. ``task`` is the running one."""


class Delivery:
    """The connections of one event loop that have something to write."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Flushable] = deque()
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, connection: Flushable) -> None:
        """Let the connection be flushed soon. On the loop."""
        self._waiting.append(connection)
        if not self._is_due:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Start a task for the rest, once a turn of the loop: the last has done its share, or waits for a client."""
        self._is_due = False
        if self._waiting:
            task = self._loop.create_task(self._flush_some())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._schedule()

    async def _flush_some(self) -> None:
        task: Any = asyncio.current_task()
        waiting = self._waiting
        for _ in range(_AT_ONCE):
            if not waiting:
                return
            await waiting.popleft().flush(task)
