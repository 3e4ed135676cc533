"""``manage.py mcp_audit``: what each option prints, following what is written, and deleting old lines."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from mcp_django.core.db import clearing
from mcp_django.management import audit_follower
from mcp_django.management.audit_follower import IDS_BACK, SECONDS_AGAIN, Follower
from mcp_django.management.commands import mcp_audit
from mcp_django.models import Call, call_queries
from tests.support.calls import NOON, count_anew, make_call, make_many, plan_of

pytestmark = pytest.mark.django_db

SINCE = ("--since", "2026-11-01")


def run(*arguments: str) -> tuple[str, str]:
    out, err = StringIO(), StringIO()
    call_command("mcp_audit", *arguments, stdout=out, stderr=err)
    return out.getvalue(), err.getvalue()


def ids(out: str) -> list[int]:
    """The ids of the lines of JSON."""
    return [json.loads(line)["id"] for line in out.splitlines()]


def keys(*arguments: str) -> list[int]:
    return ids(run("--json", *SINCE, *arguments)[0])


# What is printed.


def test_columns_for_people() -> None:
    make_call(outcome="refused", reason="TOOL_NOT_FOUND", at=NOON)
    make_call(at=NOON + timedelta(seconds=1), kind="lost", count=3, outcome="unknown", user_name="", user_id="",
              token_name="", token_id=None, client_name="", model="", address="", rows=0, ms=0)  # fmt: skip

    out, err = run(*SINCE)

    assert [line.split("  ") for line in _narrow(out)] == [
        ["time", "user", "token", "client", "what", "model", "outcome"],
        ["2026-11-22 12:00:00", "ada", "laptop", "claude-code", "find_records", "flights.flight",
         "refused: TOOL_NOT_FOUND, 20 rows, 12 ms"],
        ["2026-11-22 12:00:01", "-", "-", "-", "3 lines not written", "-", "unknown, 0 rows, 0 ms"],
    ]  # fmt: skip
    assert err == ""


def _narrow(out: str) -> list[str]:
    """The lines with two spaces between columns."""
    return ["  ".join(cell.strip() for cell in line.split("  ") if cell.strip()) for line in out.splitlines()]


def test_json_has_every_column_and_arguments_that_are_none_are_a_text() -> None:
    call = make_call(keys=" 17 18 ", values='{"status": "open"}')
    make_call(arguments='["cut', values="")

    line, cut = (json.loads(text) for text in run("--json", *SINCE)[0].splitlines())

    assert set(line) == {field.attname for field in Call._meta.concrete_fields}
    assert line["at"] == "2026-11-22T12:00:00-05:00"
    assert (line["id"], line["keys"], line["arguments"]) == (call.pk, ["17", "18"], ["model"])
    assert line["values"] == {"status": "open"}
    assert (cut["arguments"], cut["values"]) == ('["cut', None)


def test_an_escape_sequence_of_a_client_reaches_no_terminal() -> None:
    make_call(client_name="\x1b[2J\x9b1m", user_name="a\nb", name="\u202ecod")

    people, program = run(*SINCE)[0], run("--json", *SINCE)[0]

    assert not {"\x1b", "\x9b", "\u202e"} & set(people + program)
    assert len(people.splitlines()) == 2 and len(program.splitlines()) == 1
    assert json.loads(program)["client_name"] == "\x1b[2J\x9b1m"


@pytest.mark.every_database
def test_the_oldest_line_comes_first_and_a_long_list_has_each_line_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_queries, "PAGE", 10)
    late = make_call(at=NOON + timedelta(hours=1)).pk
    make_many(15)
    same_time = [make_call().pk for _ in range(25)]

    found = keys()

    assert found[-1] == late
    assert found[-26:-1] == same_time
    assert len(found) == len(set(found)) == 41


def test_a_list_without_lines_says_so() -> None:
    out, err = run("--user", "nobody")

    assert len(out.splitlines()) == 1
    assert err == "No line of the audit trail matches.\n"
    assert run("--user", "nobody", "--json")[0] == ""


# Which lines.


@pytest.mark.every_database
def test_an_option_finds_what_it_names_alone() -> None:
    call = make_call()
    others: list[tuple[list[str], dict[str, Any]]] = [
        (["--user", "3"], {"user_id": "4", "user_name": "bob"}),
        (["--user", "ada"], {"user_id": "4", "user_name": "bob"}),
        (["--token", "5"], {"token_id": 6}),
        (["--token", "laptop"], {"token_name": "other"}),
        (["--tool", "find_records"], {"name": "get_record"}),
        (["--model", "flights.Flight"], {"model": "flights.airport"}),
        (["--kind", "call"], {"kind": "read"}),
        (["--outcome", "done"], {"outcome": "refused"}),
        (["--user", "ada", "--outcome", "done"], {"outcome": "refused"}),
    ]  # fmt: skip
    for arguments, other in others:
        left_out = make_call(**other)
        assert keys(*arguments) == [call.pk], arguments
        left_out.delete()


@pytest.mark.every_database
def test_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three calls: at noon, at half past, and on the day before. It is one o'clock."""
    calls = [make_call(at=NOON), make_call(at=NOON + timedelta(minutes=30)), make_call(at=NOON - timedelta(days=1))]
    monkeypatch.setattr(timezone, "now", lambda: NOON + timedelta(hours=1))
    expected: list[tuple[list[str], list[int]]] = [
        (["--since", "2026-11-22"], [0, 1]),
        (["--since", "2026-11-22", "--until", "2026-11-22"], [0, 1]),
        (["--since", "2026-11-21", "--until", "2026-11-21"], [2]),
        (["--since", "2026-11-22T12:00"], [0, 1]),
        (["--since", "2026-11-22T12:00:01"], [1]),
        (["--since", "2026-11-22T17:00:01+00:00"], [1]),
        (["--since", "2026-11-22", "--until", "2026-11-22T12:00:01"], [0]),
        (["--since", "30m"], [1]),
        (["--since", "1h"], [0, 1]),
        (["--since", "2d"], [0, 1, 2]),
        (["--since", "1w", "--until", "1h"], [2]),
        (["--since", "3600s"], [0, 1]),
        ([], [0, 1]),
    ]  # fmt: skip
    numbers = {call.pk: number for number, call in enumerate(calls)}

    assert [(given, sorted(numbers[pk] for pk in ids(run("--json", *given)[0]))) for given, _ in expected] == expected


