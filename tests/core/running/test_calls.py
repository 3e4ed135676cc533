"""Calls from threads to a loop."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.core.running.guard import call_soon

word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


class Counting(asyncio.SelectorEventLoop):
    woken = 0

    def call_soon_threadsafe(self, *args: Any, **values: Any) -> asyncio.Handle:
        self.woken += 1
        return super().call_soon_threadsafe(*args, **values)


def run(work: Callable[[Counting], Any]) -> None:
    """Call ``work`` in another thread while the loop has no turn, and give it its turns then."""
    loop = Counting()
    try:

        async def main() -> None:
            thread = threading.Thread(target=work, args=(loop,))
            thread.start()
            thread.join(30)
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        loop.run_until_complete(main())
    finally:
        loop.close()


def test_a_loop_is_woken_once_for_calls_that_wait_and_makes_them_in_order() -> None:
    made: list[int] = []
    woken: list[int] = []

    def work(loop: Counting) -> None:
        for number in range(5):
            call_soon(loop, made.append, number)
        woken.append(loop.woken)

    run(work)

    assert made == [0, 1, 2, 3, 4]
    assert woken == [1]


def test_a_call_that_fails_leaves_the_others_alone(caplog: pytest.LogCaptureFixture) -> None:
    made: list[str] = []

    def fail() -> None:
        raise ValueError

    def work(loop: Counting) -> None:
        call_soon(loop, fail)
        call_soon(loop, made.append, "made")

    with caplog.at_level(logging.ERROR, "mcp_django"):
        run(work)

    assert made == ["made"]
    assert "A call on the event loop failed" in caplog.text


def test_a_call_has_not_the_context_of_another_request() -> None:
    found: list[str] = []

    def work(loop: Counting) -> None:
        word.set("of a request")
        call_soon(loop, lambda: found.append(word.get()))

    run(work)

    assert found == ["unset"]


@pytest.mark.parametrize("is_woken", [False, True])
def test_a_closed_loop_is_told_each_time(is_woken: bool) -> None:
    loop = asyncio.new_event_loop()
    if is_woken:
        call_soon(loop, print)
    loop.close()

    for _ in range(2):
        with pytest.raises(RuntimeError, match="closed"):
            call_soon(loop, print)
