"""The recorder: a call appends to its queue, and one thread of the process writes the lines of the audit trail.

The thread starts with the first line. Under gevent it is a greenlet, since gevent may have patched the database's
driver. In a test run of Django there is no thread, and each line is written where it is made: a thread of ours would
hold a connection to a database that the run is about to drop.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

from django.core import mail
from django.db import connections

from mcp_django.audit import table
from mcp_django.audit.anonymous import AnonymousCounts
from mcp_django.audit.lines import Line, line
from mcp_django.audit.logs import publish
from mcp_django.core.compat.processes import at_exit_of_children, before_threads_end
from mcp_django.core.db.interrupts import is_on_loop
from mcp_django.models import Call

logger = logging.getLogger("mcp_django")

#: What is to become a line: a function and its arguments. The writing thread calls it, not that of the request.
Pending = tuple[Callable[..., Line], *tuple[Any, ...]]

#: Lines that may wait to be written.
MAX_WAITING = 10_000
#: What comes within this time is written together. A process that is killed loses no more than that.
_WINDOW_SECONDS = 0.5
#: Lines that wait longer are written by the thread of the next call: the writing thread is gone, or stuck.
_OVERDUE_SECONDS = 5.0
#: After this time without a line, the thread closes its connections.
_IDLE_SECONDS = 1.0
#: Pauses after an outage of the database.
_FIRST_PAUSE, _LAST_PAUSE = 1.0, 30.0
#: How often in a row the thread gives way to other users of a SQLite database before it waits for its turn.
_MAX_GIVEN_WAY = 20


class Recorder:
    """The one writer of this process."""

    def __init__(self) -> None:
        self.anonymous = AnonymousCounts()
        self._reset()

    def _reset(self) -> None:
        """Begin anew: at the start, and in the child of a fork. The parent writes its own waiting lines."""
        self._queue: deque[Pending] = deque()
        #: Lines that the database could not take yet.
        self._kept: list[Line] = []
        self._lost = Lost()
        self._news = threading.Event()
        #: Set when the process is about to end: nothing waits for more to come.
        self._ending = threading.Event()
        self._writing = threading.Lock()
        self._starting = threading.Lock()
        self._is_running = False
        #: Whether this is a run of tests, whose database is gone when the process ends.
        self.is_tested = False
        #: When the oldest line in the queue came, and when the database may be tried again after an outage.
        self._since = self._retry_at = 0.0
        self._pause = _FIRST_PAUSE
        self._given_way = 0
        self.anonymous.clear()

    def put(self, pending: Pending) -> None:
        """Write a line soon. Costs an append; never raises, and waits for the database only in the worst case."""
        if len(self._queue) < MAX_WAITING:
            self._queue.append(pending)
        else:
            self._lost.add(1)
        if not self._news.is_set():
            self._wake()
        elif time.monotonic() - self._since > _OVERDUE_SECONDS or self._ending.is_set():
            self._write_here()

    def count(self, *named: str, **about: Any) -> None:
        """Count a request of a caller who is not let in. See ``AnonymousCounts.add``."""
        self.anonymous.add(*named, **about)
        if not self._news.is_set():
            self._wake()

    def flush(self) -> bool:
        """Write in this thread what waits to be written. False if the database could not take all of it."""
        return self._flush(gives_way=False)

    def end(self) -> None:
        """The process is about to end: write at once from now on. It may be called by a signal handler."""
        self._ending.set()

    @property
    def has_waiting(self) -> bool:
        """Whether a line is not in the table yet. A line that is being written has left the queue already."""
        return self._writing.locked() or self._is_waiting

    @property
    def _is_waiting(self) -> bool:
        return bool(self._queue or self._kept or self._lost or self.anonymous)

    # In the thread of a call.

    def _wake(self) -> None:
        self._since = time.monotonic()
        self._news.set()
        self.is_tested = is_test_run()
        if self.is_tested or self._ending.is_set():
            self._since = 0.0
            self._write_here()
        elif not self._is_running:
            self._start()

    def _write_here(self) -> None:
        # On an event loop Django refuses statements, and in a transaction the lines would be rolled back with it.
        if is_on_loop() or time.monotonic() < self._retry_at:
            return
        if connections[table.database()].in_atomic_block and not is_test_run():
            return
        if not self._writing.acquire(blocking=is_test_run()):
            return
        self._since = time.monotonic()
        written: list[Line] = []
        try:
            written = self._write()
        except Exception:
            logger.exception("The audit trail could not be written")
        finally:
            self._writing.release()
        # After the lock is released: a receiver may itself cause a line.
        publish(written)

    def _start(self) -> None:
        with self._starting:
            if self._is_running:
                return
            self._is_running = True
        try:
            threading.Thread(target=self._run, name="mcp_django audit", daemon=True).start()
        except RuntimeError:
            # The process is ending, and Python starts no more threads.
            self._is_running = False
            self._write_here()

    # In the writing thread.

    def _run(self) -> None:
        while True:
            try:
                if not self._news.wait(_IDLE_SECONDS):
                    connections.close_all()
                    self._news.wait()
                self._ending.wait(_WINDOW_SECONDS)
                time.sleep(max(0.0, self._retry_at - time.monotonic()))
                self._flush(gives_way=self._given_way < _MAX_GIVEN_WAY and not self._ending.is_set())
            except BaseException:
                # Whatever a receiver or a handler of logs raises, the thread goes on.
                logger.exception("The audit trail could not be written")

    def _flush(self, *, gives_way: bool) -> bool:
        with self._writing, table.giving_way() if gives_way else nullcontext():
            written = self._write(gives_way=gives_way and not table.is_shared())
        publish(written)
        return not self._kept

    def _write(self, *, gives_way: bool = False) -> list[Line]:
        """Write what waits, and return what was written. The caller holds the lock.

        ``gives_way``: a database that is used by others is no outage, and is tried again with the next lines.
        """
        # Cleared first: what is added from here on wakes the thread again.
        self._news.clear()
        lines = [*self._kept, *self._take(), *self._lost.take()]
        self._kept = []
        try:
            written = table.insert(lines)
        except table.Away as away:
            written, self._kept = list(away.written), list(away.left[:MAX_WAITING])
            self._wait(gives_way)
        self._lost.add(len(lines) - len(written) - len(self._kept))
        if not self._kept:
            try:
                written += self.anonymous.write()
                self._pause, self._retry_at, self._given_way = _FIRST_PAUSE, 0.0, 0
            except table.Away:
                self._wait(gives_way)
        if self._is_waiting:
            self._since = time.monotonic()
            self._news.set()
        return written

    def _take(self) -> list[Line]:
        """The lines in the queue, made from what the calls left there."""
        made: list[Line] = []
        # Only as many as there are now: calls may add lines as fast as this loop takes them.
        for _ in range(len(self._queue)):
            describe, *about = self._queue.popleft()
            try:
                made.append(describe(*about))
            except Exception:
                logger.exception("A line of the audit trail could not be made")
                self._lost.add(1)
        return made

    def _wait(self, gives_way: bool) -> None:
        """Try the database again later."""
        if gives_way:
            self._given_way += 1
            return
        if self._pause == _FIRST_PAUSE:
            logger.warning("The audit trail cannot be written; trying again", exc_info=True)
        self._retry_at = time.monotonic() + self._pause
        self._pause = min(self._pause * 2, _LAST_PAUSE)


class Lost:
    """Counts the lines that could not be written, and becomes a line itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._count = 0
        self._first = self._last = 0.0

    def __bool__(self) -> bool:
        return self._count > 0

    def add(self, count: int) -> None:
        if count <= 0:
            return
        with self._lock:
            self._last = time.time()
            if not self._count:
                self._first = self._last
            self._count += count

    def take(self) -> list[Line]:
        """The line that says how many were lost, and over which time. Empty if none was."""
        with self._lock:
            count, self._count = self._count, 0
        if not count:
            return []
        ms = (self._last - self._first) * 1_000
        return [line(self._first, kind=Call.Kind.LOST, outcome=Call.Outcome.FAILED, count=count, ms=ms)]


def is_test_run() -> bool:
    """Whether Django's test environment is set up, as its test runner and pytest-django do."""
    return hasattr(mail, "outbox")


recorder = Recorder()


def _flush_at_exit() -> None:
    if recorder.has_waiting and not recorder.is_tested:
        try:
            recorder.flush()
        except Exception:
            logger.exception("The last lines of the audit trail could not be written")


def _begin_in_child() -> None:
    recorder._reset()


os.register_at_fork(after_in_child=_begin_in_child)
at_exit_of_children(recorder, _flush_at_exit)
atexit.register(_flush_at_exit)
before_threads_end(_flush_at_exit)
