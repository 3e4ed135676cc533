"""Runs a function in a thread of its own: in an empty context, with connections of its own, and in no transaction."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import Context
from typing import TypeVar

from django.db import connections

T = TypeVar("T")


def in_own_thread(run: Callable[[], T]) -> T:
    """What the function returns, or raises."""
    results: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            results.append(Context().run(run))
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            errors.append(error)
        finally:
            connections.close_all()

    thread = threading.Thread(target=work, name="mcp_django change")
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
