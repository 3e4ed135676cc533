"""Sending what was committed: saving appends to a queue, one plain thread per process talks to the bus.

Events are numbered, and the last number is repeated with growing pauses, so that a hub can tell that it missed one.
"""

from __future__ import annotations

import atexit
import logging
import multiprocessing.util
import os
import queue
import threading
import time
import uuid
from typing import TYPE_CHECKING

from mcp_django.conf import get_conf
from mcp_django.events import native_threads
from mcp_django.events.bus import get_bus
from mcp_django.events.queue import Backlog, Batch
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.events.changes import Changes

logger = logging.getLogger("mcp_django")
_FLUSH_SECONDS = 5.0
_FIRST_REPEAT, _LAST_REPEAT = 0.25, 30.0


class Publisher:
    """The one sender of this process."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin as a new publisher: at the start, and in the child of a fork, which has no thread of ours."""
        self.id = uuid.uuid4().hex
        self.number = 0
        self._backlog = Backlog()
        self._running = False
        self._started_at = 0.0
        self._lock = threading.Lock()

    def put(self, changes: Changes, controls: set[str]) -> None:
        """Tell every process. Costs an append; never raises and never waits for a broker."""
        try:
            if get_bus().deliver_here(changes, controls):
                return
        except Exception:
            # Whoever saves a row is not to blame for CHANNEL_LAYERS; whoever listens is told by the hub.
            logger.exception("A change cannot be told")
            return
        self._backlog.put((changes, controls))
        if not self._running:
            self._start()

    def flush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until all that was put has been given to the bus; False if that took too long."""
        if not self._running:
            return True
        done = native_threads.new_event()
        self._backlog.put(done)
        return done.wait(seconds)

    def _start(self) -> None:
        with self._lock:
            if self._running:
                return
            self._running = True
            self._started_at = time.time()
        try:
            native_threads.start_thread(self._run)
        except RuntimeError:
            # The process ends, and Python starts no threads any more.
            self._running = False
            self._send_all(self._backlog.take(None))

    def _run(self) -> None:
        sent_at, repeat = 0.0, _FIRST_REPEAT
        backlog = self._backlog
        while True:
            try:
                item = backlog.wait(repeat)
            except queue.Empty:
                self._send([], [])
                repeat = min(repeat * 2, _LAST_REPEAT)
                continue
            try:
                pause = sent_at + get_conf().COALESCE_SECONDS - time.monotonic()
                if pause > 0 and not hasattr(item, "set"):
                    native_threads.sleep(pause)
                self._send_all(backlog.take(item))
            except Exception:
                logger.exception("Changes could not be sent")
            sent_at, repeat = time.monotonic(), _FIRST_REPEAT

    def _send_all(self, batch: Batch) -> None:
        try:
            if batch.changes or batch.controls:
                self.number += 1
                self._send(batch.changes.as_json(), sorted(batch.controls))
        finally:
            for flush_done in batch.flushes:
                flush_done.set()

    def _send(self, changes: list[JSON], controls: list[str]) -> None:
        event: JSON = {"publisher": self.id, "started": self._started_at, "number": self.number}
        if changes:
            event["changes"] = changes
        if controls:
            event["controls"] = controls
        try:
            get_bus().publish(event)
        except Exception:
            # The number was taken: every hub will see the gap, and tell its subscribers to look for themselves.
            logger.warning("An event could not be sent; subscribers will be told to look again", exc_info=True)


publisher = Publisher()


def flush(seconds: float = _FLUSH_SECONDS) -> bool:
    """Wait until every change that was committed so far has been given to the bus.

    At the exit of a process this happens by itself. Returns False if it took longer than ``seconds``.
    """
    return publisher.flush(seconds)


class _Exit:
    """The end of the process, which several of Python's hooks tell of: they wait for the broker no longer than one."""

    def __init__(self) -> None:
        self._deadline: float | None = None

    def __call__(self) -> None:
        now = time.monotonic()
        if self._deadline is None:
            self._deadline = now + _FLUSH_SECONDS
        if now < self._deadline:
            publisher.flush(self._deadline - now)

    def forget(self) -> None:
        self._deadline = None


_at_exit = _Exit()


def _at_exit_of_child(_: Publisher) -> None:
    """Children of multiprocessing run no atexit functions, and forget the finalizers of their parent."""
    multiprocessing.util.Finalize(None, _at_exit, exitpriority=100)


os.register_at_fork(after_in_child=publisher._reset)
os.register_at_fork(after_in_child=_at_exit.forget)
multiprocessing.util.register_after_fork(publisher, _at_exit_of_child)
atexit.register(_at_exit)
# Earlier than atexit, where Python has it: before the threads are gone in which asyncio resolves host names.
getattr(threading, "_register_atexit", atexit.register)(_at_exit)
