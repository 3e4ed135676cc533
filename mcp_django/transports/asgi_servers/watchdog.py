"""Ends what its client does not use: connections that are written to and not read, and sockets that say nothing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol
from weakref import WeakKeyDictionary

from mcp_django.conf import get_conf
from mcp_django.transports.asgi_servers.wire import Wire

#: The shortest and the longest pause between two looks.
_LEAST_SECONDS, _MOST_SECONDS = 0.05, 5.0
#: The number of looks within the shortest limit of the settings.
_LOOKS = 4


class Watched(Protocol):
    def look(self, now: float) -> None:
        """End the connection if its client does not use it. ``now`` is a reading of ``time.monotonic()``."""


class Watchdog:
    """Looks at the connections of one event loop in turn: a timer for each would cost more at every message."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, watched: Watched) -> None:
        self._watched.add(watched)
        if self._timer is None:
            self._timer = self._loop.call_later(_pause(), self._look)

    def discard(self, watched: Watched) -> None:
        self._watched.discard(watched)
        if not self._watched and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        self._timer = self._loop.call_later(_pause(), self._look)
        now = time.monotonic()
        for watched in list(self._watched):
            watched.look(now)


def _pause() -> float:
    conf = get_conf()
    limits = [limit for limit in (conf.WRITE_SECONDS, conf.REQUEST_SECONDS, conf.SOCKET_IDLE_SECONDS) if limit]
    return max(_LEAST_SECONDS, min([_MOST_SECONDS, *(limit / _LOOKS for limit in limits)]))


_watchdogs: WeakKeyDictionary[asyncio.AbstractEventLoop, Watchdog] = WeakKeyDictionary()


def get_watchdog() -> Watchdog:
    """The watchdog of the running loop."""
    loop = asyncio.get_running_loop()
    watchdog = _watchdogs.get(loop)
    if watchdog is None:
        watchdog = _watchdogs[loop] = Watchdog(loop)
    return watchdog


@contextmanager
def reading_client(wire: Wire) -> Iterator[None]:
    """While the running task writes to the wire, end the connection if the client does not read, or else the task."""
    watchdog, watched = get_watchdog(), _Writing(wire)
    watchdog.add(watched)
    try:
        yield
    finally:
        watchdog.discard(watched)


class _Writing:
    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._task = asyncio.current_task()

    def look(self, now: float) -> None:
        if self._wire.is_stalled(now) and not self._wire.abort() and self._task is not None:
            self._task.cancel()
            self._task = None
