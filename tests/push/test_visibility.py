"""What of a change a principal is told: deletes, rows that leave the view or enter it, permissions that are lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import transaction

from demo_project.flights.models import Airport, Flight
from mcp_django import ModelMCP, site
from tests.push.conftest import assert_nothing_but, watch
from tests.shop.models import Gadget, Person, Tag
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, Peer

pytestmark = pytest.mark.every_database
EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

FLIGHTS = "db://flights/flight"
#: Flights 1, 4, 7 … leave from JFK, which is all that ops may see.
JFK = "db://flights/flight/1"
QUIET = "db://flights/airline/UA"
GADGETS = "db://shop/gadget"


def move(flight: Flight, origin: str) -> None:
    flight.origin = Airport.objects.get(pk=origin)
    flight.save()


# Deletes.


@EACH_ERA
def test_a_deleted_record_is_told_once_and_again_when_it_comes_back(
    admin: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(admin, revision, JFK, FLIGHTS, QUIET)

    jfk.delete()
    assert watching.uris(2) == [FLIGHTS, JFK]
    assert_nothing_but(watching, QUIET, touch)
    jfk.pk = 1
    jfk.save(force_insert=True)

    assert watching.uris(2) == [FLIGHTS, JFK]


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


@pytest.mark.http_and_duplex
@EACH_ERA
def test_of_rows_that_are_hidden_neither_a_change_nor_a_delete_is_told(
    ops: Peer, revision: str, jfk: Flight, ewr: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, FLIGHTS, QUIET)

    ewr.save()
    ewr.delete()
    assert_nothing_but(watching, QUIET, touch)
    jfk.delete()

    assert watching.uris(1) == [FLIGHTS]


class FirstOnly(ModelMCP):
    """Shows the gadgets that were not counted."""

    fields = "__all__"

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).filter(count=0)


def test_a_delete_that_empties_relations_of_hidden_rows_tells_nothing_of_them(
    admin: Peer, flights: Any, declared: Declared, touch: Callable[[], None]
) -> None:
    declared.model(Person, fields="__all__", use_admin=False)
    declared.model(Gadget, FirstOnly)
    persons = [Person.objects.create(name=name, badge=name) for name in "abcd"]
    hidden, seen, *mixed = persons
    for person, count in ((hidden, 1), (seen, 0), (mixed[0], 1), (mixed[1], 0)):
        Gadget.objects.create(name="g", person=person, count=count)
    watching = watch(admin, MODERN, GADGETS, QUIET)

    hidden.delete()
    assert_nothing_but(watching, QUIET, touch)
    seen.delete()
    assert watching.uris(1) == [GADGETS]
    Person.objects.filter(pk__in=[one.pk for one in mixed]).delete()

    assert watching.uris(1) == [GADGETS]


# Rows that leave and enter.


@pytest.mark.http_and_duplex
@EACH_ERA
def test_a_record_and_its_collection_are_told_of_a_row_that_leaves_the_view_once_until_it_enters_again(
    ops: Peer, revision: str, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(ops, revision, JFK, FLIGHTS, QUIET)

    move(jfk, "EWR")
    assert watching.uris(2) == [FLIGHTS, JFK]
    jfk.save()
    assert_nothing_but(watching, QUIET, touch)
    move(jfk, "JFK")
    assert watching.uris(2) == [FLIGHTS, JFK]
    move(jfk, "EWR")
    assert watching.uris(2) == [FLIGHTS, JFK]
    jfk.delete()

    assert_nothing_but(watching, QUIET, touch)


def test_a_scoped_collection_is_told_of_a_row_that_enters_and_of_its_leaving(ops: Peer, ewr: Flight) -> None:
    watching = watch(ops, MODERN, FLIGHTS)

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
    monkeypatch.setattr("mcp_django.push.live_answers.MAX_WATCHED_KEYS", 1)


def test_visible_changes_are_told_however_many_rows_there_are_and_deletes_only_by_notify_unseen_deletes(
    few_keys: None, ops: Peer, flights: list[Flight], touch: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    jfk, ewr, other, *_ = flights
    watching = watch(ops, MODERN, FLIGHTS, QUIET)

    jfk.save()
    assert watching.uris(1) == [FLIGHTS]
    ewr.save()
    # Nobody can say whether it was visible.
    jfk.delete()
    assert_nothing_but(watching, QUIET, touch)
    monkeypatch.setattr(site.models["flights.flight"], "notify_unseen_deletes", True)
    other.delete()

    assert watching.uris(1) == [FLIGHTS]


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
