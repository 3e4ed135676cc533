"""The end of a process, with the hooks that Python's own modules use."""

from __future__ import annotations

import atexit
import concurrent.futures.thread  # noqa: F401 - registers first, because the last registered function is called first
import multiprocessing.util
import threading
from collections.abc import Callable
from typing import Any


def before_threads_end(function: Callable[[], Any]) -> None:
    """Call a function at the exit, before the threads end in which asyncio resolves host names.

    Private: ``threading._register_atexit``. Seen with: Python 3.11 to 3.14. Public way: ``atexit.register``, whose
    functions are called after concurrent.futures has ended its threads. It is used if the private part is missing.
    """
    getattr(threading, "_register_atexit", atexit.register)(function)


def at_exit_of_children(owner: object, function: Callable[[], Any]) -> None:
    """Call a function at the exit of each child of multiprocessing, as long as the owner exists.

    Children do not run atexit functions, and drop the finalizers of their parent.

    Private: ``multiprocessing.util.register_after_fork`` and ``Finalize``. Seen with: Python 3.11 to 3.14. Public way:
    none.
    """

    def register(_: object) -> None:
        multiprocessing.util.Finalize(None, function, exitpriority=100)

    multiprocessing.util.register_after_fork(owner, register)
