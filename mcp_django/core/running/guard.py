"""Takes the steps of a body, and of the tasks that it starts, so that none of them ends the server unseen.

Calls come from threads to the loop, which is woken once for all that come before it has its turn.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from functools import partial
from threading import Lock
from types import CodeType, TracebackType
from typing import Any
from weakref import WeakKeyDictionary, ref

logger = logging.getLogger("mcp_django")

#: A step that holds the loop for longer is logged, since everything else in the process waits meanwhile.
_HELD_SECONDS = 0.25

TaskFactory = Callable[..., "asyncio.Future[Any]"]


class Guard:
    """What the coroutines of one body have in common. It is the factory of the tasks that start in their steps."""

    __slots__ = ("_factory", "_told", "loop", "name")

    def __init__(self, loop: asyncio.AbstractEventLoop, name: str) -> None:
        self.loop = loop
        self.name = name
        #: The loop's own factory of tasks, in a step.
        self._factory: TaskFactory | None = None
        self._told = False

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Future[Any]:
        """The task of a coroutine that the body starts, made by the loop's own factory."""
        guarded = Guarded(coroutine, self) if asyncio.iscoroutine(coroutine) else coroutine
        if self._factory is not None:
            return self._factory(loop, guarded, **options)
        return asyncio.Task(guarded, loop=loop, **options)

    def step(self, step: Callable[..., Any], *values: Any) -> Any:
        """What a step of a coroutine returns or raises."""
        loop = self.loop
        factory: Any = loop.get_task_factory()
        if factory is not self:
            self._factory = factory
            loop.set_task_factory(self)  # type: ignore[arg-type]
        begun = time.perf_counter()
        try:
            return step(*values)
        except (SystemExit, KeyboardInterrupt) as error:
            # asyncio would end the loop, and with it every other request.
            if is_of_signal(error):
                raise
            raise RuntimeError(f"{self.name} tried to end the process") from error
        finally:
            held = time.perf_counter() - begun
            # The body may have set another one.
            now: Any = loop.get_task_factory()
            if factory is not self and now is self:
                loop.set_task_factory(factory)
            if held > _HELD_SECONDS:
                self._tell(held)

    def _tell(self, held: float) -> None:
        """Log that a step has held the loop: the first one of the body."""
        if not self._told:
            self._told = True
            logger.warning(
                "%s held the event loop for %d ms, and every other request with it. Await what takes long, or keep "
                "it in a worker: a tool by @tool(on_loop=False), anything by def instead of async def",
                self.name,
                held * 1_000,
            )


class Guarded(Coroutine[Any, Any, Any]):
    """A coroutine whose steps a guard takes."""

    __slots__ = ("_coroutine", "_guard")

    def __init__(self, coroutine: Coroutine[Any, Any, Any], guard: Guard) -> None:
        self._coroutine = coroutine
        self._guard = guard

    def send(self, value: Any) -> Any:
        return self._guard.step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._guard.step(self._coroutine.throw, *error)

    def close(self) -> None:
        self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._coroutine.__await__()

    def __getattr__(self, name: str) -> Any:
        # What debuggers and anyio read of a coroutine, as ``cr_frame``.
        return getattr(self._coroutine, name)


def is_of_signal(error: BaseException) -> bool:
    """Whether the error is that of a Ctrl-C which ends the server, and not one that the body has raised."""
    # Python runs the handlers of signals in the main thread.
    if not isinstance(error, KeyboardInterrupt) or threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    # One in C has no frame.
    return handler is signal.default_int_handler or _has_frame_of(error.__traceback__, _code_of(handler))


def _code_of(handler: Any) -> CodeType | None:
    while isinstance(handler, partial):
        handler = handler.func
    return getattr(handler, "__code__", None)


def _has_frame_of(traceback: TracebackType | None, code: CodeType | None) -> bool:
    while traceback is not None and traceback.tb_frame.f_code is not code:
        traceback = traceback.tb_next
    return traceback is not None


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
