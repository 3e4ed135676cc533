"""Stops the database query of a request that its client has cancelled.

A thread cannot be stopped, and a query that nobody waits for would hold its worker and its locks to the end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Event, Lock
from typing import Any

from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.core.compat.connections import add_execute_wrapper, connect_again, remove_execute_wrapper
from mcp_django.core.db.outages import forget_failure

logger = logging.getLogger("mcp_django")


#: An interrupt misses a query that begins just after it, so it is sent again after these seconds.
_PAUSES = (0.0, 0.05, 0.2, 1.0)

_answering: ContextVar[Interruptible | None] = ContextVar("mcp_django_answering", default=None)


def was_interrupted() -> bool:
    """Whether the request that this thread answers was cancelled. Errors in it are then expected, and not logged."""
    answering = _answering.get()
    return answering is not None and answering.interrupted


@dataclass(slots=True, eq=False)
class Interruptible:
    """The database connections of the thread that answers a request, while it answers it."""

    interrupted: bool = False
    #: The statements that the thread has sent since the handler began.
    count: int = 0
    _lock: Lock = field(default_factory=Lock)
    _is_left: bool = False
    #: Set when the handler has ended. A call of ``interrupt`` waits for it.
    _waiting: Event | None = None
    _connections: list[BaseDatabaseWrapper] = field(default_factory=list)

    @contextmanager
    def answering(self) -> Iterator[None]:
        """Around the handler, in its thread. After the block no interrupt can hit the query of another request."""
        self.begin()
        token = _answering.set(self)
        try:
            yield
        finally:
            _answering.reset(token)
            self.end()

    def begin(self) -> None:
        """From now on this thread works for the request, and no other thread does."""
        # Django lets nobody use a connection on an event loop, and would make new ones for the context.
        mine = [] if is_on_loop() else list(connections.all())
        with self._lock:
            self._connections, self._is_left = mine, False
            if self._waiting is not None and self._waiting.is_set():
                # It belongs to an earlier part of the request. If it is not set, a call of ``interrupt`` waits for it.
                self._waiting = None
        for connection in mine:
            forget_failure(connection)
            add_execute_wrapper(connection, self._execute)

    def end(self) -> None:
        """From now on the thread works for another request. Call it in the thread of ``begin``."""
        for connection in self._connections:
            remove_execute_wrapper(connection, self._execute)
        with self._lock:
            self._connections, self._is_left = [], True
            waiting = self._waiting
        if waiting is not None:
            waiting.set()

    def interrupt(self) -> None:
        """Stop the queries of the thread. It may talk to the database, so do not call it on an event loop."""
        self.interrupted = True
        with self._lock:
            left = self._waiting = self._waiting or Event()
            if self._is_left:
                left.set()
        for pause in _PAUSES:
            if left.wait(pause):
                return
            with self._lock:
                if not self._connections:
                    return  # The handler has not begun. Its first query will be refused.
                for connection in self._connections:
                    _stop(connection)

    def _execute(self, execute: Callable[..., Any], *args: Any) -> Any:
        """Count a query, and refuse every further one of a cancelled request."""
        if self.interrupted:
            raise OperationalError("The request was cancelled.")
        self.count += 1
        return execute(*args)


def is_on_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _stop(connection: BaseDatabaseWrapper) -> None:
    stop = _STOPS.get(connection.vendor)
    if stop is not None and connection.connection is not None:
        try:
            stop(connection)
        except Exception:
            logger.warning("A query of a cancelled request could not be stopped", exc_info=True)


def _stop_sqlite(connection: BaseDatabaseWrapper) -> None:
    connection.connection.interrupt()


def _stop_postgresql(connection: BaseDatabaseWrapper) -> None:
    connection.connection.cancel_safe(timeout=2)


def _stop_mysql(connection: BaseDatabaseWrapper) -> None:
    """MariaDB and MySQL take the command on a separate connection."""
    thread_id = int(connection.connection.thread_id())
    with contextlib.closing(connect_again(connection)) as other:
        other.cursor().execute(f"KILL QUERY {thread_id}")


_STOPS: Mapping[str, Callable[[Any], None]] = {
    "sqlite": _stop_sqlite,
    "postgresql": _stop_postgresql,
    "mysql": _stop_mysql,
}
