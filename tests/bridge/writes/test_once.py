"""A change that is confirmed is made once, however often and by whomever it is sent."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from django.contrib.admin.models import CHANGE, LogEntry
from django.db import connection, connections, transaction
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.bridge.changes import change_rows
from mcp_django.bridge.changes import run as run_module
from mcp_django.bridge.changes.run import Run
from mcp_django.models import Change
from tests.bridge.writes.conftest import Writer, save_with
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import Message

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("transactional_db")]

UPDATE: Message = {"model": "flights.flight", "id": "3", "values": {"notes": "fog"}}
PAST = timedelta(seconds=1)
Saving = Callable[[Any, Any], None]


class Gate:
    """A save that begins, and waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.open = threading.Event(), threading.Event()
        self.count = 0

    def __call__(self, request: Any, obj: Any) -> None:
        self.count += 1
        self.begun.set()
        assert self.open.wait(60)


@pytest.fixture
def saving(declared: Declared, flights: Any) -> Callable[[Saving], None]:
    """Declares an admin of flights that calls a function before it saves."""
    return partial(save_with, declared)


@pytest.fixture
def saves(saving: Callable[[Saving], None]) -> list[Any]:
    """What the admin of flights saves."""
    found: list[Any] = []
    saving(lambda *saved: found.append(saved))
    return found


