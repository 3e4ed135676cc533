"""The thread in which an asynchronous function reaches the database."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager, suppress

from asgiref.sync import AsyncToSync, SyncToAsync, ThreadSensitiveContext


@contextmanager
def thread_sensitive_in(executor: Executor) -> Iterator[None]:
    """Let the thread-sensitive calls of the block, and of tasks that are started in it, run in ``executor``.

    Tasks that outlive the block go on using it. Behind ``async_to_sync``, as below a synchronous middleware, such calls
    would otherwise go to the thread that waits there.

    Private: ``SyncToAsync.thread_sensitive_context`` and ``context_to_thread_executor``, and
    ``AsyncToSync.executors.current`` of asgiref. Seen with: Django 5.2, 6.0, 6.1, asgiref 3.13. Public way:
    ``ThreadSensitiveContext(executor=...)``, which older versions of asgiref that Django allows do not have.
    """
    key = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[key] = executor
    token = SyncToAsync.thread_sensitive_context.set(key)
    current = getattr(AsyncToSync.executors, "current", None)
    if current is not None:
        AsyncToSync.executors.current = None
    try:
        yield
    finally:
        # Where the loop is gone, Python closes a coroutine in another context, which has none of this.
        with suppress(ValueError):
            SyncToAsync.thread_sensitive_context.reset(token)
            if current is not None:
                AsyncToSync.executors.current = current
