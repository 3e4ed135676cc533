"""The recorder: what it writes, when, and what it says of lines that it could not write."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DataError, OperationalError, ProgrammingError, connection, transaction
from django.test.utils import CaptureQueriesContext

from mcp_django.audit import recorder as recorders
from mcp_django.audit import table
from mcp_django.audit.lines import Line, line
from mcp_django.audit.recorder import Recorder
from mcp_django.audit.signals import call_recorded
from mcp_django.models import Call


def one(number: int, **values: Any) -> Line:
    return line(1_000_000.0 + number, kind="call", outcome="done", name=f"tool_{number}", **values)


@pytest.fixture
def recorder(transactional_db: None) -> Iterator[Recorder]:
    yield Recorder()


@pytest.fixture
def deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The recorder behaves as outside of a test run: it writes in a thread of its own."""
    monkeypatch.setattr(recorders, "is_test_run", lambda: False)


@pytest.fixture
def stuck(deployed: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread of the recorder ever runs."""
    monkeypatch.setattr(Recorder, "_start", lambda self: None)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its first number is the time of the recorder."""
    moment = [100.0]
    monkeypatch.setattr(recorders.time, "monotonic", lambda: moment[0])
    return moment


@contextmanager
def away(error: Exception) -> Iterator[None]:
    """Each INSERT raises the error."""

    def fail(lines: Any) -> Any:
        raise error

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(table, "_insert", fail)
        yield


def names() -> list[str]:
    return list(Call.objects.order_by("pk").values_list("name", flat=True))


@pytest.mark.every_database
def test_lines_are_written_in_their_order_by_one_statement(recorder: Recorder, stuck: None) -> None:
    for number in range(3):
        recorder.put((one, number))

    with CaptureQueriesContext(connection) as queries:
        assert recorder.flush()

    assert names() == ["tool_0", "tool_1", "tool_2"]
    assert sum("INSERT" in query["sql"] for query in queries.captured_queries) == 1


def test_a_thread_writes_without_being_asked(
    recorder: Recorder, deployed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = threading.Event()
    insert = table.insert

    def insert_and_tell(lines: Any) -> Any:
        done = insert(lines)
        written.set()
        return done

    monkeypatch.setattr(table, "insert", insert_and_tell)
    monkeypatch.setattr(recorders, "_IDLE_SECONDS", 0.01)

    recorder.put((one, 1))

    assert written.wait(60)
    assert names() == ["tool_1"]


def test_a_queue_that_is_full_counts_what_it_could_not_take(
    recorder: Recorder, stuck: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "MAX_WAITING", 2)

    for number in range(5):
        recorder.put((one, number))
    recorder.flush()

    assert list(Call.objects.order_by("pk").values_list("kind", "name", "count")) == [
        ("call", "tool_0", 1),
        ("call", "tool_1", 1),
        ("lost", "", 3),
    ]


def test_a_line_that_the_database_refuses_costs_no_other(
    recorder: Recorder, stuck: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    parameters = table._parameters

    def refuse_one(connection: Any, made: Line) -> Any:
        if made[table.COLUMNS.index("name")] == "tool_3":
            raise DataError("too long")
        return parameters(connection, made)

    monkeypatch.setattr(table, "_parameters", refuse_one)

    for number in range(7):
        recorder.put((one, number))
    recorder.flush()
    recorder.flush()

    assert names() == ["tool_0", "tool_1", "tool_2", "tool_4", "tool_5", "tool_6", ""]
    assert Call.objects.get(kind="lost").count == 1


def test_a_line_that_cannot_be_made_costs_no_other(recorder: Recorder, stuck: None) -> None:
    def broken(number: int) -> Line:
        raise LookupError(number)

    recorder.put((one, 1))
    recorder.put((broken, 2))
    recorder.flush()

    assert names() == ["tool_1", ""]
    assert Call.objects.get(kind="lost").count == 1


def test_lines_wait_while_the_database_or_its_table_is_away_and_are_written_afterwards(
    recorder: Recorder, stuck: None
) -> None:
    errors = [OperationalError("the server has gone away"), ProgrammingError("relation does not exist")]
    for number, error in enumerate(errors):
        with away(error):
            recorder.put((one, 2 * number))
            assert not recorder.flush()
            recorder.put((one, 2 * number + 1))
            assert not recorder.flush()
        assert recorder.flush()

    assert names() == ["tool_0", "tool_1", "tool_2", "tool_3"]


def test_lines_beyond_those_that_may_wait_are_counted(
    recorder: Recorder, stuck: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorders, "MAX_WAITING", 3)
    with away(OperationalError("the server has gone away")):
        for number in range(5):
            recorder.put((one, number))
            recorder.flush()
    recorder.flush()
    recorder.flush()

    lost = Call.objects.get(kind="lost")
    assert names()[:3] == ["tool_0", "tool_1", "tool_2"]
    assert lost.count == 2


def test_a_call_writes_what_waits_too_long(recorder: Recorder, stuck: None, clock: list[float]) -> None:
    recorder.put((one, 1))
    clock[0] += 4
    recorder.put((one, 2))
    assert names() == []
    clock[0] += 2
    recorder.put((one, 3))

    assert names() == ["tool_1", "tool_2", "tool_3"]


@pytest.mark.every_database
def test_a_call_in_a_transaction_does_not_write_what_a_rollback_would_undo(
    recorder: Recorder, stuck: None, clock: list[float]
) -> None:
    recorder.put((one, 1))
    clock[0] += 10

    with transaction.atomic():
        recorder.put((one, 2))
        inside = names()

    assert inside == []
    assert recorder.flush() and names() == ["tool_1", "tool_2"]


def test_a_call_on_an_event_loop_does_not_write(recorder: Recorder, stuck: None, clock: list[float]) -> None:
    recorder.put((one, 1))
    clock[0] += 10

    async def put() -> None:
        recorder.put((one, 2))

    asyncio.run(put())

    assert recorder.has_waiting and names() == []


def test_a_run_of_tests_writes_nothing_at_its_end_when_its_database_is_gone(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def on_a_loop() -> None:
        recorder.put((one, 1))

    asyncio.run(on_a_loop())
    monkeypatch.setattr(recorders, "recorder", recorder)
    monkeypatch.setattr(recorders, "is_test_run", lambda: False)

    recorders._flush_at_exit()

    assert names() == []
    assert recorder.has_waiting


def test_the_child_of_a_fork_does_not_write_what_waits_in_its_parent(recorder: Recorder, stuck: None) -> None:
    recorder.put((one, 1))

    recorder._reset()

    assert not recorder.has_waiting


@pytest.mark.every_database
def test_values_that_are_too_long_are_cut(recorder: Recorder, stuck: None) -> None:
    recorder.put((lambda: one(1, user_name="u" * 500, rows=2**40, reason="r" * 99),))
    recorder.flush()

    row = Call.objects.get()
    assert (len(row.user_name), row.rows, len(row.reason)) == (150, 2**31 - 1, 64)


def test_lines_that_a_halved_batch_wrote_before_an_outage_are_not_written_twice(
    recorder: Recorder, stuck: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = table._insert
    names_seen: list[int] = []

    def refuse_then_fail(lines: Any) -> Any:
        names_seen.append(len(lines))
        if len(lines) == 4:
            raise DataError("too long")
        if len(names_seen) == 3:
            raise OperationalError("the server has gone away")
        return insert(lines)

    monkeypatch.setattr(table, "_insert", refuse_then_fail)
    for number in range(4):
        recorder.put((one, number))
    assert not recorder.flush()
    assert names() == ["tool_0", "tool_1"]
    monkeypatch.setattr(table, "_insert", insert)

    assert recorder.flush()

    assert names() == ["tool_0", "tool_1", "tool_2", "tool_3"]


@pytest.mark.every_database
def test_a_project_without_time_zones_has_a_trail(recorder: Recorder, stuck: None, settings: Any) -> None:
    settings.USE_TZ = False

    recorder.put((one, 1))
    recorder.count("mcp", "request", "refused", "http", "UNAUTHENTICATED", "")
    assert recorder.flush()

    assert Call.objects.count() == 2


def test_a_receiver_may_do_what_is_written_down(recorder: Recorder) -> None:
    seen: list[str] = []

    def hear(call: Any, **_: Any) -> None:
        seen.append(call["name"])
        if call["name"] == "tool_1":
            recorder.put((one, 2))

    call_recorded.connect(hear)
    try:
        recorder.put((one, 1))
    finally:
        call_recorded.disconnect(hear)

    assert seen == ["tool_1", "tool_2"] and names() == ["tool_1", "tool_2"]
