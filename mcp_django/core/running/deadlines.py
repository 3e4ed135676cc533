"""Deadlines without an event loop: one thread calls back for all requests of a WSGI process."""

from __future__ import annotations

import heapq
import itertools
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

logger = logging.getLogger("mcp_django")


class Deadlines:
    """The callbacks and their times. The first deadline starts the thread."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Set everything to the beginning, also in the child of a fork, which does not have our thread."""
        self._waiting = threading.Condition()
        #: The time of each deadline, and the number of its callback in ``_open``.
        self._heap: list[tuple[float, int]] = []
        self._numbers = itertools.count()
        #: A callback is removed as soon as its block ends, and not only at its time, because it refers to its request.
        self._open: dict[int, Callable[[], object]] = {}
        self._runs = False
        #: When the thread wakes next. An earlier deadline must notify it.
        self._wakes_at = math.inf

    @contextmanager
    def within(self, seconds: float, callback: Callable[[], object]) -> Iterator[None]:
        """Call ``callback`` in our thread, unless the block ends before."""
        entry = (time.monotonic() + seconds, next(self._numbers))
        with self._waiting:
            self._open[entry[1]] = callback
            heapq.heappush(self._heap, entry)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="mcp_django_deadlines", daemon=True).start()
            elif entry[0] < self._wakes_at:
                self._waiting.notify()
        try:
            yield
        finally:
            with self._waiting:
                self._open.pop(entry[1], None)
                while self._heap and self._heap[0][1] not in self._open:
                    heapq.heappop(self._heap)

    def _run(self) -> None:
        while True:
            with self._waiting:
                while not self._heap or self._heap[0][0] > time.monotonic():
                    # Usually the deadline is gone by then. Waking the thread at each request would cost more.
                    self._wakes_at = self._heap[0][0] if self._heap else math.inf
                    self._waiting.wait(self._wakes_at - time.monotonic() if self._heap else None)
                self._wakes_at = -math.inf
                callback = self._open.pop(heapq.heappop(self._heap)[1], None)
            if callback is not None:
                self._call(callback)
            # Otherwise the callback would live until the next one is due.
            del callback

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("A request that took too long could not be stopped")


deadlines = Deadlines()
os.register_at_fork(after_in_child=deadlines._reset)
