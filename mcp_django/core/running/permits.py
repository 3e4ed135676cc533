"""Decides which bodies may have a thread for the database: a limited number at a time."""

from __future__ import annotations

from collections import Counter, deque
from threading import Lock
from typing import Protocol


class Waiter(Protocol):
    """A body that wants a permit."""

    key: str

    def begin(self) -> bool:
        """The permit is there. False: it is not needed any more, or cannot be used."""


class Permits:
    """A number of permits. The bodies of one principal hold at most half of them, and principals have their turns."""

    def __init__(self, number: int) -> None:
        self._free = number
        self._share = max(1, number // 2)
        self._lock = Lock()
        self._held: Counter[str] = Counter()
        #: By principal, in the order of their turns.
        self._waiting: dict[str, deque[Waiter]] = {}

    def take(self, waiter: Waiter) -> None:
        """Give the waiter a permit, now or when it is its turn. ``begin`` may be called in any thread."""
        with self._lock:
            self._waiting.setdefault(waiter.key, deque()).append(waiter)
        self._lend()

    def give_back(self, key: str) -> None:
        """Return the permit of a body of the principal."""
        self._return(key)
        self._lend()

    def forget(self, waiter: Waiter) -> None:
        """The waiter does not wait any more."""
        with self._lock:
            line = self._waiting.get(waiter.key)
            if line is not None and waiter in line:
                line.remove(waiter)
                if not line:
                    del self._waiting[waiter.key]

    def _lend(self) -> None:
        while (waiter := self._next()) is not None:
            if not waiter.begin():
                self._return(waiter.key)

    def _next(self) -> Waiter | None:
        """The waiter whose turn it is, with its permit."""
        with self._lock:
            key = next((key for key in self._waiting if self._held[key] < self._share), None)
            if key is None or not self._free:
                return None
            line = self._waiting.pop(key)
            waiter = line.popleft()
            if line:
                # At the end: the other principals have their turns before.
                self._waiting[key] = line
            self._held[key] += 1
            self._free -= 1
            return waiter

    def _return(self, key: str) -> None:
        with self._lock:
            self._free += 1
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]
