"""The bounded pool of threads in which handlers run under ASGI.

Each call runs in a copy of its caller's context, with database connections begun and ended as around a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from itertools import chain
from threading import Lock
from typing import Any, TypeVar

from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.core.signals import setting_changed
from django.db import connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.compat.connections import close_at, close_caches
from mcp_django.conf import get_conf
from mcp_django.db.outages import forget_failure
from mcp_django.protocol.errors import Overloaded

logger = logging.getLogger("mcp_django")

T = TypeVar("T")
_ENDING = "The server is ending. Try again in a moment."
_PATIENCE_SECONDS = 10.0


class _Job:
    """One call, and where its result goes."""

    __slots__ = ("_args", "_context", "_function", "_loop", "future", "principal_key")

    def __init__(self, principal_key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.principal_key = principal_key
        self._function = function
        self._args = args
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self._loop.create_future()

    def run(self) -> tuple[Any, Exception | None]:
        """The result, or the error to raise where it is awaited. A call whose caller has gone already is left out."""
        try:
            return (None if self.future.cancelled() else self._context.run(_call, self._function, self._args)), None
        except StopIteration:
            return None, RuntimeError("StopIteration in a worker")  # No future can hold it.
        except Exception as raised:  # noqa: BLE001 - raised again where it is awaited
            return None, raised
        except BaseException as raised:
            # An event loop that is given a SystemExit ends, and with it every other request.
            logger.exception("A call tried to end the process")
            return None, RuntimeError(f"{type(raised).__name__} in a worker")

    def tell(self, result: Any, error: Exception | None) -> None:
        """Give the result to whoever awaits it; from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is over.
            self._loop.call_soon_threadsafe(self._settle, result, error)

    def _settle(self, result: Any, error: Exception | None) -> None:
        if self.future.done():
            return
        if error is None:
            self.future.set_result(result)
        else:
            self.future.set_exception(error)


