"""The way of a call whose body runs on the event loop: from a worker, over the loop, to a worker."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from mcp_django.core.running.suspension import Suspended
from mcp_django.core.running.workers import Workers
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.protocol.errors import Overloaded, RequestCancelled
from tests.end_to_end.servers import wait_for
from tests.support.loop import LoopThread


class Call:
    """A call that is suspended, and finished with the outcome of its body."""

    def __init__(self, body: Callable[[], Awaitable[Any]], cancellation: Cancellation | None = None) -> None:
        self.body = body
        self.cancellation = cancellation or Cancellation()
        #: What the call was finished with.
        self.finished: list[Any] = []

    def __call__(self) -> Any:
        suspended = Suspended(self.body, "tool test", self.cancellation)  # type: ignore[arg-type]
        suspended.then(self._finish)
        raise suspended

    def _finish(self, run: Callable[[], Any]) -> Any:
        try:
            result = run()
        except BaseException as error:
            self.finished.append(type(error))
            raise
        self.finished.append(result)
        return result


@pytest.fixture
def workers() -> Iterator[Workers]:
    made = Workers(2)
    yield made
    made.close()


@contextmanager
def own_loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    try:
        yield loop
    finally:
        loop.close()


def is_free(workers: Workers) -> bool:
    return not workers.bodies._on and not workers.bodies._of and not workers._running.total


async def wait(event: threading.Event) -> None:
    assert await asyncio.to_thread(event.wait, 60)


async def until(condition: Callable[[], Any]) -> None:
    while not condition():
        await asyncio.sleep(0.01)


def refuse_threads(patch: pytest.MonkeyPatch) -> None:
    """From now on no thread can be started."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    patch.setattr(threading.Thread, "start", refuse)


# Its place.