def test_a_mistake_is_told_with_its_remedy() -> None:
    mistakes = [
        (["--since", "yesterday"], "--since: 'yesterday' is no moment. Name a day (2026-11-01), "
         "a time (2026-11-01T14:30) "
         "or an age (30s, 5m, 1h, 2d, 1w)."),
        (["--until", "2026-02-30"], "--until: '2026-02-30' is no moment. Name a day"),
        (["--since", "999999999w"], "--since: '999999999w' is no moment."),
        (["--since", "0001-01-01"], "--since: '0001-01-01' is no moment."),
        (["--since", "1y"], "--since: '1y' is no moment."),
        (["--follow", "--until", "1h"], "--follow runs until Ctrl-C: leave out --until."),
        (["--clear", "--user", "ada"], "--clear deletes all lines that are older than AUDIT_DAYS: leave out --user."),
        (["--clear", "--since", "1h"], "--clear deletes all lines that are older than AUDIT_DAYS: leave out --since."),
        (["--clear", "--json"], "--clear deletes all lines that are older than AUDIT_DAYS: leave out --json."),
        (["--clear", "--follow"], "not allowed with argument"),
        (["--kind", "x"], "invalid choice: 'x'"),
        (["--outcome", "x"], "invalid choice: 'x'"),
    ]  # fmt: skip
    for arguments, text in mistakes:
        with pytest.raises(CommandError) as raised:
            run(*arguments)
        assert text in str(raised.value)


# Following.


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def new(follower: Follower) -> list[int]:
    return [call.pk for call in follower.new()]


@pytest.mark.every_database
def test_following_gives_each_line_once_and_no_others_than_a_list(clock: Clock) -> None:
    before = [make_call().pk for _ in range(2)]
    follower, narrow = Follower(Call.objects.all(), clock), Follower(Call.objects.filter(outcome="refused"), clock)
    between = make_call().pk

    present = [call.pk for call in follower.present(Call.objects.all())]
    nothing = new(follower)
    written = [make_call().pk, make_call(outcome="refused").pk]
    then, again = new(follower), new(follower)

    assert present == [*before, between], "also one that came between its two first looks"
    assert then == written
    assert nothing == again == []
    assert new(narrow) == written[1:]


