"""A set, which is a query without limit and cursor, is told of when one of its rows is written, enters or leaves."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.admin import ModelAdmin
from django.contrib.auth.models import Group, Permission
from django.db import transaction

import mcp_django
from demo_project.flights.models import Airline, Airport, Disruption, Flight
from mcp_django import site
from mcp_django.bridge.resources import uris
from mcp_django.push.hub import Hub
from tests.push.conftest import watch
from tests.push.live.conftest import DELAYED, EACH_ERA, QUIET, SET, Told, WithoutJFK, change, move
from tests.shop.models import Product, Tag
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import LEGACY, MODERN, Peer, Peers

pytestmark = pytest.mark.every_database


@pytest.fixture
def few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fewer keys are remembered than any set has."""
    monkeypatch.setattr("mcp_django.push.live_answers.MAX_WATCHED_KEYS", 1)


# Which URIs are sets.


def test_a_set_is_a_query_for_rows_without_limit_and_cursor() -> None:
    sets = ["?x=1", "?fields=x", "?x=1&order_by=x&total=true&search=y", "?limit__exact=1"]
    others = ["", "?x=1&limit=5", "?cursor=x", "?measures=count", "?pk=1", ".schema"]

    targets = {end: uris.parse(f"db://a/b{end}") for end in (*sets, *others)}

    assert [end for end, target in targets.items() if target is not None and target.is_set] == sets
    assert None not in targets.values()


# What is told.


@EACH_ERA
def test_a_set_is_told_of_each_row_that_is_written_enters_or_leaves(
    admin: Peer, flights: Any, revision: str, told: Told
) -> None:
    watching = watch(admin, revision, SET, QUIET)

    change(Flight, 2, number=7)
    assert told(watching) == []
    change(Flight, 1, notes="not among its columns")
    assert told(watching) == [SET]
    move(2, "JFK")
    assert told(watching) == [SET]
    move(2, "EWR")
    assert told(watching) == [SET]
    change(Flight, 2, number=8)
    assert told(watching) == []
    Flight.objects.get(pk=4).delete()
    assert told(watching) == [SET]
    Flight.objects.get(pk=3).delete()
    assert told(watching) == []