class Workers:
    """Threads of one process, with back-pressure: what cannot wait is refused, never queued without bound.

    The calls of one principal take half of the threads at most, so that others always find one.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._share = max(1, threads // 2)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="mcp_django") if threads else None
        self._lock = Lock()
        self._closed = False
        #: By principal: calls that were taken in, calls that may run, and calls that wait for their principal's turn.
        self._taken: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Job]] = {}
        #: What the next thread takes, and how many threads are at work.
        self._ready: deque[_Job] = deque()
        self._active = 0

    async def run(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
        """The function's result, from a worker. Raises Overloaded, and whatever the function raises.

        Without a principal the call is the server's own, and waits for nobody's turn.
        """
        if self._executor is None:
            return await sync_to_async(function, thread_sensitive=True)(*args)
        return await self.submit(function, *args, principal_key=principal_key)

    def submit(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> asyncio.Future[T]:
        """The same as a future, for whoever has to look after other things meanwhile; raises Overloaded at once."""
        if self._executor is None:
            return asyncio.ensure_future(sync_to_async(function, thread_sensitive=True)(*args))
        job = _Job(principal_key, function, args)
        with self._lock:
            self._take_in(principal_key)
            if principal_key and self._running[principal_key] >= self._share:
                self._waiting.setdefault(principal_key, deque()).append(job)
            else:
                self._make_ready(job)
        return job.future

    def close(self) -> None:
        """Wait for what runs, give up what waits, and end the threads with their connections."""
        with self._lock:
            self._closed = True
            left = [*self._ready, *chain.from_iterable(self._waiting.values())]
            self._ready.clear()
            self._waiting.clear()
        for job in left:
            # Not by cancelling it, which would end whoever awaits it.
            job.tell(None, Overloaded(_ENDING))
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)

    def _take_in(self, principal_key: str) -> None:
        conf = get_conf()
        if self._closed:
            raise Overloaded(_ENDING)
        if self._taken.total() >= conf.QUEUE + self._threads:
            raise Overloaded("The server is busy: QUEUE requests are waiting. Try again in a moment.")
        if principal_key and self._taken[principal_key] >= conf.QUEUE_PER_PRINCIPAL:
            raise Overloaded(
                "You have QUEUE_PER_PRINCIPAL requests waiting. Wait for their answers before you send more."
            )
        self._taken[principal_key] += 1

    def _make_ready(self, job: _Job) -> None:
        self._running[job.principal_key] += 1
        self._ready.append(job)
        if self._active < self._threads and self._executor is not None:
            self._active += 1
            self._executor.submit(self._work)

    def _work(self) -> None:
        """Run what is ready, in a worker, until nothing is."""
        job = self._next(None)
        while job is not None:
            result, error = job.run()
            # Its place is free before its result is known: who has it may ask again at once.
            following = self._next(job)
            job.tell(result, error)
            job = following
            # Nothing of a call is kept by the next one.
            del result, error, following

    def _next(self, done: _Job | None) -> _Job | None:
        """What this worker does now, after ``done``; None: it rests."""
        with self._lock:
            if done is not None:
                self._leave(done.principal_key)
            if self._ready:
                return self._ready.popleft()
            self._active -= 1
            return None

    def _leave(self, principal_key: str) -> None:
        """A job is done: the next one of its principal may run."""
        self._count_down(self._running, principal_key)
        self._count_down(self._taken, principal_key)
        waiting = self._waiting.get(principal_key)
        if waiting:
            self._make_ready(waiting.popleft())
        elif waiting is not None:
            del self._waiting[principal_key]

    @staticmethod
    def _count_down(counter: Counter[str], key: str) -> None:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


def _call(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    reset_queries()
    for connection in connections.all(initialized_only=True):
        _close_if_stale(connection)
        forget_failure(connection)
    try:
        return function(*args)
    finally:
        for connection in connections.all(initialized_only=True):
            _close_if_stale(connection)
        close_caches()


def _close_if_stale(connection: BaseDatabaseWrapper) -> None:
    """End a connection as DATABASES says, or as CONN_MAX_AGE of ours does; one of a pool always goes back to it."""
    if connection.in_atomic_block:
        return
    age = get_conf().CONN_MAX_AGE
    if connection.settings_dict.get("OPTIONS", {}).get("pool"):
        connection.close()
    elif age is not None and connection.connection is not None:
        opened = connection.connection
        since = getattr(connection, "_mcp_opened", None)
        if since is None or since[0] is not opened:
            since = (opened, time.monotonic())
            connection._mcp_opened = since  # type: ignore[attr-defined]
        close_at(connection, since[1] + age)
    connection.close_if_unusable_or_obsolete()


_workers: Workers | None = None
_workers_lock = Lock()


#: What takes the place of the process's pool in this context.
_in_place: ContextVar[Workers | None] = ContextVar("mcp_django_workers", default=None)


@contextlib.contextmanager
def working_with(workers: Workers) -> Iterator[None]:
    """Let ``workers`` run the calls that are made within, and the calls of the tasks that are started within."""
    token = _in_place.set(workers)
    try:
        yield
    finally:
        _in_place.reset(token)


def get_workers() -> Workers:
    """The process's pool, made at first use, or what takes its place here."""
    global _workers  # noqa: PLW0603
    in_place = _in_place.get()
    if in_place is not None:
        return in_place
    with _workers_lock:
        if _workers is None:
            _workers = Workers(get_conf().THREADS)
        return _workers


async def run_patiently(function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
    """As ``Workers.run``, for what belongs to a request that has begun: where the workers are busy it waits for them.

    Raises Overloaded after some seconds.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + _PATIENCE_SECONDS
    while True:
        try:
            return await get_workers().run(function, *args, principal_key=principal_key)
        except Overloaded:
            if loop.time() >= end:
                raise
            await asyncio.sleep(0.05)


def close_workers() -> None:
    """End the process's pool; the next use makes a new one."""
    global _workers
    with _workers_lock:
        ending, _workers = _workers, None
    if ending is not None:
        ending.close()


def _after_fork() -> None:
    """The child has the parent's pool without its threads."""
    global _workers, _workers_lock
    _workers, _workers_lock = None, Lock()


os.register_at_fork(after_in_child=_after_fork)


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "MCP":
        close_workers()


setting_changed.connect(_forget)


def run_function(function: Callable[..., Any], *args: Any, **values: Any) -> Any:
    """What the function returns, which may be asynchronous."""
    if not inspect.iscoroutinefunction(function):
        return function(*args, **values)

    async def wait() -> Any:
        # Without it, every async function of the process would share one thread for its ORM calls.
        async with ThreadSensitiveContext():
            return await function(*args, **values)

    return async_to_sync(wait)()
