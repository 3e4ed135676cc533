"""What is called back after a while, by one thread for all."""

from __future__ import annotations

import os
import threading
import weakref
from types import SimpleNamespace

import pytest

from mcp_django.core.running.deadlines import Deadlines, deadlines


def clock_threads() -> int:
    return sum(thread.name == "mcp_django_deadlines" for thread in threading.enumerate())


def test_what_ends_before_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("mcp_django.core.running.deadlines.time", SimpleNamespace(monotonic=lambda: now[0]))
    clock = Deadlines()
    early, late = threading.Event(), threading.Event()

    with clock.within(20, late.set):
        with clock.within(10, early.set):
            pass
        now[0] = 30.0
        with clock._waiting:
            clock._waiting.notify()
        assert late.wait(60)

    assert not early.is_set()


def test_an_earlier_end_overtakes_a_later_one() -> None:
    clock = Deadlines()
    late, early = threading.Event(), threading.Event()
    with clock.within(60, late.set), clock.within(0.05, early.set):
        assert early.wait(30)
    assert not late.is_set()


def test_what_has_ended_in_time_is_not_kept_until_its_time_would_have_come() -> None:
    clock = Deadlines()

    with clock.within(60, print):
        with clock.within(61, print), clock.within(62, print):
            assert len(clock._heap) == 3
        assert len(clock._heap) == 3
    assert clock._heap == []


def test_many_deadlines_share_one_thread() -> None:
    clock = Deadlines()
    told = threading.Barrier(11)
    before = clock_threads()
    waiting = [clock.within(60, told.abort) for _ in range(10)]
    for one in waiting:
        one.__enter__()
    assert clock_threads() == before + 1
    for one in waiting:
        one.__exit__(None, None, None)


def test_what_takes_too_long_is_told_though_another_one_fails() -> None:
    clock = Deadlines()
    told = threading.Event()

    def fail() -> None:
        raise ValueError

    with clock.within(0.01, fail), clock.within(0.05, told.set):
        assert told.wait(30)


def test_the_child_of_a_fork_has_deadlines_of_its_own() -> None:
    with deadlines.within(60, lambda: None):
        child = os.fork()
        if not child:
            told = threading.Event()
            with deadlines.within(0.01, told.set):
                os._exit(0 if told.wait(30) else 1)
        assert os.waitpid(child, 0)[1] == 0


def test_what_is_over_is_not_held_until_its_end_would_have_come() -> None:
    class Request:
        def expire(self) -> None: ...

    request = Request()
    gone = weakref.ref(request)
    clock = Deadlines()
    with clock.within(60, request.expire):
        pass
    del request
    assert gone() is None
