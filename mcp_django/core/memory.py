"""What this process has read from the database a moment ago, and does not read again for TOKEN_CACHE_SECONDS."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from threading import Lock
from typing import Generic, TypeVar

from django.utils import timezone

from mcp_django.conf import get_conf

T = TypeVar("T")


class Memory(Generic[T]):
    """Values by name. The oldest give way where there are more than ``size``.

    What is read before something is forgotten must not be kept after it. So a reader takes ``generation`` first, reads,
    and hands it to ``keep``.
    """

    def __init__(self, size: int = 10_000) -> None:
        self.size = size
        #: Counts what was forgotten.
        self.generation = 0
        #: By name: when a value is remembered no longer, as ``time.monotonic()`` has it, and the value.
        self.entries: OrderedDict[str, tuple[float, T]] = OrderedDict()
        self._lock = Lock()

    def get(self, name: str) -> T | None:
        """What was kept in the last TOKEN_CACHE_SECONDS."""
        entry = self.entries.get(name)
        if entry is None or entry[0] <= time.monotonic() or not get_conf().TOKEN_CACHE_SECONDS:
            return None
        return entry[1]

    def keep(self, name: str, value: T, generation: int, expires_at: datetime | None = None) -> None:
        """Keep a value, until it expires at the latest."""
        seconds = get_conf().TOKEN_CACHE_SECONDS
        if expires_at is not None:
            seconds = min(seconds, (expires_at - timezone.now()).total_seconds())
        if seconds <= 0:
            return
        with self._lock:
            if generation != self.generation:
                return
            self.entries[name] = (time.monotonic() + seconds, value)
            self.entries.move_to_end(name)
            while len(self.entries) > self.size:
                self.entries.popitem(last=False)

    def forget(self, *names: str) -> None:
        with self._lock:
            self.generation += 1
            for name in names:
                self.entries.pop(name, None)

    def forget_where(self, concerns: Callable[[T], bool]) -> None:
        with self._lock:
            self.generation += 1
            for name in [name for name, (_, value) in self.entries.items() if concerns(value)]:
                del self.entries[name]

    def clear(self) -> None:
        with self._lock:
            self.generation += 1
            self.entries.clear()
