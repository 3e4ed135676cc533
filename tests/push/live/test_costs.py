"""What queries that are watched cost, and that none holds up another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings

from demo_project.flights.models import Airport, Flight
from mcp_django.push import live_queries
from mcp_django.push.hub import Hub
from mcp_django.push.identities import Identity
from mcp_django.push.live_answers import LiveAnswer, Viewer
from mcp_django.resources import uris
from tests.push.conftest import watch
from tests.push.live.conftest import COUNTED, JFK, QUIET, Told, change, touch, wait_until
from tests.support.data import Users, token_of
from tests.support.peers import MODERN, Peer, Peers


def test_who_watch_the_same_with_equal_rights_share_one_computation(
    peers: Peers, users: Users, flights: Any, each_told: Callable[..., list[list[str]]], computed: list[uris.Target]
) -> None:
    token = token_of(users.admin)
    watching = [watch(peers(token), MODERN, JFK, QUIET, listen_id=number) for number in range(5)]
    watching.append(watch(peers(token_of(users.ops)), MODERN, JFK, QUIET))
    computed.clear()

    change(Flight, 1, number=7)

    assert each_told(*watching) == [[JFK]] * 6
    assert computed == [uris.parse(JFK)] * 2


def test_the_first_change_is_looked_at_at_once_and_others_once_in_the_interval(
    admin: Peer, flights: Any, settings: LazySettings, computed: list[uris.Target]
) -> None:
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 3600}
    watching = watch(admin, MODERN, JFK, QUIET)
    computed.clear()

    change(Flight, 1, number=7)
    assert watching.uris(1) == [JFK]
    for number in range(20):
        change(Flight, 1, number=number)
    for _ in range(2):
        touch()
        assert watching.uris(1) == [QUIET]

    assert computed == [uris.parse(JFK)]


def test_changes_of_other_models_cost_nothing(admin: Peer, flights: Any, told: Told, computed: list[Any]) -> None:
    watching = watch(admin, MODERN, JFK, QUIET)
    computed.clear()

    change(Airport, "JFK", name="another")

    assert told(watching) == [] and computed == []


def test_nothing_is_left_of_a_query_that_nobody_watches_any_more(
    admin: Peer, flights: Any, hub: Callable[[], Hub], settle: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, JFK, "db://flights/flight?carrier__name=United", COUNTED)
    change(Flight, 1, number=7)
    settle()

    watching.close()

    wait_until(lambda: not hub().live._queries)
    assert not hub().live._index


def test_a_slow_query_holds_up_no_other_and_no_request(
    admin: Peer, flights: Any, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCP = {**settings.MCP, "THREADS": 2}
    slow, begun, go_on = uris.parse(COUNTED), threading.Event(), threading.Event()
    answer = Viewer.answer

    def hold(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        found = answer(self, target)
        if target != slow or found is None:
            return found
        if subscribed.is_set():
            begun.set()
            assert go_on.wait(60)
        return LiveAnswer(found.digest, found.labels, seconds=1.0)

    subscribed = threading.Event()
    monkeypatch.setattr(Viewer, "answer", hold)
    watching = watch(admin, MODERN, COUNTED, JFK)
    subscribed.set()

    change(Flight, 2, departure_delay=1000)
    assert begun.wait(30)
    for number in range(5):
        change(Flight, 1, number=number)
        assert watching.uris(1) == [JFK]
        assert admin.read("db://flights/flight/1")["number"] == number
    go_on.set()

    assert watching.uris(1) == [COUNTED]


def test_one_principal_s_many_queries_wait_for_the_few_of_another() -> None:
    lane = live_queries.Lane()
    first, second = Identity("user:1"), Identity("user:2")
    many = [live_queries.LiveQuery(first, uris.Target("collection", f"a.{n}")) for n in range(200)]
    few = [live_queries.LiveQuery(second, uris.Target("collection", f"b.{n}")) for n in range(3)]
    for query in (*many, *few):
        lane.put(query)

    taken = [asyncio.run(lane.take(50)) for _ in range(3)]

    assert taken == [many[:50], [*few, *many[50:97]], many[97:147]]
