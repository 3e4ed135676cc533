"""The bodies of asynchronous functions that run on the event loop of this process: MAX_ASYNC at most."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import types
from collections import Counter
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from threading import Condition
from typing import Any

from mcp_django.compat.sync_to_async import use_executor
from mcp_django.conf import get_conf
from mcp_django.on_loop.slots import SlotExecutor, Slots
from mcp_django.on_loop.suspension import Suspended
from mcp_django.protocol.errors import Overloaded, RequestCancelled

logger = logging.getLogger("mcp_django")

#: One principal gets this part of MAX_ASYNC.
_PART_OF_PRINCIPAL = 10
#: A body that holds the loop for longer is logged, since everything else in the process waits meanwhile.
_HELD_SECONDS = 0.25
#: How often the end of the process looks whether a loop is still there.
_LOOK_SECONDS = 0.1

#: A longer text is written by a worker.
_LONGEST_TEXT = 4_096

Outcome = Callable[[], Any]
#: Takes an outcome, and whether the request may be finished on the loop, which is where it is called then.
Then = Callable[[Outcome, bool], None]


class Bodies:
    """Runs bodies, each in a task of its own and in the context of its request."""

    def __init__(self, threads: int) -> None:
        self._slots = Slots(threads)
        self._changed = Condition()
        self._of: Counter[str] = Counter()
        #: How many run on each loop.
        self._on: Counter[asyncio.AbstractEventLoop] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(
        self,
        suspended: Suspended,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        then: Then,
    ) -> None:
        """Run the body, and call ``then`` with its outcome, once. Raises Overloaded, and nothing else.

        A worker calls it. Nobody else may use the ``context`` until ``then`` is called.
        """
        self._admit(suspended.principal_key, loop)
        try:
            loop.call_soon_threadsafe(partial(self._begin, suspended, loop, context, then))
        except RuntimeError:  # The loop is closed.
            self._leave(suspended.principal_key, loop)
            raise Overloaded("The server is shutting down. Try again in a moment.") from None

    def close(self) -> None:
        """Wait for the bodies, where their loop goes on meanwhile, and end the threads."""
        with self._changed:
            while any(loop.is_running() and not _is_here(loop) for loop in self._on):
                self._changed.wait(_LOOK_SECONDS)
        self._slots.close()

    def _admit(self, key: str, loop: asyncio.AbstractEventLoop) -> None:
        limit = get_conf().MAX_ASYNC
        share = max(1, limit // _PART_OF_PRINCIPAL)
        with self._changed:
            if sum(self._on.values()) >= limit:
                raise Overloaded("The server is busy: MAX_ASYNC functions are running. Try again in a moment.")
            if self._of[key] >= share:
                raise Overloaded(
                    f"{share} asynchronous functions are running for you, a tenth of MAX_ASYNC. Wait for their answers "
                    "before you send more."
                )
            self._of[key] += 1
            self._on[loop] += 1

    def _leave(self, key: str, loop: asyncio.AbstractEventLoop) -> None:
        with self._changed:
            for counter, one in ((self._of, key), (self._on, loop)):
                counter[one] -= 1  # type: ignore[index]
                if not counter[one]:  # type: ignore[index]
                    del counter[one]
            self._changed.notify_all()

    def _begin(
        self,
        suspended: Suspended,
        loop: asyncio.AbstractEventLoop,
        context: Context,
        then: Then,
    ) -> None:
        cancellation = suspended.cancellation
        executor = SlotExecutor(self._slots, suspended.principal_key, cancellation.queries)
        task = loop.create_task(_run(suspended, executor), context=context)
        self._tasks.add(task)
        if cancellation.cancelled:
            # Before its first step: it never begins.
            task.cancel()
        cancellation.when_cancelled(partial(_cancel, loop, task))

        def end(outcome: Outcome, is_light: bool = False) -> None:
            then(outcome, is_light)
            self._leave(suspended.principal_key, loop)

        def ended(_: asyncio.Task[Any]) -> None:
            self._tasks.discard(task)
            outcome = _outcome_of(task, suspended)
            is_light = suspended.finishes_on_loop and executor.is_unused and isinstance(outcome, _Plain)
            executor.end(partial(end, outcome, is_light))

        task.add_done_callback(ended)


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether this thread runs the loop, and so cannot wait for it."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def _cancel(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any]) -> None:
    with contextlib.suppress(RuntimeError):  # The loop is closed.
        loop.call_soon_threadsafe(task.cancel)


async def _run(suspended: Suspended, executor: SlotExecutor) -> Outcome:
    """What the body returned or raised. It raises nothing: a SystemExit would end the loop."""
    use_executor(executor)
    try:
        result = await _watched(suspended.body(), suspended.name)
    except BaseException as error:  # noqa: BLE001 - raised again where the request is taken up
        return partial(_raise, error, suspended)
    is_plain = type(result) in (int, float, bool, type(None)) or (type(result) is str and len(result) < _LONGEST_TEXT)
    return _Plain(result) if is_plain else lambda: result


@dataclass(frozen=True, slots=True)
class _Plain:
    """What a body has returned, where it can be written without anything of the project."""

    result: str | float | None

    def __call__(self) -> str | float | None:
        return self.result


def _outcome_of(task: asyncio.Task[Outcome], suspended: Suspended) -> Outcome:
    if task.cancelled():  # Before it began.
        return partial(_raise, asyncio.CancelledError(), suspended)
    return task.result()


def _raise(error: BaseException, suspended: Suspended) -> None:
    if isinstance(error, asyncio.CancelledError):
        if suspended.cancellation.cancelled:
            raise RequestCancelled
        raise RuntimeError(f"{suspended.name} was cancelled, and not by its client") from error
    raise error


@types.coroutine
def _watched(body: Coroutine[Any, Any, Any], name: str) -> Generator[Any, Any, Any]:
    """The result of the body. The first of its steps that holds the loop for too long is logged."""
    step: Callable[[], Any] = partial(body.send, None)
    told = False
    while True:
        begun = time.perf_counter()
        try:
            waited_for = step()
        except StopIteration as stop:
            return stop.value
        finally:
            held = time.perf_counter() - begun
            if held > _HELD_SECONDS and not told:
                told = True
                logger.warning(
                    "%s held the event loop for %d ms, and every other request with it. Await what takes long, or keep "
                    "it in a worker: a tool by @tool(on_loop=False), anything by def instead of async def",
                    name,
                    held * 1_000,
                )
        try:
            value = yield waited_for
        except GeneratorExit:
            body.close()
            raise
        except BaseException as error:  # noqa: BLE001 - the body decides
            step = partial(body.throw, error)
        else:
            step = partial(body.send, value)
