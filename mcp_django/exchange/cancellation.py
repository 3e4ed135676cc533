"""Stopping a request that is being answered, with the database queries that run for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mcp_django.db.interrupts import Interruptible


class Cancellation:
    """Says whether a request is to stop. The transport sets it; the handler and the writer read it."""

    __slots__ = ("__weakref__", "_callbacks", "_lock", "cancelled", "expired", "queries")

    def __init__(self) -> None:
        self.cancelled = False
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], object]] = []
        #: The database connections that work for the request.
        self.queries = Interruptible()
        #: Whether the request took too long. Its client then still waits for an answer.
        self.expired = False

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
