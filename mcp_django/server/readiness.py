"""Whether what each call needs answers: the database and the bus.

Anybody may ask, without a login. So each part is looked at once in five seconds, however many ask.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable
from contextlib import aclosing
from time import monotonic, sleep

from django.db import connections, router

from mcp_django.core.events import native_threads
from mcp_django.core.events.bus import BaseBus, LocalBus, get_bus
from mcp_django.models import AccessToken

logger = logging.getLogger("mcp_django")

OK, AWAY = "ok", "away"
#: How long what was found is kept.
_KEPT_SECONDS = 5.0
#: How long a part may take to answer.
_PATIENCE_SECONDS = 3.0
_PAUSE_SECONDS = 0.1


class Part:
    """Something that calls need. A thread looks at it, since a driver may wait for ever for what is away."""

    def __init__(self, name: str, check: Callable[[], None]) -> None:
        self.name = name
        self._check = check
        self._reset()
        os.register_at_fork(after_in_child=self._reset)

    def _reset(self) -> None:
        """Begin anew. In a forked child no thread of the parent looks, and a lock that one held would stay locked."""
        self._lock = native_threads.new_lock()
        self._begun_at = float("-inf")
        self._is_looking = False
        self._found = AWAY

    def look(self) -> None:
        """Begin to look, unless that was done a moment ago, or a thread still waits for what is away."""
        with self._lock:
            is_due = not self._is_looking and monotonic() - self._begun_at > _KEPT_SECONDS
            if is_due:
                self._begun_at, self._is_looking = monotonic(), True
        if is_due:
            try:
                native_threads.start_thread(self._look)
            except RuntimeError as error:  # The system has no more threads.
                self._found, self._is_looking = AWAY, False
                logger.warning("Not ready: nothing can look at the %s (%s)", self.name, error)

    @property
    def is_awaited(self) -> bool:
        """Whether a thread looks, and may still find an answer in time."""
        return self._is_looking and not self._is_late

    @property
    def word(self) -> str:
        """What was found last; "away" where a thread has looked for too long."""
        return AWAY if self._is_looking and self._is_late else self._found

    def forget(self) -> None:
        """Look again when somebody asks next."""
        self._begun_at = float("-inf")

    @property
    def _is_late(self) -> bool:
        return monotonic() - self._begun_at > _PATIENCE_SECONDS

    def _look(self) -> None:
        try:
            self._check()
            self._found = OK
        except Exception as error:  # noqa: BLE001 - whatever a driver raises
            self._found = AWAY
            logger.warning("Not ready: the %s does not answer (%s: %s)", self.name, type(error).__name__, error)
        finally:
            self._is_looking = False


def ask_in_thread() -> dict[str, str]:
    """Part → "ok" or "away", after three seconds at most."""
    _begin()
    while _is_awaited():
        sleep(_PAUSE_SECONDS)
    return _words()


async def ask_on_loop() -> dict[str, str]:
    """The same on an event loop."""
    _begin()
    while _is_awaited():  # noqa: ASYNC110 - a thread finds the answer, for any number of loops
        await asyncio.sleep(_PAUSE_SECONDS)
    return _words()


def _begin() -> None:
    for part in PARTS:
        part.look()


def _is_awaited() -> bool:
    return any(part.is_awaited for part in PARTS)


def _words() -> dict[str, str]:
    return {part.name: part.word for part in PARTS}


def _ask_database() -> None:
    """Raises what the driver raises. The database is that of our tables, without which no call is answered."""
    connection = connections[router.db_for_read(AccessToken)]
    try:
        connection.ensure_connection()
        if not connection.is_usable():
            raise ConnectionError("the connection cannot be used")
    finally:
        connection.close()


def _ask_bus() -> None:
    """Raises what the broker raises, or TimeoutError. A process that is alone has no broker."""
    bus = get_bus()
    if not isinstance(bus, LocalBus):
        asyncio.run(_join(bus))


async def _join(bus: BaseBus) -> None:
    """Subscribe, as a process does that serves clients, and leave again."""
    joined = asyncio.Event()
    async with asyncio.timeout(_PATIENCE_SECONDS), aclosing(bus.subscribe(joined.set)) as events:
        waits = [asyncio.ensure_future(anext(events)), asyncio.ensure_future(joined.wait())]
        try:
            done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
            # A generator is closed once nobody waits for its next event.
            await asyncio.wait(waits)
        for one in done:
            one.result()


PARTS = (Part("database", _ask_database), Part("bus", _ask_bus))
