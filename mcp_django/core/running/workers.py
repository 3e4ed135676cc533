"""The bounded pool of threads in which handlers run under ASGI.

Each call runs in a copy of its caller's context. Database connections are checked before and after it, as Django does
around a request.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar, copy_context
from functools import partial
from itertools import chain
from threading import Event, Lock, Thread, local
from typing import Any, TypeVar
from weakref import WeakSet

from asgiref.sync import ThreadSensitiveContext, async_to_sync, sync_to_async
from django.conf import settings
from django.core.signals import setting_changed
from django.db import connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.conf import get_conf
from mcp_django.core.compat.connections import close_at, close_caches
from mcp_django.core.compat.processes import before_threads_end
from mcp_django.core.db.outages import forget_failure
from mcp_django.core.running.bodies import Bodies, Outcome, Then
from mcp_django.core.running.guard import call_soon, is_here, is_of_signal
from mcp_django.core.running.suspension import Suspended
from mcp_django.protocol.errors import Overloaded

logger = logging.getLogger("mcp_django")

T = TypeVar("T")
_ENDING = "The server is shutting down. Try again in a moment."
_NO_THREAD = "The server can start no thread for the request. Try again in a moment."
_PATIENCE_SECONDS = 10.0
#: How long the end of the pool, or of the process, waits for what was cancelled.
_CANCELLED_SECONDS = 5.0
#: How often the end of the pool looks whether calls have come to their end, and their loops still run.
_LOOK_SECONDS = 0.02

#: The key of a caller who is not known begins with this, and the caller's address follows. All addresses together get a
#: quarter of what there is, so that credentials which nobody has seen hold up nobody.
ADDRESS = "address:"
ADDRESSES_PART = 4


class _Job:
    """One call, and the future for its result."""

    __slots__ = (
        "_args",
        "_context",
        "_function",
        "_loop",
        "future",
        "is_begun",
        "principal_key",
        "suspended",
    )

    def __init__(self, principal_key: str, function: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.principal_key = principal_key
        self._function = function
        self._args = args
        self._context = copy_context()
        self._loop = asyncio.get_running_loop()
        _remember(self._loop)
        self.future: asyncio.Future[Any] = self._loop.create_future()
        #: Whether a body has run for it: what that did is written down, even if nobody awaits the call any more.
        self.is_begun = False
        #: Set while the body of an asynchronous function runs on the loop.
        self.suspended: Suspended | None = None

    def run(self, call: Callable[[Callable[..., Any], tuple[Any, ...]], Any]) -> tuple[Any, Exception | None]:
        """The result and the error, one of which is None. A call that nobody awaits any more is not made.

        ``call`` calls a function with its arguments.
        """
        try:
            if self.future.cancelled() and not self.is_begun:
                return None, None
            return self._context.run(call, self._function, self._args), None
        except StopIteration:
            return None, RuntimeError("StopIteration in a worker")  # A future cannot hold a StopIteration.
        except Exception as raised:  # noqa: BLE001 - raised again where it is awaited
            return None, raised
        except Suspended as suspended:
            # The frames would hold what the run has left behind.
            suspended.__traceback__ = suspended.__context__ = None
            self.suspended = suspended
            return None, None
        except BaseException as raised:
            if is_of_signal(raised):
                raise
            # A SystemExit would end the event loop, and with it every other request.
            logger.exception("A call tried to end the process")
            return None, RuntimeError(f"{type(raised).__name__} in a worker")

    def start_body(self, bodies: Bodies, then: Then) -> None:
        """Run the body of the function that suspended the call."""
        suspended = self.suspended
        if suspended is not None:
            key = suspended.principal_key or self.principal_key
            bodies.start(suspended, key, self._loop, self._context, then)

    def resume(self, outcome: Outcome) -> None:
        """Let the next run take the call up."""
        suspended, self.suspended = self.suspended, None
        if suspended is not None:
            self._function, self._args = suspended.resume, (outcome,)
            self.is_begun = True

    def comes_back(self, *, if_cancelled: bool) -> bool:
        """Whether the call will end: if it has a body, that ends only if another thread runs its loop.

        ``if_cancelled``: whether a body that was cancelled counts too. It may swallow the cancellation.
        """
        suspended = self.suspended
        if suspended is None:
            return True
        waits = if_cancelled or not suspended.cancellation.cancelled
        return waits and self._loop.is_running() and not is_here(self._loop)

    def may_end_here(self, outcome: Outcome) -> bool:
        """Whether this thread, being that of the loop, may finish the call: the outcome needs no worker."""
        return outcome.needs_no_worker and is_here(self._loop)

    def deliver(self, result: Any, error: Exception | None) -> None:
        """Set the result of the future. It may be called in any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            call_soon(self._loop, settle, self.future, result, error)