@pytest.fixture
def threads() -> Iterator[Callable[..., Future[Any]]]:
    """Runs functions in threads of their own, each with its own connection."""
    pool = ThreadPoolExecutor(8)

    def work(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        finally:
            connections.close_all()

    yield lambda function, *args, **kwargs: pool.submit(work, function, *args, **kwargs)
    pool.shutdown()


def previewed(agent: Writer, **values: Any) -> Message:
    """The arguments of an update, with the token of its preview."""
    arguments = {**UPDATE, "values": values or UPDATE["values"]}
    return {**arguments, "confirm": agent.ask("update_record", **arguments)["confirm"]}


def notes() -> str:
    return str(Flight.objects.get(pk=3).notes)


def entries() -> int:
    return LogEntry.objects.filter(action_flag=CHANGE).count()


# One token.


def test_a_call_that_is_repeated_gets_the_first_answer(root: Writer, flights: Any) -> None:
    confirmed = previewed(root)

    first = root.ask("update_record", **confirmed)
    Flight.objects.filter(pk=3).update(notes="changed by somebody else")
    again = root.ask("update_record", **confirmed)

    assert again == {**first, "replayed": True}
    assert notes() == "changed by somebody else"
    assert entries() == 1


def test_a_call_that_comes_while_the_first_one_writes_is_told_so(
    root: Writer, saving: Callable[[Saving], None], threads: Callable[..., Future[Any]]
) -> None:
    gate = Gate()
    saving(gate)
    confirmed = previewed(root)

    first = threads(root.ask, "update_record", **confirmed)
    assert gate.begun.wait(60)
    meanwhile = root.ask("update_record", **confirmed)
    asked = root.ask("get_change", change=meanwhile["change"])
    gate.open.set()

    assert meanwhile["status"] == asked["status"] == "writing"
    assert first.result(60)["status"] == "applied"
    assert root.ask("update_record", **confirmed) == {**first.result(), "replayed": True}
    assert (gate.count, entries()) == (1, 1)


def test_a_call_whose_rows_another_one_with_its_token_writes_before_it_reads_them(
    root: Writer, writer: Callable[..., Writer], users: Users, saves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed, other = previewed(root), writer(users.admin)
    looked, faster = change_rows.confirmed_by, []

    def look(*call: Any) -> Change | None:
        found = looked(*call)
        if not faster:
            faster.append({})
            faster.append(other.ask("update_record", **confirmed))
        return found

    monkeypatch.setattr(change_rows, "confirmed_by", look)

    slower = root.ask("update_record", **confirmed)

    assert slower == {**faster[1], "replayed": True}
    assert (entries(), Change.objects.count()) == (1, 1)


def test_calls_at_the_same_time_write_once(
    root: Writer, writer: Callable[..., Writer], users: Users, saves: list[Any], threads: Callable[..., Future[Any]]
) -> None:
    confirmed, together = previewed(root), threading.Barrier(4, timeout=60)

    def call(agent: Writer) -> Message:
        together.wait()
        return agent.ask("update_record", **confirmed)

    calls = [threads(call, writer(users.admin)) for _ in range(4)]
    answers = [one.result(120) for one in calls]

    assert {answer["status"] for answer in answers} <= {"applied", "writing"}
    assert len({answer["change"] for answer in answers}) == 1
    assert len([one for one in answers if one["status"] == "applied" and "replayed" not in one]) == 1
    assert (len(saves), entries(), Change.objects.count()) == (1, 1, 1)


# Two tokens for one row.


def test_of_two_changes_of_one_row_at_the_same_time_the_second_is_refused(
    root: Writer, writer: Callable[..., Writer], users: Users, saving: Callable[[Saving], None],
    threads: Callable[..., Future[Any]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Both have found the row as it was shown, and claimed their changes, before one of them has written."""
    gate, other = Gate(), writer(users.admin)
    saving(gate)
    first, second = previewed(root), previewed(other, status="delayed")
    reached = threading.Event()
    # On SQLite the first one holds the only lock, for which the second one waits earlier.
    owner, name = (change_rows, "store") if connection.vendor == "sqlite" else (Run, "_write")
    proceed = getattr(owner, name)

    def reach(*args: Any, **kwargs: Any) -> Any:
        if gate.begun.is_set():
            reached.set()
        return proceed(*args, **kwargs)

    monkeypatch.setattr(owner, name, reach)
    writes = threads(root.ask, "update_record", **first)
    assert gate.begun.wait(60)
    waits = threads(other.refused, "update_record", **second)
    assert reached.wait(60)
    gate.open.set()

    assert writes.result(60)["status"] == "applied"
    assert "What is there has changed since." in waits.result(60)
    assert (Flight.objects.get(pk=3).status, notes()) == ("on_time", "fog")
    assert (gate.count, entries(), Change.objects.count()) == (1, 1, 1)


# Runs that are gone, or were thought to be.


@contextmanager
def before_writing(monkeypatch: pytest.MonkeyPatch, then: Callable[[Any], None]) -> Iterator[None]:
    """Calls a function in the first run, between its claim and its write."""
    write, is_first = Run._write, [True]

    def write_later(run: Any) -> Any:
        if is_first.pop() if is_first else False:
            then(run)
        return write(run)

    with monkeypatch.context() as patched:
        patched.setattr(Run, "_write", write_later)
        yield


def test_a_run_that_was_overtaken_writes_nothing(
    root: Writer, writer: Callable[..., Writer], users: Users, saves: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease was over while it stood still, and the client had sent its call again."""
    confirmed, overtaking = previewed(root), []

    def overtake(run: Any) -> None:
        Change.objects.update(lease_until=timezone.now() - PAST)
        overtaking.append(writer(users.admin).ask("update_record", **confirmed))

    with before_writing(monkeypatch, overtake):
        overtaken = root.ask("update_record", **confirmed)

    assert overtaking[0]["status"] == "applied"
    assert overtaken == {**overtaking[0], "replayed": True}
    assert (len(saves), entries(), Change.objects.count()) == (1, 1, 1)


def test_a_run_that_was_overtaken_by_one_that_failed_writes_nothing(
    root: Writer, writer: Callable[..., Writer], users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    confirmed = previewed(root)

    def overtake(run: Any) -> None:
        Change.objects.update(lease_until=timezone.now() - PAST)
        with monkeypatch.context() as patched:
            patched.setattr(run_module, "_lock", _fail)
            writer(users.admin).refused("update_record", **confirmed)

    with before_writing(monkeypatch, overtake):
        refused = root.refused("update_record", **confirmed)

    assert "Another call with this token failed at the same time. Nothing was changed. Call again." in refused
    assert root.ask("update_record", **confirmed)["status"] == "applied"
    assert entries() == 1


def _fail(*_: Any) -> None:
    raise RuntimeError("the line is cut")


def leave_behind(agent: Writer, confirmed: Message, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of which nobody has settled what it left, as after the end of its process."""
    with monkeypatch.context() as patched:
        patched.setattr(run_module, "_lock", _fail)
        patched.setattr(Run, "_settled", lambda *_: None)
        agent.refused("update_record", **confirmed)


def test_a_call_is_made_again_once_its_run_is_gone(root: Writer, flights: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    confirmed = previewed(root)
    leave_behind(root, confirmed, monkeypatch)

    meanwhile = root.ask("update_record", **confirmed)
    Change.objects.update(lease_until=timezone.now() - PAST)
    again = root.ask("update_record", **confirmed)

    assert meanwhile["status"] == "writing"
    assert again["status"] == "applied"
    assert "replayed" not in again
    assert (notes(), entries()) == ("fog", 1)


def test_two_calls_after_a_run_that_is_gone_write_once(
    root: Writer, writer: Callable[..., Writer], users: Users, saves: list[Any],
    threads: Callable[..., Future[Any]], monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    confirmed, together = previewed(root), threading.Barrier(2, timeout=60)
    leave_behind(root, confirmed, monkeypatch)
    Change.objects.update(lease_until=timezone.now() - PAST)
    claim = change_rows.claim

    def claim_together(change: Change) -> bool:
        together.wait()
        return claim(change)

    monkeypatch.setattr(change_rows, "claim", claim_together)
    calls = [threads(writer(users.admin).ask, "update_record", **confirmed) for _ in range(2)]
    answers = [one.result(120) for one in calls]

    assert {answer["status"] for answer in answers} <= {"applied", "writing"}
    assert (len(saves), entries(), Change.objects.count()) == (1, 1, 1)


# What fails.


def test_a_callback_that_fails_after_the_commit_does_not_hide_the_change(
    root: Writer, saving: Callable[[Saving], None], caplog: pytest.LogCaptureFixture
) -> None:
    saving(lambda *_: transaction.on_commit(lambda: 1 / 0))
    confirmed = previewed(root)

    answer = root.ask("update_record", **confirmed)

    assert answer["status"] == "applied"
    assert answer["diff"] == [{"field": "notes", "before": "note 2", "after": "fog"}]
    assert root.ask("update_record", **confirmed) == {**answer, "replayed": True}
    assert notes() == "fog"
    assert "ZeroDivisionError" in caplog.text


def test_a_connection_that_is_lost_after_the_commit_does_not_hide_the_change(
    root: Writer, saving: Callable[[Saving], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was stored cannot be read again, but it was committed."""
    saving(lambda *_: transaction.on_commit(partial(_fail)))
    confirmed = previewed(root)
    with monkeypatch.context() as patched:
        patched.setattr(change_rows, "again", _fail)
        patched.setattr(change_rows, "give_up", _fail)
        answer = root.ask("update_record", **confirmed)

    assert answer["status"] == "applied"
    assert notes() == "fog"


def test_a_request_that_is_stopped_leaves_its_token_to_be_used_again(
    root: Writer, saving: Callable[[Saving], None]
) -> None:
    """Every further query of such a request is refused, and so would be those that settle what it leaves."""
    stops = [True]

    def stop(request: Any, obj: Any) -> None:
        obj.save()
        if stops:
            stops.pop()
            request.mcp.cancellation.queries.interrupted = True
            request.mcp.cancellation.expire()

    saving(stop)
    confirmed = previewed(root)

    error = root.error("2026-07-28", "tools/call", {"name": "update_record", "arguments": confirmed})
    left, kept = notes(), Change.objects.count()
    again = root.ask("update_record", **confirmed)

    assert error["data"]["reason"] == "REQUEST_TIMED_OUT"
    assert (left, kept) == ("note 2", 0)
    assert again["status"] == "applied"


# SQLite, whose transactions begin without a lock by default.


@pytest.fixture
def deferred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections as Django makes them without options."""
    if connection.vendor != "sqlite":
        pytest.skip("a matter of SQLite alone")
    monkeypatch.setitem(connections.settings["default"]["OPTIONS"], "transaction_mode", None)
    monkeypatch.setattr(connection, "transaction_mode", None)


@pytest.mark.parametrize("name", ["mark_applied", "store"])
def test_on_sqlite_a_run_and_a_claim_wait_for_another_connection_that_writes(
    root: Writer, saves: list[Any], deferred: None, threads: Callable[..., Future[Any]],
    monkeypatch: pytest.MonkeyPatch, name: str,
) -> None:  # fmt: skip
    """A transaction that has read before it writes would fail at once, whatever the timeout."""
    confirmed, proceed = previewed(root), getattr(change_rows, name)
    holds, comes = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            Flight.objects.filter(pk=4).update(notes="held")
            holds.set()
            assert comes.wait(60)

    def wait_for_it(*args: Any, **kwargs: Any) -> Any:
        holding = threads(hold)
        assert holds.wait(60)
        comes.set()
        made = proceed(*args, **kwargs)
        holding.result(60)
        return made

    monkeypatch.setattr(change_rows, name, wait_for_it)
    answer = root.ask("update_record", **confirmed)

    assert answer["status"] == "applied"
    assert (notes(), Flight.objects.get(pk=4).notes, len(saves)) == ("fog", "held", 1)


def test_on_sqlite_a_run_does_not_mind_a_connection_that_reads(
    root: Writer, flights: Any, deferred: None, threads: Callable[..., Future[Any]]
) -> None:
    confirmed = previewed(root)
    reads, done = threading.Event(), threading.Event()

    def read() -> str:
        with transaction.atomic():
            first = notes()
            reads.set()
            assert done.wait(60)
            return f"{first}, {notes()}"

    reading = threads(read)
    assert reads.wait(60)
    answer = root.ask("update_record", **confirmed)
    done.set()

    assert answer["status"] == "applied"
    assert reading.result(60) == "note 2, note 2"
    assert notes() == "fog"
