"""The thread in which one body reaches the database. It ends with the body, and its connections end with it.

``Permits`` decides which bodies may have such a thread: a limited number at a time.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any, Protocol

from django.conf import settings
from django.db import connections, reset_queries

from mcp_django.core.compat.connections import close_caches
from mcp_django.core.db.interrupts import Interruptible


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
            queue = self._waiting.get(waiter.key)
            if queue is not None and waiter in queue:
                queue.remove(waiter)
                if not queue:
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
            queue = self._waiting.pop(key)
            waiter = queue.popleft()
            if queue:
                # At the end: the other principals have their turns before.
                self._waiting[key] = queue
            self._held[key] += 1
            self._free -= 1
            return waiter

    def _return(self, key: str) -> None:
        with self._lock:
            self._free += 1
            self._held[key] -= 1
            if not self._held[key]:
                del self._held[key]


logger = logging.getLogger("mcp_django")

_HAS_ENDED = "The function has ended, and what it left behind cannot use the database any more."
_NO_THREAD = "No thread could be started in which the function reaches the database."


class BodyExecutor(Executor):
    """Runs the thread-sensitive calls of one body in one new thread, from the first call to the end of the body.

    The first call waits for one of the ``permits``, which the body then holds to its end. Its cancellation, like that
    of a request, stops the statements of the thread.
    """

    def __init__(self, permits: Permits, key: str, queries: Interruptible) -> None:
        self.key = key
        self._permits = permits
        self._queries = queries
        self._lock = Lock()
        self._thread: ThreadPoolExecutor | None = None
        #: Calls that wait for the permit.
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []
        self._asked = self._is_prepared = self._ended = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **values: Any) -> Future[Any]:
        """Raises RuntimeError when the body has ended."""
        call = partial(function, *args, **values)
        with self._lock:
            if self._ended:
                raise RuntimeError(_HAS_ENDED)
            if self._thread is not None:
                return self._thread.submit(self._call, call)
            future: Future[Any] = Future()
            self._waiting.append((future, call))
            asks, self._asked = not self._asked, True
        if asks:
            self._permits.take(self)
        return future

    def begin(self) -> bool:
        """The permit is there: start the thread. False where no call waits any more, or no thread can be started."""
        with self._lock:
            waiting = [one for one in self._waiting if not one[0].cancelled()]
            self._waiting, self._asked = [], False
            if self._ended or not waiting:
                return False
            thread = ThreadPoolExecutor(1, thread_name_prefix="mcp_django_async")
            try:
                for future, call in waiting:
                    thread.submit(_settle, future, partial(self._call, call))
            except RuntimeError:
                pass
            else:
                self._thread = thread
                return True
        for future, _ in waiting:
            if future.set_running_or_notify_cancel():
                future.set_exception(RuntimeError(_NO_THREAD))
        return False

    def end(self, then: Callable[[], None]) -> None:
        """The body has ended: close its connections, end the thread, and call ``then``, in any thread."""
        with self._lock:
            self._ended = True
            thread, self._thread = self._thread, None
            waiting, self._waiting = self._waiting, []
        for future, _ in waiting:
            future.cancel()
        if thread is None:
            self._permits.forget(self)
            then()
            return
        try:
            # Behind a statement that still runs.
            thread.submit(self._leave, then)
        except RuntimeError:  # Python is ending, and with it the thread.
            self._permits.give_back(self.key)
            then()
        thread.shutdown(wait=False)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing: the thread ends with the body."""

    # In the thread.

    def _call(self, call: Callable[[], Any]) -> Any:
        if not self._is_prepared:
            if settings.DEBUG:
                # Otherwise Django logs no queries.
                reset_queries()
            self._queries.begin()
            self._is_prepared = True
        return call()

    def _leave(self, then: Callable[[], None]) -> None:
        try:
            if self._is_prepared:
                self._queries.end()
            for connection in connections.all(initialized_only=True):
                try:
                    connection.close()
                except Exception:
                    logger.exception("A connection of an asynchronous function could not be closed")
            close_caches()
        except Exception:
            logger.exception("The thread of an asynchronous function could not be cleared")
        finally:
            self._permits.give_back(self.key)
            then()


def _settle(future: Future[Any], call: Callable[[], Any]) -> None:
    """Make a call that has waited, unless nobody awaits it any more."""
    try:
        if future.set_running_or_notify_cancel():
            future.set_result(call())
    except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
        future.set_exception(error)
    finally:
        # Otherwise the error, its frames and the future would refer to each other.
        del future, call
