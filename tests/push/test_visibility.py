"""What of a change a principal is told: deletes, rows that leave the view or enter it, permissions that are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import transaction

from demo_project.flights.models import Airport, Flight
from mcp_django import site
from tests.push.conftest import assert_nothing_but, watch
from tests.shop.models import Tag
from tests.support.peers import LEGACY, MODERN, Peer

pytestmark = [pytest.mark.every_database, pytest.mark.http_and_duplex]
EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

FLIGHTS = "db://flights/flight"
#: Flights 1, 4, 7 … leave from JFK, which is all that ops may see.
JFK = "db://flights/flight/1"
EWR = "db://flights/flight/2"
QUIET = "db://flights/airline/UA"


def move(flight: Flight, origin: str) -> None:
    flight.origin = Airport.objects.get(pk=origin)
    flight.save()


# Deletes.


@EACH_ERA
def test_a_deleted_record_is_told_once(admin: Peer, revision: str, jfk: Flight, touch: Callable[[], None]) -> None:
    watching = watch(admin, revision, JFK, QUIET)

    jfk.delete()

    assert watching.uris(1) == [JFK]
    assert_nothing_but(watching, QUIET, touch)


@EACH_ERA
def test_a_record_that_comes_back_is_told_again(admin: Peer, revision: str, jfk: Flight) -> None:
    watching = watch(admin, revision, JFK)
    jfk.delete()
    watching.uris(1)

    jfk.pk = 1
    jfk.save(force_insert=True)

    assert watching.uris(1) == [JFK]


def test_a_row_that_is_deleted_and_made_again_in_one_transaction_is_watched_on(
    ops: Peer, flights: list[Flight], jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)

    with transaction.atomic():
        flights[3].save()
        jfk.delete()
        jfk.pk = 1
        jfk.save(force_insert=True)
    touch()
    while watching.uris(1) != [QUIET]:
        pass
    move(jfk, "EWR")

    assert watching.uris(2) == [FLIGHTS, JFK]


@EACH_ERA
def test_a_delete_that_was_rolled_back_is_not_told(
    admin: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(admin, revision, JFK, FLIGHTS, QUIET)

    with transaction.atomic():
        jfk.delete()
        transaction.set_rollback(True)

    assert_nothing_but(watching, QUIET, touch)


@EACH_ERA
def test_a_collection_of_all_rows_is_told_of_every_delete(admin: Peer, revision: str, jfk: Flight) -> None:
    watching = watch(admin, revision, FLIGHTS)

    jfk.delete()

    assert watching.uris(1) == [FLIGHTS]


@EACH_ERA
def test_a_scoped_collection_is_told_of_the_delete_of_a_visible_row(ops: Peer, revision: str, jfk: Flight) -> None:
    watching = watch(ops, revision, FLIGHTS)

    jfk.delete()

    assert watching.uris(1) == [FLIGHTS]


@EACH_ERA
def test_the_delete_of_a_row_that_the_principal_never_saw_is_not_told(
    ops: Peer, revision: str, ewr: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, FLIGHTS, QUIET)

    ewr.delete()

    assert_nothing_but(watching, QUIET, touch)


# Rows that leave and enter.


@EACH_ERA
def test_a_change_of_a_row_that_the_principal_may_not_see_is_not_told(
    ops: Peer, revision: str, ewr: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, FLIGHTS, QUIET)

    ewr.save()

    assert_nothing_but(watching, QUIET, touch)


@EACH_ERA
def test_a_record_that_leaves_the_view_is_told_once_and_its_later_changes_are_not(
    ops: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, JFK, QUIET)

    move(jfk, "EWR")

    assert watching.uris(1) == [JFK]
    jfk.save()
    assert_nothing_but(watching, QUIET, touch)


def test_the_delete_of_a_record_that_had_left_the_view_is_not_told(
    ops: Peer, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, MODERN, JFK, FLIGHTS, QUIET)
    move(jfk, "EWR")
    watching.uris(2)

    jfk.delete()

    assert_nothing_but(watching, QUIET, touch)


@EACH_ERA
def test_a_record_that_enters_the_view_again_is_told(ops: Peer, revision: str, jfk: Flight) -> None:
    watching = watch(ops, revision, JFK)
    move(jfk, "EWR")
    watching.uris(1)

    move(jfk, "JFK")

    assert watching.uris(1) == [JFK]


@EACH_ERA
def test_a_scoped_collection_is_told_of_a_row_that_leaves_once(
    ops: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, FLIGHTS, QUIET)

    move(jfk, "EWR")

    assert watching.uris(1) == [FLIGHTS]
    jfk.save()
    assert_nothing_but(watching, QUIET, touch)


@EACH_ERA
def test_a_scoped_collection_is_told_of_a_row_that_enters_and_of_its_leaving(
    ops: Peer, revision: str, ewr: Flight
) -> None:
    watching = watch(ops, revision, FLIGHTS)

    move(ewr, "JFK")
    entered = watching.uris(1)
    move(ewr, "EWR")

    assert entered == watching.uris(1) == [FLIGHTS]


def test_a_scoped_collection_is_told_of_a_visible_row_among_invisible_ones(ops: Peer, flights: Any) -> None:
    watching = watch(ops, MODERN, FLIGHTS)

    with transaction.atomic():
        for flight in flights:
            flight.save()

    assert watching.uris(1) == [FLIGHTS]


# More rows than are remembered.


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.push.keys.MAX_WATCHED_KEYS", 1)


def test_a_delete_is_not_told_where_nobody_can_say_whether_the_row_was_visible(
    few_keys: None, ops: Peer, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, MODERN, FLIGHTS, QUIET)

    jfk.delete()

    assert_nothing_but(watching, QUIET, touch)


def test_notify_unseen_deletes_notifies_of_such_a_delete(
    few_keys: None, ops: Peer, ewr: Flight, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site.models["flights.flight"], "notify_unseen_deletes", True)
    watching = watch(ops, MODERN, FLIGHTS)

    ewr.delete()

    assert watching.uris(1) == [FLIGHTS]


def test_visible_changes_are_told_however_many_rows_there_are(
    few_keys: None, ops: Peer, jfk: Flight, ewr: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, MODERN, FLIGHTS, QUIET)

    jfk.save()

    assert watching.uris(1) == [FLIGHTS]
    ewr.save()
    assert_nothing_but(watching, QUIET, touch)


# Databases.


class ReadsFromTheReplica:
    """A router of the shop's tags: written to the one database, read from the other."""

    def db_for_read(self, model: Any, **hints: Any) -> str | None:
        return "other" if model is Tag else None

    def db_for_write(self, model: Any, **hints: Any) -> str | None:
        return "default" if model is Tag else None


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_replica_that_lags_hides_no_change(admin: Peer, settings: LazySettings) -> None:
    tag = Tag(name="a")
    tag.save(using="default")
    tag.save(using="other")
    settings.DATABASE_ROUTERS = [ReadsFromTheReplica()]
    watching = watch(admin, MODERN, "db://shop/tag/a")

    # Seen from the replica the row is gone, and would be told once and never again.
    Tag.objects.using("other").filter(name="a").delete()
    watching.uris(1)
    for _ in range(2):
        tag.save(using="default")
        assert watching.uris(1) == ["db://shop/tag/a"]
