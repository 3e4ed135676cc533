"""Work in a thread of its own."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event

import pytest

from mcp_django.core.running.own_thread import TooLate, in_own_thread_if_it_begins


def test_work_that_does_not_begin_in_time_is_never_done() -> None:
    """What comes before it waits for a lock that is held here."""
    lock, ended, done = Event(), Event(), []

    def run(begin: Callable[[], None]) -> None:
        lock.wait(60)
        try:
            begin()
            done.append(True)
        finally:
            ended.set()

    with pytest.raises(TooLate):
        in_own_thread_if_it_begins(run, 0.01)
    lock.set()

    assert ended.wait(60) and done == []


def test_work_that_has_begun_is_awaited_and_an_error_before_it_is_raised() -> None:
    def run(begin: Callable[[], None]) -> int:
        begin()
        return 1

    def fail(begin: Callable[[], None]) -> int:
        raise ValueError

    assert in_own_thread_if_it_begins(run, 60) == 1
    with pytest.raises(ValueError):
        in_own_thread_if_it_begins(fail, 60)