def test_a_row_beyond_the_first_page_is_told(
    admin: Peer, flights: Any, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.bridge.resources.reading.rows.DEFAULT_ROWS", 1)
    sets = [f"db://flights/flight?origin=JFK&order_by=id{more}" for more in ("", "&fields=id", "&total=true")]
    watching = watch(admin, MODERN, *sets, QUIET)

    change(Flight, 10, number=7)
    assert told(watching) == sorted(sets)
    move(11, "JFK")
    assert told(watching) == sorted(sets)


def test_a_value_that_is_none_yet_is_watched_and_finds_nothing(admin: Peer, flights: Any, told: Told) -> None:
    queries = ("carrier=B6", "carrier=B6&limit=5", "carrier__carrier=B6", "status=diverted")
    uris_ = [f"db://flights/flight?{query}" for query in queries]
    watching = watch(admin, MODERN, *uris_, QUIET)

    change(Flight, 1, number=7)
    assert told(watching) == []
    change(Flight, 1, carrier=Airline.objects.create(carrier="B6", name="JetBlue"), status="diverted")
    assert told(watching) == uris_


def test_of_a_transaction_that_leaves_the_set_as_it_was_nothing_is_told(admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, MODERN, SET, DELAYED, QUIET)

    with transaction.atomic():
        change(Flight, 1, number=7)
        move(2, "JFK")
        transaction.set_rollback(True)
    with transaction.atomic():
        change(Flight, 2, departure_delay=700)
        change(Flight, 2, departure_delay=0)

    assert told(watching) == []


def test_a_change_of_unknown_rows_is_told(admin: Peer, flights: Any, told: Told, hub: Callable[[], Hub]) -> None:
    watching = watch(admin, MODERN, DELAYED, QUIET)

    mcp_django.changed(Flight)
    assert told(watching) == [DELAYED]
    hub().resync()
    assert watching.uris(2) == sorted([DELAYED, QUIET])


# Related rows.


def test_a_changed_row_that_the_query_looks_at_is_told(admin: Peer, flights: Any, told: Told) -> None:
    queries = ("carrier__name=Nobody", "fields=id,carrier__name", "order_by=carrier__name", "search=Amer")
    uris_ = [f"db://flights/flight?{query}" for query in queries]
    watching = watch(admin, MODERN, *uris_, QUIET)

    change(Airline, "AA", name="American Eagle")
    assert told(watching) == uris_
    change(Disruption, Disruption.objects.create(flight_id=1, kind="crew").pk, note="x")
    assert told(watching) == []


def test_a_related_row_that_is_written_right_after_the_subscription_is_told(
    admin: Peer, flights: Any, told: Told, settings: LazySettings
) -> None:
    uri = "db://flights/flight?fields=id,carrier__name"
    for name in ("one", "two", "three"):
        watching = watch(admin, MODERN, uri, QUIET, listen_id=name)
        change(Airline, "AA", name=name)
        assert told(watching) == [uri]


def test_many_to_many_relations_are_told(admin: Peer, flights: Any, declared: Declared, told: Told) -> None:
    declared.model(Product, fields=["name", "tags"])
    tag, product = Tag.objects.create(name="old"), Product.objects.create(name="lamp")
    by_tag, count = "db://shop/product?tags__name=old", "db://shop/product?fields=tags__count"
    watching = watch(admin, MODERN, by_tag, count, QUIET)

    for work in (lambda: product.tags.add(tag), product.tags.clear, lambda: product.tags.add(tag), tag.delete):
        work()
        assert told(watching) == [count, by_tag]


# More rows than are remembered.


def test_of_a_large_set_rows_that_it_has_are_told_and_where_every_row_is_visible_others_too(
    few_keys: None, peers: Peers, users: Users, flights: Any, each_told: Callable[..., Any]
) -> None:
    streams = [
        watch(peers(token_of(user)), MODERN, DELAYED.replace("600", "0"), QUIET) for user in (users.admin, users.ops)
    ]
    Flight.objects.all().update(departure_delay=700)
    mcp_django.changed(Flight)
    told = [DELAYED.replace("600", "0")]
    assert each_told(*streams) == [told, told]

    change(Flight, 1, number=7)
    assert each_told(*streams) == [told, told]
    change(Flight, 1, departure_delay=-5)
    assert each_told(*streams) == [told, []]
    change(Flight, 2, number=7)
    assert each_told(*streams) == [told, []]


def test_of_a_large_set_a_delete_is_told_where_the_project_says_so(
    few_keys: None, ops: Peer, flights: Any, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    watching = watch(ops, MODERN, SET, QUIET)

    Flight.objects.get(pk=1).delete()
    assert told(watching) == []
    monkeypatch.setattr(site.models["flights.flight"], "notify_unseen_deletes", True)
    Flight.objects.get(pk=4).delete()
    assert told(watching) == [SET]


# Rights.


@pytest.fixture(params=[False, True], ids=["small", "large"])
def any_size(request: pytest.FixtureRequest) -> None:
    """A set whose keys are remembered, and one that has too many."""
    if request.param:
        request.getfixturevalue("few_keys")


def test_hearing_of_rows_that_are_hidden_and_meet_the_query(
    any_size: None, ops: Peer, flights: Any, told: Told
) -> None:
    related = [f"db://flights/airline?flights__number{number}" for number in ("=4711", "__gte=0")]
    watching = watch(ops, MODERN, DELAYED, "db://flights/flight?number__gte=0", *related, QUIET)

    change(Flight, 2, departure_delay=700, number=4711)
    move(5, "LGA")
    Flight.objects.get(pk=2).delete()

    assert told(watching) == []


def test_hearing_of_a_related_row_of_a_large_set_that_is_hidden(
    few_keys: None, admin: Peer, flights: Any, declared: Declared, told: Told
) -> None:
    declared.model(Airport, WithoutJFK)
    queries = ("fields=id,origin__name", "origin__name=changed")
    watching = watch(admin, MODERN, *(f"db://flights/flight?{query}" for query in queries), QUIET)

    change(Airport, "JFK", name="changed", altitude=2000)

    assert told(watching) == []


def test_hearing_of_a_row_that_the_permission_of_its_object_hides(
    admin: Peer, flights: Any, declared: Declared, told: Told
) -> None:
    class OnlyUnited(ModelAdmin):
        list_display = ["number"]

        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return obj is None or obj.carrier_id == "UA"

    declared.admin(Flight, OnlyUnited)
    uri = "db://flights/flight?number__gte=0"
    watching = watch(admin, MODERN, uri, QUIET)

    change(Flight, 2, number=7)
    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == [uri]
    change(Flight, 1, carrier=Airline.objects.get(pk="AA"))
    assert told(watching) == [uri]
    change(Flight, 1, number=8)
    assert told(watching) == []


def test_other_rights_of_others_are_not_told(any_size: None, admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, MODERN, SET, QUIET)

    group = Group.objects.create(name="others")
    group.permissions.add(Permission.objects.get(codename="view_plane"))

    assert told(watching) == []


# Whatever is written.


def rows_of(user: str, origin: str, delay: int) -> set[int]:
    found = Flight.objects.filter(origin=origin) if origin else Flight.objects.all()
    visible = found.filter(origin="JFK") if user == "ops" else found
    return set(visible.filter(departure_delay__gte=delay).values_list("pk", flat=True))


def write(chance: random.Random) -> int:
    """Write or delete one flight, and return its key."""
    key = chance.choice(list(Flight.objects.values_list("pk", flat=True)))
    match chance.randrange(5):
        case 0 if Flight.objects.count() > 6:
            Flight.objects.get(pk=key).delete()
        case 1:
            move(key, chance.choice(["JFK", "EWR", "LGA"]))
        case 2:
            change(Flight, key, departure_delay=chance.choice([None, 0, 5, 90]))
        case _:
            change(Flight, key, number=chance.randrange(10**6))
    return key


def test_each_is_told_if_and_only_if_a_row_was_written_that_its_set_had_or_has(
    peers: Peers, users: Users, flights: Any, each_told: Callable[..., list[list[str]]]
) -> None:
    chance, names = random.Random(20130102), ("admin", "ops")
    sets = {
        f"db://flights/flight?departure_delay__gte={delay}" + (f"&origin={origin}" if origin else ""): (origin, delay)
        for origin, delay in (("JFK", 0), ("EWR", 5), ("", 60), ("", 1000))
    }
    streams = [watch(peers(token_of(getattr(users, name))), MODERN, *sets, QUIET) for name in names]
    notified = 0
    for _ in range(25):
        before = {name: {uri: rows_of(name, *asked) for uri, asked in sets.items()} for name in names}
        with transaction.atomic():
            touched = {write(chance) for _ in range(chance.randrange(1, 3))}
            if chance.random() < 0.2:
                transaction.set_rollback(True)
                touched = set()
        for name, heard in zip(names, each_told(*streams), strict=True):
            had_or_has = {uri: before[name][uri] | rows_of(name, *asked) for uri, asked in sets.items()}
            assert heard == sorted(uri for uri, keys in had_or_has.items() if keys & touched)
            notified += len(heard)
    assert 15 < notified < 80


# Sessions, whose streams come and go.


def test_a_stream_that_is_opened_again_is_told_once(admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, LEGACY[-1], SET, QUIET)
    assert told(watching) == []
    watching.close()
    change(Flight, 10, notes="in no column")

    watching = admin.watch(LEGACY[-1], [])

    assert told(watching) == [SET]
    assert told(watching) == []
