"""The bodies of asynchronous functions that run on the event loop of this process: MAX_ASYNC at most."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from contextvars import Context
from functools import partial
from threading import Lock
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.core.compat.sync_to_async import thread_sensitive_in
from mcp_django.core.running.executor import BodyExecutor, Permits
from mcp_django.core.running.guard import Guard, Guarded, call_soon, is_here
from mcp_django.core.running.suspension import Suspended
from mcp_django.protocol.errors import Overloaded, RequestCancelled

#: One principal gets this part of MAX_ASYNC.
_PART_OF_PRINCIPAL = 10


class Outcome:
    """What a body returned or raised. It is called once, and holds neither afterwards: an error refers to its frames,
    and these to what they were called with.
    """

    __slots__ = ("_error", "_result")

    def __init__(self, result: Any = None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    @property
    def needs_no_worker(self) -> bool:
        """Whether the answer is written fast and without the project: it is small, or the body was refused."""
        return is_small(self._result) if self._error is None else isinstance(self._error, Overloaded)

    def __call__(self) -> Any:
        result, self._result = self._result, None
        error, self._error = self._error, None
        try:
            if error is not None:
                raise error
            return result
        finally:
            del error


Then = Callable[[Outcome], None]
#: The most characters that the texts of a small value have. Each of its parts counts as so many characters as take the
#: same time: checking a part against a JSON Schema may take 15 µs.
_SMALL_CHARACTERS = 20_000
_CHARACTERS_OF_PART = 100


def is_small(value: Any) -> bool:
    """Whether it is a value of JSON's own types, without subclasses, that is checked and written in a moment."""
    left, waiting = _SMALL_CHARACTERS, [value]
    while waiting:
        part = waiting.pop()
        kind = type(part)
        if kind is str:
            left -= len(part)
        elif kind is dict or kind is list:
            left -= _CHARACTERS_OF_PART * len(part)
            if left < 0:
                return False
            waiting.extend(part)
            if kind is dict:
                waiting.extend(part.values())
        elif part is not None and kind not in (bool, int, float):
            return False
        if left < 0:
            return False
    return True


class Body:
    """One body: admitted, begun on its loop, ended, and handed to ``then`` with its outcome."""

    __slots__ = ("_context", "_suspended", "_task", "_then", "executor", "key", "loop", "name")

    def __init__(
        self, suspended: Suspended, key: str, loop: asyncio.AbstractEventLoop, context: Context, then: Then
    ) -> None:
        self.key = key
        self.loop = loop
        self.name = suspended.name
        self.executor: BodyExecutor | None = None
        self._then: Then | None = then
        self._suspended: Suspended | None = suspended
        self._context: Context | None = context
        self._task: asyncio.Task[Any] | None = None

    def begin(self, permits: Permits, end: Callable[[Body, Outcome], None]) -> None:
        """Start the task. ``end`` is called when it has ended. On the loop."""
        suspended = self._suspended
        if suspended is None:  # Its loop seemed to be over.
            return
        cancellation = suspended.cancellation
        self.executor = BodyExecutor(permits, self.key, cancellation.queries)
        steps = Guarded(_run(suspended, self.executor), Guard(self.loop, self.name))
        self._task = asyncio.Task(steps, loop=self.loop, context=self._context)
        self._task.add_done_callback(lambda task: end(self, self._outcome_of(task)))
        if cancellation.cancelled:
            # Before its first step: it never begins.
            self._task.cancel()
        else:
            cancellation.when_cancelled(self._cancel_soon)

    def take_then(self) -> Then | None:
        """Let go of everything, since the cancellation of the request still refers to this object."""
        then, self._then = self._then, None
        self._suspended = self._context = self._task = None
        return then

    def _outcome_of(self, task: asyncio.Task[Any]) -> Outcome:
        if not task.cancelled():
            error = task.exception()
            return Outcome(error=error) if error is not None else Outcome(task.result())
        if self._suspended is None or self._suspended.cancellation.cancelled:
            return Outcome(error=RequestCancelled())
        return Outcome(error=RuntimeError(f"{self.name} was cancelled, and not by its client"))

    def _cancel_soon(self) -> None:
        """Cancel the task; from any thread."""
        with contextlib.suppress(RuntimeError):  # The loop is closed.
            call_soon(self.loop, self._cancel)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _run(suspended: Suspended, executor: BodyExecutor) -> Any:
    with thread_sensitive_in(executor):
        return await suspended.body()


class Bodies:
    """Runs bodies, each in a task of its own and in the context of its request."""

    def __init__(self, threads: int) -> None:
        self._permits = Permits(threads)
        self._lock = Lock()
        self._of: Counter[str] = Counter()
        self._on: dict[asyncio.AbstractEventLoop, set[Body]] = {}

    def start(
        self, suspended: Suspended, key: str, loop: asyncio.AbstractEventLoop, context: Context, then: Then
    ) -> None:
        """Run the body, and call ``then`` with its outcome, once, whatever happens. It counts against ``key``.

        Nobody else may use the ``context`` until ``then`` is called, in any thread.
        """
        self.give_up(lambda loop: loop.is_closed())
        body = Body(suspended, key, loop, context, then)
        refusal = self._admit(body)
        if refusal:
            then(Outcome(error=Overloaded(refusal)))
            return
        if is_here(loop):
            body.begin(self._permits, self._end)
            return
        try:
            call_soon(loop, body.begin, self._permits, self._end)
        except RuntimeError:  # The loop is closed.
            self._end(body, Outcome(error=RequestCancelled()))

    def give_up(self, is_over: Callable[[asyncio.AbstractEventLoop], bool]) -> None:
        """End the bodies whose loop will not end them."""
        with self._lock:
            left = [body for loop, bodies in self._on.items() if is_over(loop) for body in bodies]
        for body in left:
            self._end(body, Outcome(error=RequestCancelled()))

    def _admit(self, body: Body) -> str:
        """Give the body a place. Otherwise the text says why there is none."""
        limit = get_conf().MAX_ASYNC
        share = max(1, limit // _PART_OF_PRINCIPAL)
        with self._lock:
            if sum(map(len, self._on.values())) >= limit:
                return "The server is busy: MAX_ASYNC functions are running. Try again in a moment."
            if self._of[body.key] >= share:
                return (
                    f"{share} asynchronous functions are running for you, a tenth of MAX_ASYNC. Wait for their answers "
                    "before you send more."
                )
            self._of[body.key] += 1
            self._on.setdefault(body.loop, set()).add(body)
            return ""

    def _end(self, body: Body, outcome: Outcome) -> None:
        """The body has ended, in whatever way: the first end counts."""
        with self._lock:
            then = body.take_then()
        if then is None:
            return
        executor, body.executor = body.executor, None
        leave = partial(self._leave, body, partial(then, outcome))
        if executor is None:
            leave()
        else:
            executor.end(leave)

    def _leave(self, body: Body, go_on: Callable[[], None]) -> None:
        """Give the place back, and then go on with the request: its client may send the next one with the answer."""
        with self._lock:
            self._of[body.key] -= 1
            if not self._of[body.key]:
                del self._of[body.key]
            bodies = self._on[body.loop]
            bodies.discard(body)
            if not bodies:
                del self._on[body.loop]
        go_on()
