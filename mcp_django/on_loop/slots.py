"""The threads in which asynchronous functions reach the database: THREADS in all, each with its connections."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from threading import Lock
from typing import Any

from django.conf import settings
from django.db import connections, reset_queries

from mcp_django.compat.connections import close_caches
from mcp_django.db.interrupts import Interruptible

_HAS_ENDED = "The function has ended, and what it left behind cannot use the database any more."


class Slots:
    """The threads, each lent to one function at a time.

    The functions of one principal hold at most half of them. Principals whose functions wait have their turns.
    """

    def __init__(self, number: int) -> None:
        self._number = number
        self._share = max(1, number // 2)
        self._lock = Lock()
        self._made: list[ThreadPoolExecutor] = []
        self._free: list[ThreadPoolExecutor] = []
        self._held: Counter[str] = Counter()
        #: By principal, in the order of their turns.
        self._waiting: dict[str, deque[SlotExecutor]] = {}

    def take(self, borrower: SlotExecutor) -> None:
        """Give a thread to the borrower, now or when there is one. It may be called in any thread."""
        with self._lock:
            self._waiting.setdefault(borrower.principal_key, deque()).append(borrower)
        self._lend()

    def give_back(self, thread: ThreadPoolExecutor, principal_key: str) -> None:
        with self._lock:
            if thread in self._made:
                self._free.append(thread)
            self._held[principal_key] -= 1
            if not self._held[principal_key]:
                del self._held[principal_key]
        self._lend()

    def forget(self, borrower: SlotExecutor) -> None:
        """The borrower does not wait any more."""
        with self._lock:
            line = self._waiting.get(borrower.principal_key)
            if line is not None and borrower in line:
                line.remove(borrower)
                if not line:
                    del self._waiting[borrower.principal_key]

    def close(self) -> None:
        """End the threads. Those that are at work come to their end."""
        with self._lock:
            made, self._made, self._free = self._made, [], []
        for thread in made:
            thread.shutdown(wait=False)

    def _lend(self) -> None:
        while (found := self._next()) is not None:
            borrower, thread = found
            borrower.begin(thread)

    def _next(self) -> tuple[SlotExecutor, ThreadPoolExecutor] | None:
        with self._lock:
            key = next((key for key in self._waiting if self._held[key] < self._share), None)
            if key is None or (not self._free and len(self._made) >= self._number):
                return None
            line = self._waiting.pop(key)
            borrower = line.popleft()
            if line:
                # At the end: the other principals have their turns before.
                self._waiting[key] = line
            self._held[key] += 1
            if not self._free:
                thread = ThreadPoolExecutor(1, thread_name_prefix="mcp_django_async")
                self._made.append(thread)
                return borrower, thread
            return borrower, self._free.pop()


class SlotExecutor(Executor):
    """Runs the thread-sensitive calls of one function: in a slot that it takes at the first call, and holds to the end.

    A call waits while there is no slot. Its cancellation, like that of a request, stops the statements of its thread.
    """

    def __init__(self, slots: Slots, principal_key: str, queries: Interruptible) -> None:
        self.principal_key = principal_key
        self._slots = slots
        self._queries = queries
        self._lock = Lock()
        self._thread: ThreadPoolExecutor | None = None
        #: Calls that wait for a slot.
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._asked = self._ended = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **values: Any) -> Future[Any]:
        """Raises RuntimeError when the function has ended."""
        with self._lock:
            if self._ended:
                raise RuntimeError(_HAS_ENDED)
            if self._thread is not None:
                return self._thread.submit(function, *args, **values)
            future: Future[Any] = Future()
            self._waiting.append((future, lambda: function(*args, **values)))
            asks, self._asked = not self._asked, True
        if asks:
            self._slots.take(self)
        return future

    def begin(self, thread: ThreadPoolExecutor) -> None:
        """The slot is there."""
        with self._lock:
            if not self._ended:
                self._thread = thread
                thread.submit(_prepare, self._queries)
                for waiting in self._waiting:
                    thread.submit(_run, *waiting)
                self._waiting.clear()
                return
        self._slots.give_back(thread, self.principal_key)

    def end(self, then: Callable[[], None]) -> None:
        """The function has ended: close its connections, give the slot back, and call ``then``, in any thread."""
        with self._lock:
            self._ended = True
            thread, waiting, self._waiting = self._thread, self._waiting, []
        for future, _ in waiting:
            future.cancel()
        if thread is None:
            self._slots.forget(self)
            then()
            return
        try:
            # Behind a statement that still runs.
            thread.submit(self._leave, thread, then)
        except RuntimeError:  # The pool has ended.
            then()

    @property
    def is_unused(self) -> bool:
        return not self._asked

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing: the slots end with the pool of workers."""

    def _leave(self, thread: ThreadPoolExecutor, then: Callable[[], None]) -> None:
        try:
            self._queries.end()
            connections.close_all()
            close_caches()
        finally:
            self._slots.give_back(thread, self.principal_key)
            then()


def _prepare(queries: Interruptible) -> None:
    if settings.DEBUG:
        # Otherwise Django logs no queries.
        reset_queries()
    queries.begin()


def _run(future: Future[Any], call: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
