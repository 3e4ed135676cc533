"""Stopping a request that is being answered, with the database queries that run for it.

A later request of a stored session finds the one that it cancels in ``RUNNING``, if this process answers it.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from threading import Lock
from weakref import WeakValueDictionary

from mcp_django.core.db.interrupts import Interruptible
from mcp_django.exceptions import MCPError
from mcp_django.protocol.errors import RequestTimedOut


@dataclass(slots=True, weakref_slot=True, eq=False)
class Cancellation:
    """Says whether a request is to stop. The transport sets it; the handler and the writer read it."""

    cancelled: bool = False
    #: Why the server has stopped the request. Its client then still waits for an answer. None: the client gave it up.
    why: MCPError | None = None
    #: The database connections that work for the request.
    queries: Interruptible = field(default_factory=Interruptible)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _callbacks: list[Callable[[], object]] = field(default_factory=list)

    @property
    def expired(self) -> bool:
        """Whether the request took too long."""
        return isinstance(self.why, RequestTimedOut)

    def cancel(self, why: MCPError | None = None) -> None:
        """The client has given the request up, or the server stops it and says ``why``. The first reason counts."""
        with self._lock:
            callbacks, self._callbacks = self._callbacks, []
            self.why = self.why if self.cancelled else why
            self.cancelled = True
        for callback in callbacks:
            callback()

    def expire(self) -> None:
        """The time for the request is over."""
        self.cancel(RequestTimedOut())

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


class Running:
    """``running_key``, or the key of a task → the cancellation of that request. Entries go with their requests.

    Workers add entries while the loop reads them, and a WeakValueDictionary alone is not safe for that.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._cancellations: WeakValueDictionary[str, Cancellation] = WeakValueDictionary()

    def __setitem__(self, key: str, cancellation: Cancellation) -> None:
        with self._lock:
            self._cancellations[key] = cancellation

    def __iter__(self) -> Iterator[str]:
        with self._lock:
            return iter(list(self._cancellations))

    def __len__(self) -> int:
        with self._lock:
            return len(self._cancellations)

    def get(self, key: str) -> Cancellation | None:
        with self._lock:
            return self._cancellations.get(key)


RUNNING = Running()


def running_key(session_key: str, request_id: int | str) -> str:
    """Names a request of a session, in every process. ``1`` and ``"1"`` are different requests."""
    return hashlib.sha256(f"{session_key}/{request_id!r}".encode("utf-8", "surrogatepass")).hexdigest()
