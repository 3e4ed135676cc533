"""What waits for the publisher: to add to it costs an append, and its size is bounded whatever the broker does."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_django.events import native_threads

if TYPE_CHECKING:
    from mcp_django.events.changes import Changes

#: More items than this are merged by whoever adds one. What is merged is bounded by MAX_CHANGED_KEYS a model.
_MANY_ITEMS = 1_000
#: More controls than this are told in general: what they name, each process finds in its next sweep.
_MANY_CONTROLS = 10_000


@dataclass(slots=True)
class Batch:
    """What is sent as one event, and who waits for that."""

    changes: Changes
    controls: set[str] = field(default_factory=set)
    flushes: list[threading.Event] = field(default_factory=list)

    def add(self, item: Any) -> None:
        if item is None:
            return
        if hasattr(item, "set"):
            self.flushes.append(item)
            return
        changes, controls = item
        self.changes.absorb(changes)
        self.controls |= controls
        if len(self.controls) > _MANY_CONTROLS:
            self._generalise()

    def _generalise(self) -> None:
        from mcp_django.events.transaction import ACCESS, ACCESS_OF

        general = {control for control in self.controls if ":" not in control}
        if any(control.startswith(ACCESS_OF) for control in self.controls):
            general.add(ACCESS)
        self.controls = general


class Backlog:
    """Items in the order in which they came, the oldest of them merged where there are many.

    An item is what was committed together, (Changes, controls), or the event of whoever waits for what is before it.
    """

    def __init__(self) -> None:
        # Reentrant, as no lock is: a signal handler may save while its thread is here.
        self._queue: queue.SimpleQueue[Any] = native_threads.new_queue()
        self._merging = native_threads.new_lock()
        self._merged: Batch | None = None

    def put(self, item: Any) -> None:
        """Add an item. Waits for nobody."""
        self._queue.put(item)
        if self._queue.qsize() > _MANY_ITEMS and self._merging.acquire(blocking=False):
            try:
                self._merge()
            finally:
                self._merging.release()
            # There may be nothing left in the queue to wake the publisher.
            self._queue.put(None)

    def wait(self, seconds: float) -> Any:
        """The next item, or None for those that are merged. Raises queue.Empty."""
        return self._queue.get(timeout=seconds)

    def take(self, first: Any) -> Batch:
        """All that waits, with an item that was waited for."""
        with self._merging:
            batch = self._merge(first)
            self._merged = None
        return batch

    def _merge(self, first: Any = None) -> Batch:
        from mcp_django.events.changes import Changes

        batch = self._merged = self._merged or Batch(Changes())
        batch.add(first)
        # No more than there is now: others may add as fast as this takes.
        for _ in range(self._queue.qsize()):
            try:
                batch.add(self._queue.get_nowait())
            except queue.Empty:
                break
        return batch
