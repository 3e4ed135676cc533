"""Runs a function in a thread of its own, while this one waits.

``in_own_thread``: in an empty context, with connections of its own, and in no transaction. ``beside_this_thread``: in
the context and on the connections of this thread, of which only what code keeps in thread-locals stays apart.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


class TooLate(Exception):
    """The function has not begun its work in time, and does not begin it any more."""


def in_own_thread(run: Callable[[], T]) -> T:
    """What the function returns, or raises."""
    return in_own_thread_if_it_begins(lambda begin: run(), None)


def in_own_thread_if_it_begins(run: Callable[[Callable[[], None]], T], seconds: float | None) -> T:
    """What the function returns, or raises. It calls its argument when its work begins.

    Raises TooLate if that has not happened after so many seconds: what comes before the work may wait for a lock of the
    thread that waits here. The function then gets TooLate too, when it would begin.
    """
    results: list[T] = []
    errors: list[BaseException] = []
    lock, has_begun, is_late = threading.Lock(), threading.Event(), threading.Event()

    def begin() -> None:
        with lock:
            if is_late.is_set():
                raise TooLate
            has_begun.set()

    def work() -> None:
        try:
            results.append(Context().run(run, begin))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            errors.append(error)
        finally:
            connections.close_all()
            has_begun.set()

    thread = threading.Thread(target=work, name="mcp_django change", daemon=seconds is not None)
    thread.start()
    if seconds is not None and not has_begun.wait(seconds):
        with lock:
            if not has_begun.is_set():
                is_late.set()
                raise TooLate
    thread.join()
    if errors:
        raise errors[0]
    return results[0]


def beside_this_thread(run: Callable[[], T]) -> T:
    """What the function returns, or raises. The thread-locals of this thread are neither seen nor changed by it."""
    results: list[T] = []
    errors: list[BaseException] = []
    mine = {connection.alias: connection for connection in connections.all()}
    context = copy_context()

    def work() -> None:
        for alias, connection in mine.items():
            connections[alias] = connection
        try:
            results.append(context.run(run))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            errors.append(error)

    for connection in mine.values():
        connection.inc_thread_sharing()
    try:
        thread = threading.Thread(target=work, name="mcp_django inner request")
        thread.start()
        thread.join()
    finally:
        for connection in mine.values():
            connection.dec_thread_sharing()
    if errors:
        raise errors[0]
    return results[0]
