"""Requests of stored sessions that are being answered in this process, so that a later request can cancel them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Cancellation


class Running:
    """``running_key``, or the key of a task → the cancellation of that request; gone with the request.

    Workers add to it while the loop reads it, and a WeakValueDictionary alone does not bear that.
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
    """Names a request of a session, to other processes too. ``1`` and ``"1"`` are different requests."""
    return hashlib.sha256(f"{session_key}/{request_id!r}".encode("utf-8", "surrogatepass")).hexdigest()
