"""The steps of bodies and of the tasks that they start."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from mcp_django.core.running import guard
from mcp_django.core.running.guard import Guard, Guarded


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """Tasks whose errors nobody asked for are thrown away here.

    They log a traceback then. To do so while another test parses a file is an error of that test in CPython 3.11.
    """
    yield
    gc.collect()


async def guarded(body: Any) -> Any:
    loop = asyncio.get_running_loop()
    return await asyncio.Task(Guarded(body, Guard(loop, "tool test")), loop=loop)


def test_the_tasks_of_a_body_are_made_by_the_factory_of_the_loop() -> None:
    made: list[str] = []

    def factory(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        made.append(coroutine.__name__)
        return asyncio.Task(coroutine, loop=loop, **options)

    async def child() -> str:
        return "child"

    async def body() -> Any:
        return await asyncio.create_task(child())

    async def main() -> Any:
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        result = await guarded(body())
        assert loop.get_task_factory() is factory  # type: ignore[comparison-overlap]
        loop.set_task_factory(None)
        return result

    assert asyncio.run(main()) == "child"
    assert made == ["child"]


def test_other_tasks_of_the_loop_are_left_alone() -> None:
    async def other() -> None:
        raise SystemExit(3)

    async def body() -> None:
        await asyncio.sleep(30)

    async def main() -> None:
        running = asyncio.ensure_future(guarded(body()))
        await asyncio.sleep(0)
        await asyncio.gather(running, asyncio.create_task(other()))

    with pytest.raises(SystemExit):
        asyncio.run(main())


def test_a_factory_that_a_body_sets_stays() -> None:
    def factory(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        return asyncio.Task(coroutine, loop=loop, **options)

    async def body() -> None:
        asyncio.get_running_loop().set_task_factory(factory)

    async def main() -> Any:
        await guarded(body())
        return asyncio.get_running_loop().get_task_factory()

    assert asyncio.run(main()) is factory


def test_a_task_that_is_cancelled_before_it_begins_warns_of_nothing() -> None:
    async def child() -> None:
        raise AssertionError

    async def body() -> bool:
        task = asyncio.create_task(child())
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert asyncio.run(guarded(body())) is True


@pytest.mark.every_case
@pytest.mark.parametrize("in_c", [True, False])
def test_ctrl_c_in_a_body_ends_the_server(in_c: bool) -> None:
    def handle(*_: object) -> None:
        raise KeyboardInterrupt

    async def body() -> None:
        signal.raise_signal(signal.SIGINT)

    loop = asyncio.new_event_loop()
    before = signal.signal(signal.SIGINT, signal.default_int_handler if in_c else handle)
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.run_until_complete(guarded(body()))
    finally:
        signal.signal(signal.SIGINT, before)
        loop.close()


def test_a_step_that_holds_the_loop_is_logged_once_and_by_name(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def child() -> None:
        await asyncio.sleep(0)

    async def body() -> None:
        await asyncio.create_task(child())

    # Every step is longer.
    monkeypatch.setattr(guard, "_HELD_SECONDS", -1.0)
    with caplog.at_level(logging.WARNING, "mcp_django"):
        asyncio.run(guarded(body()))

    assert [record.getMessage().partition(" ms")[0].rstrip("0123456789") for record in caplog.records] == [
        "tool test held the event loop for "
    ]


def test_a_body_may_use_task_groups_and_timeouts() -> None:
    async def child(number: int) -> int:
        await asyncio.sleep(0)
        return number

    async def body() -> Any:
        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            tasks = [group.create_task(child(number), name=f"child {number}") for number in range(3)]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        return [task.result() for task in tasks], tasks[0].get_name(), tasks[0].get_coro().__qualname__.split(".")[-1]

    assert asyncio.run(guarded(body())) == ([0, 1, 2], "child 0", "child")
