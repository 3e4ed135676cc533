"""The bounded pool of threads in which handlers run under ASGI.

Each call runs in a copy of its caller's context, with database connections begun and ended as around a request.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass
from functools import partial
from itertools import chain
from threading import Lock
from typing import Any, TypeVar

from asgiref.sync import sync_to_async
from django.core.cache import close_caches
from django.core.signals import setting_changed
from django.db import close_old_connections, connections, reset_queries

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import Overloaded

logger = logging.getLogger("mcp_django")

T = TypeVar("T")


_ENDING = "The server is ending. Try again in a moment."
_PATIENCE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Job:
    """One call, and where its result goes."""

    principal_key: str
    call: Callable[[], Any]
    future: Future[Any]


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
        #: By principal: calls that were taken in, calls that run, and calls that wait for their principal's turn.
        self._taken: Counter[str] = Counter()
        self._running: Counter[str] = Counter()
        self._waiting: dict[str, deque[_Job]] = {}

    async def run(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
        """The function's result, from a worker. Raises Overloaded, and whatever the function raises.

        Without a principal the call is the server's own, and waits for nobody's turn.
        """
        if self._executor is None:
            return await sync_to_async(function, thread_sensitive=True)(*args)
        call = partial(copy_context().run, _call, function, args)
        job = _Job(principal_key, call, Future())
        with self._lock:
            self._take_in(principal_key)
            if principal_key and self._running[principal_key] >= self._share:
                self._waiting.setdefault(principal_key, deque()).append(job)
            else:
                self._submit(job)
        return await asyncio.wrap_future(job.future)

    def close(self) -> None:
        """Wait for what runs, give up what waits, and end the threads with their connections."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, {}
        for job in chain.from_iterable(waiting.values()):
            _give_up(job)
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

    def _submit(self, job: _Job) -> None:
        if self._executor is not None:
            self._running[job.principal_key] += 1
            submitted = self._executor.submit(self._work, job)
            submitted.add_done_callback(lambda done: _give_up(job) if done.cancelled() else None)

    def _work(self, job: _Job) -> None:
        """Run a job in a worker. Its place is free before its result is known: who has it may ask again at once."""
        error: BaseException | None = None
        result = None
        begun = job.future.set_running_or_notify_cancel()
        try:
            result = job.call() if begun else None
        except Exception as raised:  # noqa: BLE001 - raised again where it is awaited
            error = raised
        except BaseException as raised:
            # An event loop that is given a SystemExit ends, and with it every other request.
            logger.exception("A call tried to end the process")
            error = RuntimeError(f"{type(raised).__name__} in a worker")
        self._leave(job.principal_key)
        if error is not None:
            job.future.set_exception(error)
        elif begun:
            job.future.set_result(result)

    def _leave(self, principal_key: str) -> None:
        """A job is done: the next one of its principal follows."""
        with self._lock:
            self._count_down(self._running, principal_key)
            self._count_down(self._taken, principal_key)
            waiting = self._waiting.get(principal_key)
            if waiting:
                self._submit(waiting.popleft())
            elif waiting is not None:
                del self._waiting[principal_key]

    @staticmethod
    def _count_down(counter: Counter[str], key: str) -> None:
        counter[key] -= 1
        if not counter[key]:
            del counter[key]


def _give_up(job: _Job) -> None:
    """Answer a call that will never run: not by cancelling it, which would end whoever awaits it."""
    if job.future.set_running_or_notify_cancel():
        job.future.set_exception(Overloaded(_ENDING))


def _call(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    reset_queries()
    _close_stale_connections()
    try:
        return function(*args)
    finally:
        _close_stale_connections()
        close_caches()


def _close_stale_connections() -> None:
    """End connections as DATABASES says, or as CONN_MAX_AGE of ours does; those of a pool always go back to it."""
    age = get_conf().CONN_MAX_AGE
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block:
            continue
        if connection.settings_dict.get("OPTIONS", {}).get("pool"):
            connection.close()
        elif age is not None and connection.connection is not None:
            opened = connection.connection
            since = getattr(connection, "_mcp_opened", None)
            if since is None or since[0] is not opened:
                since = (opened, time.monotonic())
                connection._mcp_opened = since  # type: ignore[attr-defined]
            connection.close_at = since[1] + age
    close_old_connections()


_workers: Workers | None = None
_workers_lock = Lock()


def get_workers() -> Workers:
    """The process's pool, made at first use."""
    global _workers  # noqa: PLW0603
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