def test_following_gives_a_line_that_commits_after_a_later_one(clock: Clock) -> None:
    follower = Follower(Call.objects.all(), clock)
    first = make_call().pk

    make_call(pk=first + 5)
    one = new(follower)
    clock.now += SECONDS_AGAIN - 1
    make_call(pk=first + 3)
    two = new(follower)
    make_call(pk=first + 1)
    three = new(follower)

    assert (one, two, three) == ([first, first + 5], [first + 3], [first + 1])


def test_following_gives_a_line_that_was_being_written_when_it_began(clock: Clock) -> None:
    last = make_call().pk + 5
    make_call(pk=last)

    follower = Follower(Call.objects.all(), clock)
    present = [call.pk for call in follower.present(Call.objects.filter(pk=last))]
    make_call(pk=last - 2, at=NOON - timedelta(days=9))

    assert present == [last]
    assert new(follower) == [last - 2], "whatever its time: a long call is written long after it began"


def test_following_remembers_only_what_can_still_be_overtaken(clock: Clock) -> None:
    old = make_call().pk
    make_call(pk=old + IDS_BACK + 1)
    follower = Follower(Call.objects.all(), clock)
    assert old not in follower._given, "it looks no further back than it must"
    for _ in range(5):
        make_call()
        new(follower)
        clock.now += SECONDS_AGAIN

    new(follower)

    assert follower._floor == Call.objects.latest("pk").pk
    assert follower._given == follower._awaited == {}


def test_following_waits_for_the_outcome_of_a_call_that_is_running(clock: Clock) -> None:
    call = make_call(outcome="unknown")
    follower = Follower(Call.objects.all(), clock)

    present = list(follower.present(Call.objects.all()))
    running = new(follower)
    later = make_call().pk
    clock.now += 2 * SECONDS_AGAIN / 3
    meanwhile = new(follower)
    Call.objects.filter(pk=call.pk).update(outcome="done")
    [ended] = follower.new()

    assert present == running == []
    assert meanwhile == [later]
    assert (ended.pk, ended.outcome) == (call.pk, "done")
    assert new(follower) == []


def test_following_gives_a_call_without_an_outcome_in_the_end(clock: Clock) -> None:
    follower = Follower(Call.objects.all(), clock)
    lost = make_call(outcome="unknown").pk
    make_call()
    new(follower)

    clock.now += SECONDS_AGAIN

    assert new(follower) == [lost]
    assert new(follower) == []


def test_a_burst_of_lines_is_read_in_pages(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit_follower, "PAGE", 10)
    follower = Follower(Call.objects.all(), clock)

    make_many(35)

    assert new(follower) == [call.pk for call in Call.objects.order_by("pk")]