def test_a_place_is_free_before_the_answer_is_there(
    workers: Workers, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[int] = []
    take_up = workers._take_up

    def note(*args: Any) -> None:
        taken.append(workers.bodies._of["user:1"])
        take_up(*args)

    async def body() -> str:
        return "done"

    # With the answer the client sends its next request.
    monkeypatch.setattr(workers, "_take_up", note)

    assert serving_loop.run(workers.run(Call(body), principal_key="user:1")) == "done"
    assert taken == [0]


def test_the_place_of_a_body_whose_loop_was_closed_before_it_began_is_free(workers: Workers, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_ASYNC": 1}

    async def body() -> str:
        return "done"

    left, is_over = Call(body), threading.Event()

    def begin() -> Any:
        assert is_over.wait(30)
        return left()

    with own_loop() as loop:

        async def submit() -> None:
            workers.submit(begin, principal_key="user:1")

        loop.run_until_complete(submit())
        is_over.set()
        # It is admitted, but its loop runs no more.
        wait_for(lambda: bool(workers.bodies._on), "the body to be admitted")
    with own_loop() as loop:

        async def call() -> str:
            return await workers.run(Call(body), principal_key="user:1")

        assert loop.run_until_complete(call()) == "done"

    # What there is to write down of the first one is written down.
    wait_for(lambda: left.finished == [RequestCancelled], "the end of the first call")


def test_the_place_of_a_body_whose_loop_is_closed_while_it_runs_is_free(workers: Workers) -> None:
    begun = threading.Event()

    async def body() -> None:
        begun.set()
        await asyncio.Event().wait()

    left = Call(body)
    with own_loop() as loop:

        async def submit() -> None:
            workers.submit(left)
            await wait(begun)

        loop.run_until_complete(submit())

    workers.close()

    assert left.finished == [RequestCancelled]
    assert is_free(workers)


def test_a_body_that_was_cancelled_before_its_first_step_does_not_run(
    workers: Workers, serving_loop: LoopThread
) -> None:
    ran: list[str] = []

    async def body() -> None:
        ran.append("body")

    call = Call(body)
    call.cancellation.cancel()

    with pytest.raises(RequestCancelled):
        serving_loop.run(workers.run(call))
    assert ran == []
    assert is_free(workers)


def test_no_place_is_a_refusal(workers: Workers, serving_loop: LoopThread, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_ASYNC": 20}

    async def fill() -> list[Any]:
        begun, go_on = [0], asyncio.Event()

        async def body() -> str:
            begun[0] += 1
            await go_on.wait()
            return "done"

        mine = [workers.submit(Call(body), principal_key="address:192.0.2.1") for _ in range(3)]
        refused, _ = await asyncio.wait(mine, return_when=asyncio.FIRST_COMPLETED)
        # Each address has a part of its own.
        other = workers.submit(Call(body), principal_key="address:192.0.2.2")
        while begun[0] < 3:
            await asyncio.sleep(0)
        go_on.set()
        assert await other == "done"
        return [type(one.exception()) for one in refused]

    assert serving_loop.run(fill()) == [Overloaded]


# Its end.


def test_the_end_of_the_pool_waits_for_a_body_that_begins_meanwhile(serving_loop: LoopThread) -> None:
    workers, in_worker, go_on = Workers(2), threading.Event(), threading.Event()

    async def body() -> str:
        await asyncio.sleep(0)
        return "done"

    call = Call(body)

    def begin() -> Any:
        in_worker.set()
        assert go_on.wait(30)
        return call()

    async def main() -> str:
        running = asyncio.ensure_future(workers.run(begin))
        await wait(in_worker)
        closing = asyncio.get_running_loop().run_in_executor(None, workers.close)
        await until(lambda: workers._closed)
        go_on.set()
        await closing
        assert call.finished == ["done"]
        return await running

    assert serving_loop.run(main()) == "done"


def test_the_end_of_the_pool_finishes_calls_whose_body_has_ended(serving_loop: LoopThread) -> None:
    workers = Workers(1)
    holds, go_on = threading.Event(), threading.Event()
    release: list[asyncio.Event] = []

    async def body() -> str:
        release.append(asyncio.Event())
        await release[0].wait()
        return "done"

    def hold() -> None:
        holds.set()
        assert go_on.wait(30)

    call = Call(body)

    async def main() -> str:
        running = asyncio.ensure_future(workers.run(call, principal_key="a"))
        await until(lambda: release)
        # The one worker is busy when the body ends.
        holding = asyncio.ensure_future(workers.run(hold))
        await wait(holds)
        release[0].set()
        await until(lambda: not workers.bodies._on)
        closing = asyncio.get_running_loop().run_in_executor(None, workers.close)
        await until(lambda: workers._closed)
        go_on.set()
        await asyncio.gather(closing, holding)
        return await running

    assert serving_loop.run(main()) == "done"
    assert call.finished == ["done"]


def test_the_end_of_the_pool_does_not_wait_for_a_body_that_swallows_its_cancellation(
    serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.core.running.workers._CANCELLED_SECONDS", 0.0)
    workers, begun = Workers(1), threading.Event()
    go_on: list[asyncio.Event] = []

    async def body() -> str:
        go_on.append(asyncio.Event())
        begun.set()
        while not go_on[0].is_set():
            with suppress(asyncio.CancelledError):
                await go_on[0].wait()
        return "done"

    call = Call(body)
    running = asyncio.run_coroutine_threadsafe(workers.run(call), serving_loop.loop)
    assert begun.wait(30)
    call.cancellation.cancel()

    workers.close()

    assert call.finished == []
    serving_loop.loop.call_soon_threadsafe(go_on[0].set)
    # What it has done is written down all the same, when it ends.
    assert running.result(30) == "done"
    assert call.finished == ["done"]


@pytest.mark.every_case
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("in_child", [False, True], ids=["body", "child"])
def test_a_body_that_ends_the_process_fails_alone(
    workers: Workers, serving_loop: LoopThread, error: type[BaseException], in_child: bool
) -> None:
    async def leave() -> None:
        await asyncio.sleep(0)
        raise error

    async def child() -> None:
        # A task of a task.
        await asyncio.create_task(leave())

    async def body() -> None:
        await asyncio.gather(child()) if in_child else await leave()

    with pytest.raises(RuntimeError, match="tool test tried to end the process"):
        serving_loop.run(workers.run(Call(body)))

    assert serving_loop.run(asyncio.sleep(0, "alive")) == "alive"


def test_a_body_that_fails_leaves_no_garbage(workers: Workers, serving_loop: LoopThread) -> None:
    class Held:
        pass

    held: list[weakref.ref[Any]] = []

    async def body() -> None:
        mine = Held()
        held.append(weakref.ref(mine))
        await asyncio.sleep(0)
        raise ValueError

    def answer(run: Callable[[], Any]) -> str:
        # As a tool that fails becomes a result.
        try:
            return f"{run()}"
        except ValueError:
            return "failed"

    def call(cancellation: Cancellation) -> Any:
        suspended = Suspended(body, "tool test", cancellation)
        suspended.then(lambda run: run())
        suspended.then(answer)
        raise suspended

    async def main() -> None:
        cancellation = Cancellation()
        assert await workers.run(call, cancellation) == "failed"
        # Its request goes on.
        assert not cancellation.cancelled

    gc.disable()
    try:
        serving_loop.run(main())
        wait_for(lambda: held[0]() is None, "the objects of the body to be freed")
    finally:
        gc.enable()


def test_a_call_that_no_thread_can_finish_is_answered(
    workers: Workers, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def body() -> str:
        refuse_threads(monkeypatch)
        # The pool's own threads are gone too.
        workers._executor.shutdown(wait=False)  # type: ignore[union-attr]
        return "done"

    assert serving_loop.run(workers.run(Call(body))) == "done"
    assert is_free(workers)


def test_a_call_for_which_no_thread_can_be_started_is_refused(
    workers: Workers, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def call() -> Any:
        with monkeypatch.context() as patch:
            refuse_threads(patch)
            with pytest.raises(Overloaded, match="can start no thread"):
                await workers.run(lambda: "never", principal_key="user:1")
        return await workers.run(lambda: "done", principal_key="user:1")

    assert serving_loop.run(call()) == "done"
    wait_for(lambda: workers._active == 0 and not workers._accepted.total, "the pool to be idle")


def test_a_body_that_is_cancelled_by_somebody_else_has_failed(workers: Workers, serving_loop: LoopThread) -> None:
    async def body() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="tool test was cancelled, and not by its client"):
        serving_loop.run(workers.run(Call(body)))


def test_many_bodies_leave_nothing_behind(
    workers: Workers, serving_loop: LoopThread, caplog: pytest.LogCaptureFixture
) -> None:
    async def body() -> int:
        await asyncio.sleep(0)
        return 1

    async def main() -> int:
        return sum(await asyncio.gather(*(workers.run(Call(body), principal_key=f"user:{n % 7}") for n in range(60))))

    # Tasks of loops that other tests have closed are logged when they are collected.
    gc.collect()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert serving_loop.run(main()) == 60
        gc.collect()
    assert is_free(workers)
    assert not workers._open
    assert caplog.records == []
