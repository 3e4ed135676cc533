"""What is told of a change while the database does not say in time who may see it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
from django.conf import LazySettings
from django.db import OperationalError, transaction

import mcp_django
from demo_project.flights.models import Airline, Airport, Flight
from mcp_django import site
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.protocol.errors import Overloaded, TooSlow
from mcp_django.push import retries, session_streams, visibility
from mcp_django.push.hub import Hub
from tests.bridge.resources.test_reading import slow
from tests.end_to_end.servers import wait_for
from tests.push.conftest import assert_nothing_but, watch
from tests.shop.models import Tag
from tests.support.declared import Declared
from tests.support.leaving import Leaving, LeavingInContext
from tests.support.peers import LEGACY, MODERN, Peer

FLIGHTS = "db://flights/flight"
#: Flights 1, 4, 7 … leave from JFK, which is all that ops may see.
JFK = "db://flights/flight/1"
QUIET = "db://flights/airline/UA"

ALWAYS = 1_000_000


class Database:
    """Stands where the rows of flights are looked at for ops, and fails as often as it is told to."""

    def __init__(self) -> None:
        self.failures = 0
        self.error: type[Exception] = TooSlow
        self.asked = 0
        #: The only thread in which it fails.
        self.thread: int | None = None
        self._look = visible_rows.visible_keys

    def visible_keys(self, rights: Any, keys: Any, **options: Any) -> set[str]:
        if rights.rights.request.user.get_username() == "ops" and rights.label == "flights.flight":
            self.asked += 1
            if self.failures and self.thread in (None, threading.get_ident()):
                self.failures -= 1
                raise self.error
        return self._look(rights, keys, **options)

    def wait_asked(self) -> None:
        """Until it was asked once more in vain, and what followed from that is done."""
        asked = self.asked
        wait_for(lambda: self.asked >= asked + 2, "two more questions", 60)


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Database:
    database = Database()
    monkeypatch.setattr(visible_rows, "visible_keys", database.visible_keys)
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.02)
    monkeypatch.setattr(retries, "_LAST_PAUSE", 0.1)
    monkeypatch.setattr(retries, "_LAST_PAUSE_AWAY", 0.1)
    monkeypatch.setattr(retries, "_ROUNDS", 3)
    return database


def move(flight: Flight, origin: str) -> None:
    flight.origin = Airport.objects.get(pk=origin)
    flight.save()


# Asked again.


@pytest.mark.parametrize("error", [TooSlow, OperationalError])
def test_what_could_not_be_found_out_is_asked_again_and_told_once_where_it_is_visible(
    ops: Peer, database: Database, jfk: Flight, ewr: Flight, touch: Callable[[], None], error: type[Exception]
) -> None:
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)
    database.failures, database.error = 2, error

    jfk.save()
    assert watching.uris(2) == [FLIGHTS, JFK]
    database.asked, database.failures = 0, 2
    ewr.save()
    wait_for(lambda: database.asked >= 3, "the answer", 60)

    assert_nothing_but(watching, QUIET, touch)


def test_nobody_else_waits_for_a_question_that_takes_too_long(
    ops: Peer, admin: Peer, database: Database, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, MODERN, JFK, QUIET)
    others = watch(admin, MODERN, JFK, listen_id="others")
    database.failures = ALWAYS

    for _ in range(3):
        jfk.save()
        assert others.uris(1) == [JFK]
    # Nor does the principal itself, for what can be found out.
    touch()

    while watching.uris(1) != [QUIET]:
        pass


def test_what_was_found_out_before_a_question_that_took_too_long_is_told_at_once(
    ops: Peer, database: Database, jfk: Flight
) -> None:
    watching = watch(ops, MODERN, QUIET, FLIGHTS, JFK)
    database.failures = ALWAYS

    with transaction.atomic():
        Airline.objects.get(pk="UA").save()
        jfk.save()

    assert QUIET in watching.uris(1)


def test_changes_that_come_while_it_is_asked_are_told(ops: Peer, database: Database, flights: list[Flight]) -> None:
    second = f"{FLIGHTS}/{flights[3].pk}"
    watching = watch(ops, MODERN, JFK, second)
    database.failures = ALWAYS
    flights[0].save()
    database.wait_asked()

    flights[3].save()
    database.failures = 0

    found = [*watching.uris(1), *watching.uris(1)]
    assert sorted(found) == [JFK, second]


def test_what_is_given_up_is_asked_about_no_more(
    ops: Peer, database: Database, jfk: Flight, hub: Callable[[], Hub]
) -> None:
    watching = watch(ops, MODERN, JFK)
    database.failures = ALWAYS
    jfk.save()
    wait_for(lambda: database.asked, "the first question", 60)

    watching.close()

    wait_for(lambda: hub().is_empty and not hub().retries._waiting, "nobody to tell", 60)
    asked = database.asked
    jfk.save()
    wait_for(lambda: not hub()._woken.is_set(), "the hub to look at it", 60)
    assert database.asked <= asked + 1


# Told in the end.


def test_what_was_visible_is_told_once_although_it_is_never_found_out_and_what_was_hidden_never(
    ops: Peer, database: Database, jfk: Flight, ewr: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)
    database.failures = ALWAYS

    ewr.save()
    for _ in range(4):
        database.wait_asked()
    assert_nothing_but(watching, QUIET, touch)
    jfk.save()

    assert watching.uris(2) == [FLIGHTS, JFK]
    database.wait_asked()
    assert_nothing_but(watching, QUIET, touch)


def test_of_declared_resources_what_is_reported_or_was_visible_is_told_and_what_was_hidden_never(
    ops: Peer, declared: Declared, database: Database, jfk: Flight, ewr: Flight, touch: Callable[[], None]
) -> None:
    boards = ["shop://arrivals", "shop://departures"]
    for uri in boards:
        declared.resource(uri, lambda request: "text", name=uri, watch=[Flight])
    watching = watch(ops, MODERN, *boards, QUIET)
    database.failures = ALWAYS

    ewr.save()
    for _ in range(4):
        database.wait_asked()
    assert_nothing_but(watching, QUIET, touch)
    mcp_django.updated(boards[0])
    assert watching.uris(1) == boards[:1]
    jfk.save()

    assert watching.uris(2) == boards


def test_a_record_that_was_told_unseen_and_turns_out_to_have_left_the_view_is_not_told_again(
    ops: Peer, database: Database, jfk: Flight, touch: Callable[[], None], hub: Callable[[], Hub]
) -> None:
    watching = watch(ops, MODERN, JFK, QUIET)
    database.failures = ALWAYS
    move(jfk, "EWR")
    assert watching.uris(1) == [JFK]

    database.failures = 0
    wait_for(lambda: not hub().retries._waiting, "the answer", 60)
    # What happens to the row now is no business of theirs.
    jfk.save()

    assert_nothing_but(watching, QUIET, touch)


def test_who_may_view_the_model_no_more_is_not_told_for_want_of_an_answer(
    ops: Peer,
    users: Any,
    database: Database,
    jfk: Flight,
    touch: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    hub: Callable[[], Hub],
) -> None:
    monkeypatch.setattr(retries, "_ROUNDS", ALWAYS)
    watching = watch(ops, MODERN, FLIGHTS, QUIET)
    database.failures = ALWAYS
    jfk.save()
    wait_for(lambda: database.asked, "the first question", 60)

    users.ops.groups.clear()
    monkeypatch.setattr(retries, "_ROUNDS", 0)
    wait_for(lambda: not hub().retries._waiting, "the answer", 60)

    # The last word on a record that was visible; of the collection, nothing.
    touch()
    assert watching.uris(1) == [QUIET]


def test_a_question_that_was_put_in_vain_for_days_is_put_again() -> None:
    retry = retries._Retry(rounds=5_000)

    pause = retries.Retries(cast("Hub", None))._pause(retry, visibility.Checked(is_away=True))

    assert pause == retries._LAST_PAUSE_AWAY


def test_an_error_on_the_way_to_a_question_ends_no_others(
    ops: Peer, database: Database, jfk: Flight, monkeypatch: pytest.MonkeyPatch, touch: Callable[[], None]
) -> None:
    ask, errors = retries.Retries._ask, [ZeroDivisionError(), ZeroDivisionError()]

    async def fail_at_first(self: Any, *args: Any) -> None:
        if errors:
            raise errors.pop()
        await ask(self, *args)

    monkeypatch.setattr(retries.Retries, "_ask", fail_at_first)
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)
    database.failures = 1

    jfk.save()

    assert watching.uris(2) == [FLIGHTS, JFK]
    assert_nothing_but(watching, QUIET, touch)


# What the project's own code does.


@pytest.mark.parametrize("hook", [Leaving, LeavingInContext])
def test_a_hook_that_loses_its_database_refuses_nothing(
    ops: Peer,
    database: Database,
    jfk: Flight,
    monkeypatch: pytest.MonkeyPatch,
    touch: Callable[[], None],
    hook: type[Leaving],
) -> None:
    leaving = hook("flights.flight", monkeypatch)
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)
    leaving.times = 2

    jfk.save()

    assert watching.uris(2) == [FLIGHTS, JFK]
    assert leaving.times == 0
    assert_nothing_but(watching, QUIET, touch)


def test_a_check_that_fails_hides_its_own_model_and_no_other(
    ops: Peer, database: Database, jfk: Flight, caplog: pytest.LogCaptureFixture
) -> None:
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)
    database.failures, database.error = ALWAYS, ZeroDivisionError

    with transaction.atomic():
        jfk.save()
        Airline.objects.get(pk="UA").save()

    assert watching.uris(1) == [QUIET]
    failed = [record.getMessage() for record in caplog.records if record.exc_info]
    assert sorted(failed) == [
        f"The check of {uri} before a push failed; its client is not notified" for uri in (FLIGHTS, JFK)
    ]


# A real question that takes too long.


@pytest.fixture
def impatient(settings: LazySettings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.MCP = {**settings.MCP, "STATEMENT_SECONDS": 0.5}
    monkeypatch.setattr(retries, "_FIRST_PAUSE", 0.02)


@pytest.mark.every_database
def test_a_slow_query_is_stopped_and_asked_again(impatient: None, admin: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = Tag.objects.create(name="a")
    watching = watch(admin, MODERN, "db://shop/tag/a")
    is_slow = [True]

    def get_queryset(request: Any) -> Any:
        return slow().filter(slept__isnull=True) if is_slow and is_slow.pop() else Tag.objects.all()

    monkeypatch.setattr(site.models["shop.tag"], "get_queryset", get_queryset)
    tag.save()

    assert watching.uris(1) == ["db://shop/tag/a"]
    assert not is_slow


# Stored sessions.


def test_what_a_session_watches_and_cannot_be_looked_at_in_time_is_told_of_later(
    ops: Peer, database: Database, jfk: Flight, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = session_streams.unseen

    def look_at_a_busy_database(listener: Any, added: Any) -> Any:
        # Not for the request to subscribe, which is answered meanwhile.
        database.failures, database.thread = 1, threading.get_ident()
        return look(listener, added)

    revision = LEGACY[-1]
    watching = ops.watch(revision, [QUIET])
    monkeypatch.setattr(session_streams, "unseen", look_at_a_busy_database)

    ops.result(revision, "resources/subscribe", {"uri": JFK})

    # It may have gone since it was subscribed to: nobody could say so.
    assert watching.uris(1) == [JFK]
    assert not database.failures
    jfk.delete()
    assert watching.uris(1) == [JFK]


def test_a_session_whose_resources_could_not_be_read_follows_them_once_they_can_be(
    ops: Peer, jfk: Flight, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: list[Exception] = [Overloaded("busy"), ValueError("a fault")]
    reload = session_streams.reload

    async def reload_at_last(*arguments: Any, **options: Any) -> None:
        if errors:
            raise errors.pop(0)
        await reload(*arguments, **options)

    revision = LEGACY[-1]
    watching = ops.watch(revision, [QUIET])
    monkeypatch.setattr(session_streams, "reload", reload_at_last)

    for left, uri in ((1, FLIGHTS), (0, f"{FLIGHTS}/4"), (0, JFK)):
        ops.result(revision, "resources/subscribe", {"uri": uri})
        wait_for(lambda left=left: len(errors) <= left, "an attempt to read the session", 60)

    def is_told() -> bool:
        jfk.save()
        try:
            return watching.uris(1, 1) == [JFK]
        except TimeoutError:
            return False

    wait_for(is_told, "an update", 60)
    assert caplog.messages.count("The resources of a session could not be read; trying again") == 1
