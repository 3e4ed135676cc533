"""The publisher's queue: adding to it costs an append, and its size is bounded whatever the broker does."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import Any

from mcp_django.core.events import native_threads
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import ControlSet

#: With more items than this, the thread that adds one merges them. A merged event is bounded by MAX_CHANGED_KEYS for
#: each model, and by the size of a ControlSet.
_MANY_ITEMS = 1_000


@dataclass(slots=True)
class MergedEvent:
    """Items of the queue that are sent as one event, and the flushes that wait until it is sent."""

    changes: Changes = field(default_factory=Changes)
    controls: ControlSet = field(default_factory=ControlSet)
    flushes: list[threading.Event] = field(default_factory=list)

    def add(self, item: Any) -> None:
        if item is None:
            return
        if hasattr(item, "set"):
            self.flushes.append(item)
            return
        changes, controls = item
        self.changes.absorb(changes)
        self.controls.absorb(controls)


class EventQueue:
    """Items in the order in which they came, the oldest of them merged where there are many.

    An item is either what was committed together, (Changes, ControlSet), or the threading.Event of a flush, which is
    set once everything before it is sent.
    """

    def __init__(self) -> None:
        # A SimpleQueue is reentrant, and a lock is not: a signal handler may save while its thread is in here.
        self._items: queue.SimpleQueue[Any] = native_threads.new_queue()
        self._merging = native_threads.new_lock()
        self._merged: MergedEvent | None = None

    def put(self, item: Any) -> None:
        """Add an item, without waiting for any other thread."""
        self._items.put(item)
        if self._items.qsize() > _MANY_ITEMS and self._merging.acquire(blocking=False):
            try:
                self._merge()
            finally:
                self._merging.release()
            # There may be nothing left in the queue to wake the publisher.
            self._items.put(None)

    def wait(self, seconds: float) -> Any:
        """The next item, or None where items were merged. Raises queue.Empty."""
        return self._items.get(timeout=seconds)

    def take(self, first: Any) -> MergedEvent:
        """Everything that is in the queue, together with ``first``, the item that ``wait`` gave."""
        with self._merging:
            merged = self._merge(first)
            self._merged = None
        return merged

    def _merge(self, first: Any = None) -> MergedEvent:
        merged = self._merged = self._merged or MergedEvent()
        merged.add(first)
        # Only as many as there are now: other threads may add items as fast as this loop takes them.
        for _ in range(self._items.qsize()):
            try:
                merged.add(self._items.get_nowait())
            except queue.Empty:
                break
        return merged
