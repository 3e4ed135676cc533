"""Calls from threads to a loop, which is woken once for all that come before it has its turn."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import Context
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary, ref

logger = logging.getLogger("mcp_django")


class _Calls:
    """The calls that wait for the turn of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._waiting: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        #: Empty: the calls of many requests are made in it.
        self._context = Context()

    def put(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        loop = self._loop()
        if loop is None or loop.is_closed():
            # One that was woken, and closed before its turn, would take calls for ever.
            self._waiting.clear()
            raise RuntimeError("The event loop is closed")
        self._waiting.append((function, args))
        # Asked after the call is there: ``_make`` either finds it, or is seen here.
        if self._is_woken:
            return
        self._is_woken = True
        try:
            loop.call_soon_threadsafe(self._make, context=self._context)
        except RuntimeError:
            self._is_woken = False
            self._waiting.clear()
            raise

    def _make(self) -> None:
        self._is_woken = False
        for _ in range(len(self._waiting)):
            function, args = self._waiting.popleft()
            try:
                function(*args)
            except Exception:
                logger.exception("A call on the event loop failed")


_of: WeakKeyDictionary[asyncio.AbstractEventLoop, _Calls] = WeakKeyDictionary()
_lock = Lock()


def is_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread runs the loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def call_soon(loop: asyncio.AbstractEventLoop, function: Callable[..., object], *args: Any) -> None:
    """``loop.call_soon_threadsafe`` in an empty context. Raises RuntimeError if the loop is closed.

    To wake a loop costs a system call, and each gives the interpreter to another thread.
    """
    calls = _of.get(loop)
    if calls is None:
        with _lock:
            calls = _of.setdefault(loop, _Calls(loop))
    calls.put(function, args)
