"""A page, or a table of groups, is told of when its answer changes, and only then."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import ModelAdmin
from django.db import transaction

from demo_project.flights.models import Airline, Airport, Disruption, Flight
from mcp_django import ModelMCP
from tests.push.conftest import watch
from tests.push.live.conftest import COUNTED, EACH_ERA, JFK, ON_EACH, QUIET, Told, change, move
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, Peer, Peers

pytestmark = pytest.mark.every_database


# What is told.


@ON_EACH
@EACH_ERA
def test_a_page_is_told_of_when_its_answer_changes_and_only_then(
    admin: Peer, flights: Any, revision: str, told: Told
) -> None:
    watching = watch(admin, revision, JFK, QUIET)

    change(Flight, 1, notes="not asked for")
    change(Flight, 2, number=7)
    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == [JFK]
    change(Flight, 1, number=7)
    assert told(watching) == []
    Flight.objects.get(pk=4).delete()
    assert told(watching) == [JFK]
    move(2, "JFK")
    assert told(watching) == [JFK]
    move(1, "EWR")
    assert told(watching) == [JFK]


def test_an_aggregate_is_told_of_when_one_of_its_measures_changes(admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, MODERN, COUNTED, QUIET)

    change(Flight, 1, notes="not measured")
    assert told(watching) == []
    change(Flight, 1, departure_delay=1000)
    assert told(watching) == [COUNTED]
    Flight.objects.get(pk=1).delete()
    assert told(watching) == [COUNTED]


def test_a_table_of_related_rows_and_an_order_by_their_count_are_told_of_when_a_value_changes(
    admin: Peer, flights: Any, told: Told
) -> None:
    table = "db://flights/airport?fields=departures__number,departures__status&limit=20"
    order = "db://flights/airport?fields=name&order_by=-departures__count&limit=1"
    watching = watch(admin, MODERN, table, order, QUIET)

    change(Flight, 1, notes="not in the table")
    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == [table]
    move(1, "EWR")
    assert told(watching) == sorted([table, order])


def test_a_page_is_told_of_its_rows_its_total_and_whether_there_are_more(admin: Peer, flights: Any, told: Told) -> None:
    page, total, other = (
        f"db://flights/flight?order_by=departs_at&fields=id&{more}"
        for more in ("limit=2", "limit=2&total=true", "limit=20")
    )
    watching = watch(admin, MODERN, page, total, other, QUIET)

    # The place after which the next page begins, which its cursor holds, is no part of the answer.
    change(Flight, 2, departs_at=Flight.objects.get(pk=2).departs_at.replace(minute=1))
    assert told(watching) == []
    Flight.objects.get(pk=12).delete()
    assert told(watching) == sorted([total, other])
    Flight.objects.filter(pk__gt=3).delete()
    told(watching)
    Flight.objects.get(pk=3).delete()
    assert told(watching) == sorted([page, total, other])


# Related rows.


@pytest.mark.parametrize(("query", "rename", "other"), [
    ("carrier__name=United&fields=id&limit=20", (Airline, "UA", {"name": "U"}), (Airline, "AA", {"name": "A"})),
    ("fields=id,origin__name&number=1000&limit=20", (Airport, "JFK", {"name": "J"}), (Airport, "EWR", {"name": "E"})),
    ("order_by=-origin__altitude&limit=1", (Airport, "EWR", {"altitude": 99}), (Airport, "LGA", {"name": "L"})),
    ("search=American&limit=20", (Airline, "AA", {"name": "A"}), (Airline, "UA", {"name": "U"})),
    ("disruptions__kind=crew&limit=20", (Disruption, 1, {"kind": "crew"}), (Disruption, 1, {"note": "x"})),
    ("fields=disruptions__kind&limit=20", (Disruption, 1, {"kind": "crew"}), (Disruption, 1, {"note": "x"})),
    ("group_by=carrier__name", (Airline, "AA", {"name": "A"}), (Airport, "JFK", {"name": "J"})),
    ("group_by=status&measures=max:origin__altitude", (Airport, "LGA", {"altitude": 99}),
     (Airport, "LGA", {"name": "L"})),
    ("group_by=status&origin__name=LGA", (Airport, "LGA", {"name": "L"}), (Airport, "LGA", {"altitude": 99})),
])  # fmt: skip
def test_a_change_of_a_related_row_is_told_where_it_changes_the_answer(
    admin: Peer, flights: Any, told: Told, query: str, rename: Any, other: Any
) -> None:
    Disruption.objects.create(pk=1, flight_id=1, kind="weather")
    uri = f"db://flights/flight?{query}"
    watching = watch(admin, MODERN, uri, QUIET)

    for model, key, values in (other, rename):
        change(model, key, **values)
        assert told(watching) == ([uri] if model is rename[0] and values == rename[2] and key == rename[1] else [])


def test_what_the_rows_of_a_model_depend_on_is_followed_too(
    admin: Peer, flights: Any, declared: Declared, told: Told
) -> None:
    class OfUnited(ModelMCP):
        fields = ("number",)

        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(carrier__name="United")

    declared.model(Flight, OfUnited)
    uri = "db://flights/flight?order_by=-number"
    watching = watch(admin, MODERN, uri, QUIET)

    change(Airline, "AA", name="United")

    assert told(watching) == [uri]


# Whatever is written.


def write(random: random.Random) -> None:
    """One change, of any of the models that the queries look at."""
    flight = random.choice(list(Flight.objects.all()))
    match random.randrange(8):
        case 0 if Flight.objects.count() > 6:
            flight.delete()
        case 0 | 1:
            flight.pk = Flight.objects.latest("pk").pk + 1
            flight.number = random.randrange(10**6)
            flight.save(force_insert=True)
        case 2:
            flight.number = random.randrange(10**6)
            flight.save()
        case 3:
            flight.departure_delay = random.choice([None, 0, 5, 90])
            flight.save()
        case 4:
            flight.origin_id = random.choice(["JFK", "EWR", "LGA"])
            flight.save()
        case 5:
            change(Airline, random.choice(["UA", "AA"]), name=random.choice(["United", "American", "Delta"]))
        case 6:
            change(Airport, random.choice(["JFK", "EWR", "LGA"]), altitude=random.randrange(3))
        case _:
            if random.random() < 0.5 and Disruption.objects.exists():
                random.choice(list(Disruption.objects.all())).delete()
            else:
                Disruption.objects.create(flight=flight, kind=random.choice(["crew", "weather"]))


def test_each_is_told_if_and_only_if_it_would_read_another_answer_now(
    peers: Peers, users: Users, flights: Any, each_told: Callable[..., list[list[str]]]
) -> None:
    chance = random.Random(20130101)
    watched = [
        "db://flights/flight?origin=JFK&fields=number&order_by=number&limit=20",
        "db://flights/flight?order_by=-departure_delay&limit=2&fields=id&total=true",
        "db://flights/flight?carrier__name=United&limit=1&fields=departure_delay",
        "db://flights/flight?disruptions__kind=crew&fields=disruptions__count,origin__altitude&limit=20",
        "db://flights/airline?flights__departure_delay__gte=60&limit=20",
        "db://flights/flight?group_by=carrier__name&measures=count,max:origin__altitude&order_by=-count",
        "db://flights/flight?measures=avg:departure_delay&origin__altitude=1",
        "db://flights/flight?group_by=origin&having.count__gte=4",
    ]
    clients = [peers(token_of(user)) for user in (users.admin, users.ops)]

    def read(peer: Peer, uri: str) -> Any:
        answer = peer.read(uri)
        return {**answer, "next": "next" in answer}

    known = [{uri: read(peer, uri) for uri in watched} for peer in clients]
    streams = [watch(peer, MODERN, *watched, QUIET) for peer in clients]
    differed = 0
    for _ in range(15):
        with transaction.atomic():
            for _ in range(chance.randrange(1, 4)):
                write(chance)
            transaction.set_rollback(chance.random() < 0.2)
        for peer, heard, answers in zip(clients, each_told(*streams), known, strict=True):
            now = {uri: read(peer, uri) for uri in watched}
            changed = sorted(uri for uri in watched if now[uri] != answers[uri])
            assert heard == changed
            answers.update(now)
            differed += len(changed)
    assert 40 < differed < 200


@pytest.mark.parametrize("most", [100, None])
def test_a_search_by_the_admin_is_told_of_by_what_each_client_finds(
    admin: Peer, ops: Peer, flights: Any, declared: Declared, each_told: Callable[..., Any], most: int | None
) -> None:
    class Own(ModelAdmin):
        list_display = ["number"]

        def get_search_results(self, request: Any, queryset: Any, search_term: str) -> Any:
            own = queryset if request.user.is_superuser else queryset.filter(origin="JFK")
            return own.filter(carrier__name__startswith=search_term)[:most], False

    searched = "db://flights/flight?search=Amer&fields=id"
    declared.admin(Flight, Own)
    declared.model(Flight, search="admin")
    streams = [watch(peer, MODERN, searched, QUIET) for peer in (admin, ops)]

    change(Flight, 1, carrier=Airline.objects.get(pk="AA"))
    assert each_told(*streams) == [[searched], [searched]]
    change(Flight, 2, carrier=Airline.objects.get(pk="UA"))
    assert each_told(*streams) == [[searched], []]
    change(Airline, "AA", name="Else")
    assert each_told(*streams) == [[searched], [searched]]
    change(Flight, 3, number=4711)
    assert each_told(*streams) == [[], []]
