"""Runs a function in a thread of its own: in an empty context, with connections of its own, and in no transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
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