@pytest.mark.every_database
def test_a_transaction_that_commits_after_a_later_one(transactional_db: None, clock: Clock) -> None:
    """Ids are given when rows are inserted, and seen when their transaction commits."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one writer at a time")
    follower = Follower(Call.objects.all(), clock)
    inserted, may_commit = threading.Event(), threading.Event()
    slow: list[int] = []

    def insert() -> None:
        with transaction.atomic():
            slow.append(make_call().pk)
            inserted.set()
            assert may_commit.wait(60)
        connection.close()

    writer = threading.Thread(target=insert)
    writer.start()
    assert inserted.wait(60)
    quick = make_call().pk
    before = new(follower)
    may_commit.set()
    writer.join(60)

    assert before == [quick]
    assert quick > slow[0]
    assert new(follower) == slow


def in_pauses(monkeypatch: pytest.MonkeyPatch, *happens: Callable[[], Any]) -> None:
    """What happens in the pauses of ``--follow``, one after the other; then somebody presses Ctrl-C."""
    pauses = list(happens)

    def wait(self: Any) -> None:
        if not pauses:
            raise KeyboardInterrupt
        pauses.pop(0)()

    monkeypatch.setattr(mcp_audit.Command, "_wait", wait)


def test_follow_prints_what_is_there_and_what_comes_until_ctrl_c(monkeypatch: pytest.MonkeyPatch) -> None:
    in_pauses(monkeypatch, make_call, lambda: None, lambda: make_call(name="other"), make_call)
    before = make_call().pk

    out, err = run("--follow", "--json", "--tool", "find_records", *SINCE)

    found = ids(out)
    assert found == list(Call.objects.filter(name="find_records").order_by("pk").values_list("pk", flat=True))
    assert found[0] == before and len(found) == 3
    assert err == ""


def test_follow_begins_a_minute_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    in_pauses(monkeypatch)
    monkeypatch.setattr(timezone, "now", lambda: NOON)
    make_call(at=NOON - timedelta(seconds=61))
    recent = make_call(at=NOON - timedelta(seconds=59)).pk

    out, _ = run("--follow", "--json")

    assert ids(out) == [recent]


# Deleting.


def old_and_new(count: int, days: float = 91) -> tuple[list[int], list[int]]:
    """The ids of lines that are so many days old, and of lines of today."""
    now = timezone.now()
    old = [make_call(at=now - timedelta(days=days, seconds=number)).pk for number in range(count)]
    return old, [make_call(at=now).pk, make_call(at=now - timedelta(days=89)).pk]


@pytest.mark.every_database
def test_clear_deletes_what_is_older_than_audit_days_alone(settings: Any) -> None:
    _, (today, of_89_days) = old_and_new(3)

    assert run("--clear") == ("Older than 90 days, and deleted: lines: 3, changes by agents: 0.\n", "")
    assert set(Call.objects.values_list("pk", flat=True)) == {today, of_89_days}
    settings.MCP = {**settings.MCP, "AUDIT_DAYS": 7}
    assert run("--clear")[0] == "Older than 7 days, and deleted: lines: 1, changes by agents: 0.\n"
    for days in (0, None, -1):
        settings.MCP = {**settings.MCP, "AUDIT_DAYS": days}
        make_call(at=timezone.now() - timedelta(days=9_999))
        assert run("--clear")[0] == "AUDIT_DAYS keeps all lines. Nothing was deleted.\n"
    assert Call.objects.count() == 4


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.every_database
def test_clear_deletes_in_batches_and_a_terminal_shows_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearing, "_AT_ONCE", 2)
    old_and_new(5)
    out, err = StringIO(), Terminal()

    call_command("mcp_audit", "--clear", stdout=out, stderr=err, no_color=True)

    shown = err.getvalue().replace("\x1b[K", "").split("\r")[1:]
    assert shown == [f"{count} of 5 lines are deleted." for count in (2, 4, 5)] + [""]
    assert out.getvalue() == "Older than 90 days, and deleted: lines: 5, changes by agents: 0.\n"


@pytest.mark.every_database
def test_clear_looks_at_no_line_that_stays(transactional_db: None, settings: Any) -> None:
    """The database counted the lines when there were old ones: it still believes that the first keys are of these."""
    make_many(20_000)
    settings.MCP = {**settings.MCP, "AUDIT_DAYS": (timezone.now() - NOON).days + 3}
    count_anew()
    with CaptureQueriesContext(connection) as captured:
        run("--clear")

    choosing = [one["sql"] for one in captured if "LIMIT" in one["sql"] and "mcp_django_call" in one["sql"]]

    assert len(choosing) > 1
    assert all("mcp_django_call_at" in plan_of(statement) for statement in choosing)


def test_lines_that_are_written_meanwhile_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clearing, "_AT_ONCE", 2)
    old_and_new(4)
    delete = clearing._delete_batch
    written: list[int] = []

    def delete_and_write(rows: Any) -> int:
        written.append(make_call(at=timezone.now()).pk)
        return delete(rows)

    monkeypatch.setattr(clearing, "_delete_batch", delete_and_write)
    run("--clear")

    # One batch of changes by agents, and three of lines.
    assert len(written) == 4
    assert Call.objects.filter(pk__in=written).count() == 4
    assert Call.objects.count() == 6


def failing(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    """So many batches are prevented by another process."""
    delete, left = clearing._delete_batch, [None] * times

    def delete_or_fail(rows: Any) -> int:
        if left:
            left.pop()
            raise OperationalError("deadlock detected")
        return delete(rows)

    monkeypatch.setattr(clearing, "_delete_batch", delete_or_fail)


def test_a_batch_that_another_process_prevents_is_tried_again_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    old_and_new(3)
    with monkeypatch.context() as context:
        failing(context, clearing._ATTEMPTS)
        with pytest.raises(OperationalError, match="deadlock"):
            run("--clear")

    failing(monkeypatch, clearing._ATTEMPTS - 1)
    assert run("--clear")[0].endswith("lines: 3, changes by agents: 0.\n")
