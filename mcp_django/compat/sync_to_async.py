"""The thread in which an asynchronous function reaches the database."""

from __future__ import annotations

from concurrent.futures import Executor

from asgiref.sync import SyncToAsync, ThreadSensitiveContext


def use_executor(executor: Executor) -> None:
    """Let the thread-sensitive calls of this context, and of tasks that are started in it, run in ``executor``.

    Private: ``SyncToAsync.thread_sensitive_context`` and ``context_to_thread_executor`` of asgiref. Seen with: Django
    5.2, 6.0, 6.1, asgiref 3.13. Public way: ``ThreadSensitiveContext(executor=...)``, which older versions of asgiref
    that Django allows do not have.
    """
    key = ThreadSensitiveContext()
    SyncToAsync.context_to_thread_executor[key] = executor
    SyncToAsync.thread_sensitive_context.set(key)
