"""The threads in which bodies reach the database."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.contrib.auth.models import User
from django.db import connection, connections

from mcp_django.core.db.interrupts import Interruptible
from mcp_django.core.running.executor import BodyExecutor, Permits


def made(permits: Permits, key: str = "user:1") -> BodyExecutor:
    return BodyExecutor(permits, key, Interruptible())


def holding(permits: Permits, key: str = "user:1") -> BodyExecutor:
    """A body that has its thread, and so a permit."""
    executor = made(permits, key)
    executor.submit(threading.get_ident).result(30)
    return executor


def ended(executor: BodyExecutor) -> None:
    left = threading.Event()
    executor.end(left.set)
    assert left.wait(30)


def no_thread(_: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_each_body_has_a_thread_and_connections_of_its_own(transactional_db: None) -> None:
    permits = Permits(2)

    def leave() -> tuple[int, int]:
        connection.note = "left by the first"  # type: ignore[attr-defined]
        connection.execute_wrappers.append(lambda execute, *args: execute(*args))
        connection.set_autocommit(False)
        User.objects.exists()
        return threading.get_ident(), id(connections["default"])

    def look() -> tuple[bool, int, bool]:
        User.objects.exists()
        return hasattr(connection, "note"), len(connection.execute_wrappers), connection.get_autocommit()

    first, second = made(permits), made(permits)
    assert first.submit(leave).result(30) == first.submit(leave).result(30)
    ended(first)

    # Nothing but our own wrapper.
    assert second.submit(look).result(30) == (False, 1, True)
    ended(second)


def test_bodies_of_a_principal_get_their_permits_in_order_and_those_of_others_between(transactional_db: None) -> None:
    permits, served, lock = Permits(2), list[str](), threading.Lock()
    holders = [holding(permits, "a"), holding(permits, "b")]
    waiting = [(name, made(permits, name[0])) for name in ("a1", "a2", "b1", "a3")]

    def serve(name: str) -> None:
        with lock:
            served.append(name)

    futures = [executor.submit(serve, name) for name, executor in waiting]
    assert not any(future.done() for future in futures)
    ended(holders[0])
    for name in ("a1", "a2", "a3"):
        dict(waiting)[name].submit(threading.get_ident).result(30)
        ended(dict(waiting)[name])
    assert served == ["a1", "a2", "a3"]
    ended(holders[1])
    assert futures[2].result(30) is None
    ended(waiting[2][1])
    assert permits._free == 2


def test_a_call_that_was_cancelled_while_it_waited_takes_no_permit() -> None:
    permits = Permits(2)
    holder, waiter = holding(permits), made(permits)

    assert waiter.submit(threading.get_ident).cancel()
    ended(holder)

    assert permits._free == 2
    # Its next call asks again.
    waiter.submit(threading.get_ident).result(30)
    assert permits._free == 1
    ended(waiter)


def test_a_body_that_ends_while_it_waits_cancels_its_calls() -> None:
    permits = Permits(2)
    holder, waiter = holding(permits), made(permits)

    future = waiter.submit(threading.get_ident)
    ended(waiter)

    assert future.cancelled()
    ended(holder)
    assert permits._free == 2 and not permits._waiting and not permits._held


def test_a_body_without_a_thread_gets_an_error_and_the_permit_comes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    permits, executor = Permits(2), made(Permits(2))
    many = [made(permits, f"user:{number}") for number in range(5)]

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        futures = [one.submit(threading.get_ident) for one in (executor, *many)]

    assert [str(future.exception(30)) for future in futures] == [
        "No thread could be started in which the function reaches the database."
    ] * 6
    assert permits._free == 2
    # The next call asks again.
    assert many[0].submit(len, "abc").result(30) == 3
    ended(many[0])


def test_thousands_that_wait_are_refused_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    permits = Permits(1)
    holder = holding(permits, "holder")
    futures = [made(permits, f"user:{number}").submit(threading.get_ident) for number in range(3_000)]

    monkeypatch.setattr(threading.Thread, "start", no_thread)
    ended(holder)

    assert all(isinstance(future.exception(30), RuntimeError) for future in futures)
    assert permits._free == 1


@pytest.mark.every_case
@pytest.mark.parametrize("step", ["begin", "end"])
def test_an_error_of_the_preparation_is_told_and_one_of_the_end_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    def fail(_: Interruptible) -> None:
        raise ValueError(step)

    monkeypatch.setattr(Interruptible, step, fail)
    permits = Permits(1)
    executor = made(permits)

    future = executor.submit(threading.get_ident)

    assert (future.exception(30) is None) is (step == "end")
    ended(executor)
    assert ("could not be cleared" in caplog.text) is (step == "end")
    assert permits._free == 1


def test_the_thread_ends_with_the_body_and_nothing_runs_in_it_afterwards() -> None:
    executor = made(Permits(1))
    thread = executor.submit(threading.current_thread).result(30)

    ended(executor)
    thread.join(60)

    assert not thread.is_alive()
    with pytest.raises(RuntimeError, match="The function has ended"):
        executor.submit(threading.get_ident)


def test_an_interrupt_before_the_first_part_is_over_with_the_part() -> None:
    """The part begins between the two looks of the interrupt, which waits until it has ended."""
    queries, parts = Interruptible(), ThreadPoolExecutor(1)
    waiting = _set_when_asked(queries)

    parts.submit(queries.begin).result(30)
    assert not waiting.is_set()
    parts.submit(queries.end).result(30)

    assert waiting.is_set()
    parts.shutdown()


def _set_when_asked(queries: Interruptible) -> threading.Event:
    """The event of an interrupt that waits."""
    queries._waiting = threading.Event()
    return queries._waiting
