"""Queries that are slow, fail, or cannot be asked for a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import Permission
from django.db import OperationalError

from demo_project.flights.models import Flight
from mcp_django.bridge.resources import uris
from mcp_django.protocol.errors import TooSlow
from mcp_django.push import live_answers, live_queries
from mcp_django.push.hub import Hub
from mcp_django.push.live_answers import LiveAnswer, Viewer
from tests.push.conftest import watch
from tests.push.live.conftest import COUNTED, DELAYED, EACH_ERA, JFK, QUIET, SET, Told, change
from tests.shop.models import Tag
from tests.support.data import Users, make_staff, token_of
from tests.support.peers import MODERN, Peer, Peers


@EACH_ERA
def test_a_change_while_it_is_subscribed_to_is_told(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told, revision: str
) -> None:
    answer, done = Viewer.answer, threading.Event()

    def overtaken(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        found = answer(self, target)
        if not done.is_set():
            done.set()
            change(Flight, 1, number=4711)
        return found

    monkeypatch.setattr(Viewer, "answer", overtaken)

    watching = watch(admin, revision, JFK, QUIET)

    assert told(watching) == [JFK]
    assert told(watching) == []


def test_a_query_that_is_too_slow_is_asked_again_and_its_clients_are_told_to_look_in_the_end(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    watching = watch(admin, MODERN, JFK, QUIET)
    answer, asked = Viewer.answer, []

    def too_slow(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        asked.append(target)
        raise TooSlow

    monkeypatch.setattr(Viewer, "answer", too_slow)
    monkeypatch.setattr(live_queries, "_LONGEST_PAUSE", 0.1)
    change(Flight, 2, notes="the answer stays")
    assert told(watching) == [JFK]
    assert len(asked) == live_queries._TRIES

    # Which answer they then saw, nobody knows: the next one that is found is told.
    monkeypatch.setattr(Viewer, "answer", answer)
    change(Flight, 2, notes="x")
    assert told(watching) == [JFK]
    change(Flight, 2, notes="y")
    assert told(watching) == []


def test_hearing_of_a_query_that_is_too_slow_and_may_be_seen_no_more(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    user = make_staff("reader", "flights.view_flight", "flights.view_plane")
    uri = "db://flights/flight?number__gte=0&limit=20"
    watching = watch(peers(token_of(user)), MODERN, uri, QUIET)

    def too_slow(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        user.user_permissions.remove(Permission.objects.get(codename="view_flight"))
        raise TooSlow

    monkeypatch.setattr(Viewer, "answer", too_slow)
    monkeypatch.setattr(live_queries, "_LONGEST_PAUSE", 0.1)
    change(Flight, 1, number=7)

    assert told(watching) == []


def raising(work: Any, errors: list[Exception]) -> Any:
    def fails(*arguments: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return work(*arguments, **more)

    return fails


def fail(patch: pytest.MonkeyPatch, *errors: Exception) -> tuple[list[Exception], list[Exception]]:
    """The next computations of pages raise one of the errors each, and so do the next comparisons of sets."""
    left = [*errors], [*errors]
    patch.setattr(Viewer, "answer", raising(Viewer.answer, left[0]))
    patch.setattr(live_answers, "after", raising(live_answers.after, left[1]))
    return left


@pytest.mark.parametrize("error", [OperationalError("away"), TooSlow()])
def test_a_query_that_the_database_fails_is_asked_again_and_misses_no_change(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told, error: Exception
) -> None:
    watching = watch(admin, MODERN, JFK, COUNTED, SET, DELAYED, "db://flights/flight?number=4711", QUIET)
    told(watching)
    left = fail(monkeypatch, error, error)

    change(Flight, 1, number=7, departure_delay=1000)

    assert told(watching) == sorted([COUNTED, JFK, SET, DELAYED])
    assert left == ([], [])


def test_a_set_that_cannot_be_compared_in_time_is_told_in_the_end(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    watching = watch(admin, MODERN, DELAYED, QUIET)
    told(watching)
    monkeypatch.setattr(live_queries, "_LONGEST_PAUSE", 0.1)
    _, left = fail(monkeypatch, *[TooSlow()] * live_queries._TRIES)

    change(Flight, 1, number=7)

    assert told(watching) == [DELAYED] and not left


def test_a_set_whose_keys_cannot_be_read_in_time_is_watched_as_a_large_one(
    ops: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    fetch = live_answers.fetch

    def too_slow(queryset: Any) -> Any:
        if queryset.query.is_sliced:  # It asks for all keys, and for one more than are remembered.
            raise TooSlow
        return fetch(queryset)

    monkeypatch.setattr(live_answers, "fetch", too_slow)
    watching = watch(ops, MODERN, SET, QUIET)

    change(Flight, 1, number=7)
    assert told(watching) == [SET]
    change(Flight, 2, number=7)
    assert told(watching) == []


def test_a_hook_that_fails_tells_nobody_until_it_works_again(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    watching = watch(admin, MODERN, JFK, SET, QUIET)
    told(watching)

    with monkeypatch.context() as patched:
        fail(patched, *[ValueError("a hook")] * 10)
        change(Flight, 1, number=7)
        assert told(watching) == []
    change(Flight, 2, number=7)

    assert told(watching) == sorted([JFK, SET])
    assert "A live query cannot be computed; no client is notified" in caplog.text


@EACH_ERA
def test_after_a_resync_what_has_changed_is_told_and_nothing_else(
    admin: Peer, flights: Any, revision: str, hub: Callable[[], Hub], told: Told
) -> None:
    watching = watch(admin, revision, JFK, COUNTED, QUIET)

    hub().resync()
    assert watching.uris(1) == [QUIET]
    assert told(watching) == []
    Flight.objects.filter(pk=1).update(number=7)
    hub().resync()
    assert watching.uris(2) == [JFK, QUIET]
    assert told(watching) == []


class ReadsFromTheReplica:
    """A router of the shop's tags: written to the one database, read from the other."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Tag else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "default" if model is Tag else None


@pytest.mark.every_database
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_replica_that_lags_hides_no_change(admin: Peer, flights: Any, settings: LazySettings, told: Told) -> None:
    settings.DATABASE_ROUTERS = [ReadsFromTheReplica()]
    watched = ["db://shop/tag?measures=count", "db://shop/tag?name__startswith=a"]
    watching = watch(admin, MODERN, *watched, QUIET)

    Tag(name="a").save(using="default")

    assert not Tag.objects.exists()
    assert told(watching) == watched