def settle(future: asyncio.Future[Any], result: Any, error: Exception | None) -> None:
    """Set the result of a call, or its error, unless nobody awaits it any more. On the loop."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class Tally:
    """How many there are of each caller, and of all addresses together."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self.total = 0
        self.of_addresses = 0

    def __getitem__(self, key: str) -> int:
        return self._of[key]

    def add(self, key: str, number: int) -> None:
        """Count ``number`` more, or fewer, of a caller."""
        self._of[key] += number
        if not self._of[key]:
            del self._of[key]
        self.total += number
        if key.startswith(ADDRESS):
            self.of_addresses += number


class Workers:
    """The threads of one process, with back-pressure: the queue is bounded, and calls beyond it are refused.

    The calls of one principal use at most half of the threads, so that others always find one, and a third while calls
    of other principals run: threads of Python share one interpreter. Those of callers who are not known share a quarter
    of the threads and of the queue, of which one address uses at most half.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._share_alone = max(1, threads // 2)
        self._share_beside = max(1, threads // 3)
        self._addresses_share = max(1, threads // ADDRESSES_PART)
        self._address_share = max(1, self._addresses_share // 2)
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix="mcp_django") if threads else None
        #: One thread more: see ``_work_for_server``.
        self._own_executor = ThreadPoolExecutor(1, thread_name_prefix="mcp_django")
        self._lock = Lock()
        self._bodies: Bodies | None = None
        #: Calls that have not come to their end, whether they wait, run, or have a body on a loop.
        self._open: set[_Job] = set()
        self._closed = False
        #: By principal: calls that were accepted, calls that may run, and calls that wait for their principal's turn.
        self._accepted = Tally()
        self._running = Tally()
        self._waiting: dict[str, deque[_Job]] = {}
        #: Calls of addresses that wait, in the order in which the addresses have their turns.
        self._waiting_addresses: dict[str, deque[_Job]] = {}
        #: The jobs for the next free threads, the threads that are or will be at work, and those that are to begin.
        self._ready: deque[_Job] = deque()
        self._active = self._due = 0
        #: The server's own jobs, which go first, and whether a thread is at work that runs them alone.
        self._own: deque[_Job] = deque()
        self._has_own_thread = False

    @property
    def bodies(self) -> Bodies:
        """The bodies of asynchronous functions, which use none of the threads."""
        with self._lock:
            # Made for the first one.
            self._bodies = self._bodies or Bodies(self._threads)
            return self._bodies

    async def run(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
        """The function's result, from a worker. Raises Overloaded, and everything that the function raises.

        A call without a principal is the server's own, and does not wait for other calls of a principal.
        """
        if self._executor is None:
            return await sync_to_async(function, thread_sensitive=True)(*args)
        return await self.submit(function, *args, principal_key=principal_key)

    def submit(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> asyncio.Future[T]:
        """The same as a future, for a caller that has other work meanwhile. Raises Overloaded at once."""
        if self._executor is None:
            return asyncio.ensure_future(sync_to_async(function, thread_sensitive=True)(*args))
        job = _Job(principal_key, function, args)
        with self._lock:
            self._admit(principal_key)
            self._open.add(job)
            self._enqueue(job)
            is_stranded = self._is_stranded
        if is_stranded:
            self._refuse_stranded()
        return job.future

    @contextlib.asynccontextmanager
    async def place(self, principal_key: str) -> AsyncIterator[None]:
        """Hold the place of one call, whose work is done in another thread within the block. Raises Overloaded.

        One of the threads waits until the block ends, so such calls are bounded, and shared, as all others.
        """
        if self._executor is None:
            yield
            return
        loop = asyncio.get_running_loop()
        begun, over = loop.create_future(), Event()

        def hold() -> None:
            call_soon(loop, settle, begun, None, None)
            over.wait()

        held = self.submit(hold, principal_key=principal_key)
        try:
            # What waits in vain is refused when the server ends.
            await asyncio.wait({begun, held}, return_when=asyncio.FIRST_COMPLETED)
            if held.done():
                held.result()
            yield
        finally:
            over.set()
            # A place that nobody waits for any more is not held when its turn comes.
            held.cancel()

    def run_here(self, function: Callable[..., T], *args: Any, principal_key: str = "") -> asyncio.Future[T]:
        """As ``submit``, for a call that ends with the body of a function, and does nothing for long beside it.

        It is made at once, in this thread, which is the loop's, and finished here if what the body returns is small.
        """
        if self._executor is None:
            return self.submit(function, *args, principal_key=principal_key)
        job = _Job(principal_key, function, args)
        with self._lock:
            self._check_room(principal_key)
            self._open.add(job)
        self._run_here(job)
        return job.future

    def _run_here(self, job: _Job) -> None:
        """Run a job in the thread of its loop, until the body of a function begins or the call is over."""
        _here.is_loop = True
        try:
            result, error = job.run(_call_here)
        except BaseException:
            # The process ends, and does not wait for this call.
            self._forget(job)
            raise
        finally:
            _here.is_loop = False
        if job.suspended is not None:
            job.start_body(self.bodies, partial(self._finish, job))
            return
        self._forget(job)
        settle(job.future, result, error)

    def _forget(self, job: _Job) -> None:
        with self._lock:
            self._open.discard(job)

    def _finish(self, job: _Job, outcome: Outcome) -> None:
        """Finish a call that began in the thread of its loop, and whose body has ended. In any thread."""
        if job.may_end_here(outcome):
            job.resume(outcome)
            self._run_here(job)
        else:
            self._take_up(job, outcome)

    def count_as(self, job: _Job, principal_key: str) -> None:
        """Let a running call of an address count as one of the principal that it turned out to be, if there is room."""
        with self._lock:
            if job.principal_key.startswith(ADDRESS) and self._may_run(principal_key):
                self._leave(job.principal_key)
                job.principal_key = principal_key
                self._accepted.add(principal_key, 1)
                self._running.add(principal_key, 1)

    def close(self) -> None:
        """Wait for calls that have begun, refuse waiting ones, and end the threads with their connections.

        Bodies on a loop that does not run, or that runs in this thread, are not waited for, and those that were
        cancelled not for long.
        """
        with self._lock:
            self._closed = True
            lines = (self._waiting, self._waiting_addresses)
            queues = [self._ready, self._own, *chain.from_iterable(line.values() for line in lines)]
            left = [job for queue in queues for job in queue if not job.is_begun]
            for queue in queues:
                begun = [job for job in queue if job.is_begun]
                queue.clear()
                queue.extend(begun)
            for line in lines:
                for key in [key for key, queue in line.items() if not queue]:
                    del line[key]
            self._open.difference_update(left)
        for job in left:
            # Cancelling the future would cancel the task that awaits it.
            job.deliver(None, Overloaded(_ENDING))
        self._wait_for_open()
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self._own_executor.shutdown(wait=True)

    def _wait_for_open(self) -> None:
        """Wait until every call that will end has ended."""
        patient_until = time.monotonic() + _CANCELLED_SECONDS
        while True:
            self.bodies.give_up(lambda loop: not loop.is_running())
            is_patient = time.monotonic() < patient_until
            with self._lock:
                if not any(job.comes_back(if_cancelled=is_patient) for job in self._open):
                    return
            time.sleep(_LOOK_SECONDS)

    def _admit(self, principal_key: str) -> None:
        self._check_room(principal_key)
        self._accepted.add(principal_key, 1)

    def _check_room(self, principal_key: str) -> None:
        """Raises Overloaded where no further call of the caller may come."""
        conf = get_conf()
        if self._closed:
            raise Overloaded(_ENDING)
        if self._accepted.total >= conf.QUEUE + self._threads:
            raise Overloaded("The server is busy: QUEUE requests are waiting. Try again in a moment.")
        if principal_key.startswith(ADDRESS):
            self._admit_address(principal_key, conf.QUEUE // ADDRESSES_PART + self._addresses_share)
        if principal_key and self._accepted[principal_key] >= conf.QUEUE_PER_PRINCIPAL:
            raise Overloaded(
                "You have QUEUE_PER_PRINCIPAL requests waiting. Wait for their answers before you send more."
            )

    def _enqueue(self, job: _Job) -> None:
        """Let the call run, now or when it is its principal's turn."""
        key = job.principal_key
        if self._may_run(key):
            self._make_ready(job)
        else:
            self._line_of(key).setdefault(key, deque()).append(job)

    def _take_up(self, job: _Job, outcome: Outcome) -> None:
        """Finish a call whose body has ended. It was admitted before, and is not refused now. In any thread."""
        job.resume(outcome)
        with self._lock:
            self._accepted.add(job.principal_key, 1)
            self._enqueue(job)
            is_stranded = self._is_stranded
        if is_stranded:
            self._work_here()

    def _admit_address(self, key: str, places: int) -> None:
        if self._accepted.of_addresses >= places or self._accepted[key] >= max(1, places // 2):
            raise Overloaded(
                "The server is busy with callers whose credentials it has not seen lately, and yours are among them. "
                "Try again in a moment."
            )

    def _may_run(self, key: str) -> bool:
        """Whether one more call of the caller may run. A call without a principal always may."""
        if not key.startswith(ADDRESS):
            return not key or self._running[key] < self._share_of(key)
        return self._running.of_addresses < self._addresses_share and self._running[key] < self._address_share

    def _share_of(self, key: str) -> int:
        """How many calls of a principal may run now."""
        own = self._running[key] + self._running[""] + self._running.of_addresses
        return self._share_alone if self._running.total == own else self._share_beside

    def _line_of(self, key: str) -> dict[str, deque[_Job]]:
        return self._waiting_addresses if key.startswith(ADDRESS) else self._waiting

    def _make_ready(self, job: _Job) -> None:
        self._running.add(job.principal_key, 1)
        (self._ready if job.principal_key else self._own).append(job)
        if self._executor is None:
            return
        if self._active < self._threads:
            self._active += 1
            self._due += 1
            try:
                self._executor.submit(self._work)
            except RuntimeError:
                # The pool has ended, or Python cannot start one more thread: those that are at work take the job.
                self._active -= 1
                self._due -= 1
        elif self._own and not self._has_own_thread:
            with contextlib.suppress(RuntimeError):  # As above.
                self._own_executor.submit(self._work_for_server)
                self._has_own_thread = True

    @property
    def _is_stranded(self) -> bool:
        """Whether there are jobs, and no thread for them. The caller holds the lock."""
        return bool(self._ready or self._own) and not self._active

    def _refuse_stranded(self) -> None:
        """Refuse the calls for which there is no thread, and finish those that have begun."""
        with self._lock:
            left = [job for job in (*self._own, *self._ready) if not job.is_begun]
            for job in left:
                (self._ready if job.principal_key else self._own).remove(job)
                self._open.discard(job)
                self._leave(job.principal_key)
        for job in left:
            job.deliver(None, Overloaded(_NO_THREAD))
        self._work_here()

    def _work_here(self) -> None:
        """Run ready jobs without a worker: in a thread of their own, or in this one if there can be none."""
        with self._lock:
            if not self._is_stranded:
                return
            self._active += 1
            self._due += 1
        try:
            Thread(target=self._work, name="mcp_django-late").start()
        except RuntimeError:
            self._work()

    def _work(self) -> None:
        """Run ready jobs, in a worker, until there are none."""
        self._run_jobs(self._first(), self._next)

    def _work_for_server(self) -> None:
        """Run the server's own jobs, while all other threads are at work.

        A worker may be blocked until its client reads, and the client gets nothing until one of these jobs has run.
        Hence this extra thread.
        """
        self._run_jobs(self._next_own(None), self._next_own)

    def _run_jobs(self, job: _Job | None, next_after: Callable[[_Job], _Job | None]) -> None:
        while job is not None:
            _here.work = self, job
            result, error = job.run(_call)
            _here.work = None
            # The job's place must be free before its caller gets the result, because the caller may send the next
            # request at once.
            following = next_after(job)
            if job.suspended is None:
                job.deliver(result, error)
            else:
                job.start_body(self.bodies, partial(self._take_up, job))
            job = following
            # Otherwise the objects of this call would live until the next one ends.
            del result, error, following

    def _first(self) -> _Job | None:
        """The first job of this worker. None if there is none, or if this thread comes where it was not expected."""
        with self._lock:
            if not self._due:
                return None
            self._due -= 1
        return self._next(None)

    def _next(self, done: _Job | None) -> _Job | None:
        """The next job of this worker, after ``done``. None if there is none, and the worker ends."""
        with self._lock:
            self._end(done)
            if queue := self._own or self._ready:
                return queue.popleft()
            self._active -= 1
            return None

    def _next_own(self, done: _Job | None) -> _Job | None:
        """The next of the server's own jobs, after ``done``. None if there is none, and their thread ends."""
        with self._lock:
            self._end(done)
            if self._own:
                return self._own.popleft()
            self._has_own_thread = False
            return None

    def _end(self, done: _Job | None) -> None:
        if done is not None:
            self._leave(done.principal_key)
            if done.suspended is None:
                self._open.discard(done)

    def _leave(self, principal_key: str) -> None:
        """Let the next jobs of a principal run, as one of its jobs has ended; of addresses, those of the next."""
        self._running.add(principal_key, -1)
        self._accepted.add(principal_key, -1)
        line = self._line_of(principal_key)
        keys = [principal_key] if line is self._waiting else line
        while key := next((key for key in keys if key in line and self._may_run(key)), None):
            jobs = line.pop(key)
            self._make_ready(jobs.popleft())
            if jobs:
                # At the end: the other addresses have their turns before.
                line[key] = jobs


#: What the thread works at, in its attribute ``work``, and when its connections are to be looked at before a call. The
#: thread of a loop that runs a call itself has ``is_loop``.
_here = local()
#: After a call has looked at its connections, a call that begins within so many seconds need not.
_FRESH_SECONDS = 1.0


def can_suspend() -> bool:
    """Whether the call that runs in this thread may leave it while the body of a function runs on the loop."""
    return getattr(_here, "work", None) is not None or getattr(_here, "is_loop", False)


def count_as(principal_key: str) -> None:
    """Count the call that runs in this thread as one of the principal, whose credentials were found valid."""
    work = getattr(_here, "work", None)
    if work is not None:
        workers, job = work
        workers.count_as(job, principal_key)


def _call(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    if settings.DEBUG:
        # Otherwise Django logs no queries.
        reset_queries()
    if time.monotonic() >= getattr(_here, "look_at", 0.0):
        _close_stale()
    try:
        return function(*args)
    finally:
        _close_stale()
        close_caches()


def _call_here(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    return function(*args)


def _close_stale() -> None:
    """Close this thread's stale connections. A call that begins soon afterwards need not look again."""
    for connection in connections.all(initialized_only=True):
        _close_if_stale(connection)
        forget_failure(connection)
    _here.look_at = time.monotonic() + _FRESH_SECONDS


def _close_if_stale(connection: BaseDatabaseWrapper) -> None:
    """Close a connection by CONN_MAX_AGE of DATABASES, or by ours. A pooled connection always goes back to its pool."""
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
#: The loops on which calls were awaited.
_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def _remember(loop: asyncio.AbstractEventLoop) -> None:
    if loop not in _loops:
        with _workers_lock:
            _loops.add(loop)


#: A pool that replaces the process's pool in this context.
_replacement: ContextVar[Workers | None] = ContextVar("mcp_django_workers", default=None)


@contextlib.contextmanager
def working_with(workers: Workers) -> Iterator[None]:
    """Let ``workers`` run the calls within the block, and the calls of asyncio tasks that are started in it."""
    token = _replacement.set(workers)
    try:
        yield
    finally:
        _replacement.reset(token)


def get_workers() -> Workers:
    """The process's pool, which is made at first use, or the pool that replaces it in this context."""
    global _workers  # noqa: PLW0603
    replacement = _replacement.get()
    if replacement is not None:
        return replacement
    with _workers_lock:
        if _workers is None:
            _workers = Workers(get_conf().THREADS)
        return _workers


async def run_patiently(function: Callable[..., T], *args: Any, principal_key: str = "") -> T:
    """``Workers.run`` for a call of a request that has begun already: it waits while the workers are busy.

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
    """Drop the parent's pool and loops in the child of a fork, which has neither its threads nor its calls."""
    global _workers, _workers_lock
    _workers, _workers_lock = None, Lock()
    _loops.clear()


os.register_at_fork(after_in_child=_after_fork)


def _finish_calls() -> None:
    """Finish the calls whose loop has ended before them: their lines stand in the audit trail, and no thread waits.

    ``asyncio.run`` cancels what its loop leaves behind, and Daphne's reactor does not. A thread that waits for it, as
    that of synchronous middleware waits for the view, would keep the process from ending.
    """
    if _workers is not None:
        _workers.bodies.give_up(lambda loop: not loop.is_running())
    with _workers_lock:
        ended = [loop for loop in _loops if not loop.is_running() and not loop.is_closed()]
    for loop in ended:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=_CANCELLED_SECONDS))


before_threads_end(_finish_calls)


def _forget(*, setting: str, **_: Any) -> None:
    if setting == "MCP":
        close_workers()


setting_changed.connect(_forget)


def run_function(function: Callable[..., Any], *args: Any, **values: Any) -> Any:
    """The return value of a function, which may be asynchronous."""
    if not inspect.iscoroutinefunction(function):
        return function(*args, **values)

    async def wait() -> Any:
        # Otherwise all async functions of the process would share one thread for their ORM calls.
        async with ThreadSensitiveContext():
            return await function(*args, **values)

    return async_to_sync(wait)()
