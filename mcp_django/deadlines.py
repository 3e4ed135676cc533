"""Calling back after a while, where no event loop runs: one thread for all requests of a WSGI process."""

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
    """What is to be called, and when. The thread is started with the first deadline."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin anew: at the start, and in the child of a fork, which has no thread of ours."""
        self._waiting = threading.Condition()
        #: When it ends, and the number under which ``_open`` has what is to be called.
        self._heap: list[tuple[float, int]] = []
        self._numbers = itertools.count()
        #: What is over is not kept until its end would have come: it holds its request.
        self._open: dict[int, Callable[[], object]] = {}
        self._runs = False
        #: When the thread looks next, if nobody tells it of something earlier.
        self._looks_at = math.inf

    @contextmanager
    def within(self, seconds: float, callback: Callable[[], object]) -> Iterator[None]:
        """Call ``callback``, in a thread of ours, unless the block ends before that."""
        entry = (time.monotonic() + seconds, next(self._numbers))
        with self._waiting:
            self._open[entry[1]] = callback
            heapq.heappush(self._heap, entry)
            if not self._runs:
                self._runs = True
                threading.Thread(target=self._run, name="mcp_django_deadlines", daemon=True).start()
            elif entry[0] < self._looks_at:
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
                    # Mostly there is nothing left at that time: to wake the thread at each request would cost more.
                    self._looks_at = self._heap[0][0] if self._heap else math.inf
                    self._waiting.wait(self._looks_at - time.monotonic() if self._heap else None)
                self._looks_at = -math.inf
                callback = self._open.pop(heapq.heappop(self._heap)[1], None)
            if callback is not None:
                self._call(callback)
            # Not until the next one is due.
            del callback

    def _call(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            logger.exception("What has taken too long could not be stopped")


deadlines = Deadlines()
os.register_at_fork(after_in_child=deadlines._reset)
