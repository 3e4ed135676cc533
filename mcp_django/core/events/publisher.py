"""The publisher: saving a row appends to its queue, and one plain thread per process sends events to the bus.

Events are numbered, and the last number is repeated with growing pauses, so that a hub notices that it missed one. An
event of UNNUMBERED controls alone has the number of the event before it.
"""

from __future__ import annotations

import atexit
import logging
import os
import queue
import threading
import time
import uuid
from typing import TYPE_CHECKING

from mcp_django.core.compat.processes import at_exit_of_children, before_threads_end
from mcp_django.core.events import native_threads
from mcp_django.core.events.bus import get_bus
from mcp_django.core.events.controls import UNNUMBERED
from mcp_django.core.events.queue import EventQueue, MergedEvent
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.core.events.changed_rows import Changes
    from mcp_django.core.events.controls import ControlSet

logger = logging.getLogger("mcp_django")
_FLUSH_SECONDS = 5.0
#: The pause between two sends while changes keep coming. What comes meanwhile is merged into one event.
_PAUSE_SECONDS = 0.02
_FIRST_REPEAT, _LAST_REPEAT = 0.25, 30.0


class Publisher:
    """The one sender of this process."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin as a new publisher: at the start, and in the child of a fork, which has no thread of ours yet."""
        self.id = uuid.uuid4().hex
        self.number = 0
        self._queue = EventQueue()
        self._running = False
        self._started_at = 0.0
        self._lock = threading.Lock()

    def put(self, changes: Changes, controls: ControlSet) -> None:
        """Publish an event to every process. Costs an append; never raises and never waits for a broker."""
        try:
            if get_bus().deliver_here(changes, controls):
                return
        except Exception:
            # A save must not fail because of a wrong CHANNEL_LAYERS. A client that listens gets the error of the hub.
            logger.exception("A change cannot be published")
            return
        self._queue.put((changes, controls))
        if not self._running:
            self._start()

    def flush(self, seconds: float = _FLUSH_SECONDS) -> bool:
        """Wait until the bus has all earlier events; False if that took too long."""
        if not self._running:
            return True
        done = native_threads.new_event()
        self._queue.put(done)
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
            # The process is ending, and Python starts no more threads.
            self._running = False
            self._send_all(self._queue.take(None))

    def _run(self) -> None:
        sent_at, repeat = 0.0, _FIRST_REPEAT
        while True:
            try:
                item = self._queue.wait(repeat)
            except queue.Empty:
                if self.number:
                    self._send([], [])
                repeat = min(repeat * 2, _LAST_REPEAT)
                continue
            number = self.number
            try:
                pause = sent_at + _PAUSE_SECONDS - time.monotonic()
                if pause > 0 and not hasattr(item, "set"):
                    native_threads.sleep(pause)
                self._send_all(self._queue.take(item))
            except Exception:
                logger.exception("Changes could not be sent")
            sent_at = time.monotonic()
            if self.number > number:
                repeat = _FIRST_REPEAT

    def _send_all(self, merged: MergedEvent) -> None:
        try:
            if merged.changes or merged.controls:
                if merged.changes or any(control.kind not in UNNUMBERED for control in merged.controls):
                    self.number += 1
                self._send(merged.changes.as_json(), merged.controls.as_json())
        finally:
            for flush_done in merged.flushes:
                flush_done.set()

    def _send(self, changes: list[JSON], controls: list[JSON]) -> None:
        event: JSON = {"publisher": self.id, "started": self._started_at, "number": self.number}
        if changes:
            event["changes"] = changes
        if controls:
            event["controls"] = controls
        try:
            get_bus().publish(event)
        except Exception:
            # The number was used: every hub will see the gap, and resync.
            logger.warning("An event could not be sent; subscribers will be notified to look again", exc_info=True)


publisher = Publisher()


def flush(seconds: float = _FLUSH_SECONDS) -> bool:
    """Wait until the bus has every change that was committed so far.

    At the exit of a process this happens by itself. Returns False if it took longer than ``seconds``. A change that the
    bus refused is logged, and counts as sent.
    """
    return publisher.flush(seconds)


class _Exit:
    """Flushes at the end of the process. Python's hooks call it several times; together these wait as long as one."""

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


os.register_at_fork(after_in_child=publisher._reset)
os.register_at_fork(after_in_child=_at_exit.forget)
at_exit_of_children(publisher, _at_exit)
atexit.register(_at_exit)
before_threads_end(_at_exit)
