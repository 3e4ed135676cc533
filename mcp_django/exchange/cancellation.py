"""Stopping a request that is being answered, with the database queries that run for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from mcp_django.core.db.interrupts import Interruptible


@dataclass(slots=True, weakref_slot=True, eq=False)
class Cancellation:
    """Says whether a request is to stop. The transport sets it; the handler and the writer read it."""

    cancelled: bool = False
    #: Whether the request took too long. Its client then still waits for an answer.
    expired: bool = False
    #: The database connections that work for the request.
    queries: Interruptible = field(default_factory=Interruptible)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _callbacks: list[Callable[[], object]] = field(default_factory=list)

    def cancel(self) -> None:
        """The client has given the request up."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self.cancelled = True
        for callback in callbacks:
            callback()

    def expire(self) -> None:
        """The time for the request is over."""
        self.expired = True
        self.cancel()

    def begin_again(self) -> None:
        """Prepare another run of the handler."""
        self.queries = Interruptible()
        if self.cancelled:
            self.queries.interrupt()

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Call back when the request is cancelled, in the thread that cancels it; at once if it already is."""
        with self._lock:
            if not self.cancelled:
                self._callbacks.append(callback)
                return
        callback()
