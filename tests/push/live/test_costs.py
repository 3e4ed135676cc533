"""What queries that are watched cost, and that none holds up another."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings

from demo_project.flights.models import Airport, Flight
from mcp_django.bridge.resources import uris
from mcp_django.core.events.changed_rows import Changes
from mcp_django.push import live_answers, live_queries
from mcp_django.push.hub import Hub
from mcp_django.push.identities import Identity
from mcp_django.push.live_answers import LiveAnswer, Viewer
from tests.end_to_end.servers import wait_for
from tests.push.conftest import watch
from tests.push.live.conftest import COUNTED, DELAYED, JFK, QUIET, SET, Told, change, touch
from tests.support.data import Users, token_of
from tests.support.peers import MODERN, Peer, Peers


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """The changes that sets were compared with since, in their order."""
    compared: list[Changes] = []
    after = live_answers.after

    def noted(viewer: Any, target: Any, before: Any, changes: Changes, *, rights_changed: bool) -> Any:
        compared.append(changes)
        return after(viewer, target, before, changes, rights_changed=rights_changed)

    monkeypatch.setattr(live_answers, "after", noted)
    return compared


def test_who_watch_the_same_with_equal_rights_share_one_computation_and_comparison(
    peers: Peers,
    users: Users,
    flights: Any,
    each_told: Callable[..., list[list[str]]],
    computed: list[uris.Target],
    compared: list[Changes],
) -> None:
    token = token_of(users.admin)
    watching = [watch(peers(token), MODERN, JFK, SET, QUIET, listen_id=number) for number in range(5)]
    watching.append(watch(peers(token_of(users.ops)), MODERN, JFK, SET, QUIET))
    each_told(*watching)
    computed.clear()
    compared.clear()

    change(Flight, 1, number=7)

    assert each_told(*watching) == [sorted([JFK, SET])] * 6
    assert computed == [uris.parse(JFK)] * 2
    assert len(compared) == 2


def test_the_first_change_is_looked_at_at_once_and_others_once_in_the_interval(
    admin: Peer, flights: Any, settings: LazySettings, computed: list[uris.Target], compared: list[Changes]
) -> None:
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 3600}
    watching = watch(admin, MODERN, JFK, SET, QUIET)
    computed.clear()

    change(Flight, 1, number=7)
    assert watching.uris(2) == sorted([JFK, SET])
    for number in range(20):
        change(Flight, 1, number=number)
    for _ in range(2):
        touch()
        assert watching.uris(1) == [QUIET]

    assert computed == [uris.parse(JFK)]
    assert len(compared) == 1


def test_a_change_of_its_own_rows_does_not_read_a_set_again(
    admin: Peer, flights: Any, told: Told, computed: list[Any]
) -> None:
    watching = watch(admin, MODERN, SET, DELAYED, QUIET)
    told(watching)
    computed.clear()

    change(Flight, 1, number=7)
    change(Flight, 4, departure_delay=700)
    Flight.objects.get(pk=7).delete()

    assert told(watching) == sorted([SET, DELAYED]) and computed == []


def test_sets_that_wait_for_the_same_changes_share_them() -> None:
    sets = [live_queries.LiveQuery(Identity("user:1"), uris.Target("collection", f"a.{n}")) for n in range(3)]
    first, second, both = Changes(), Changes(), Changes()
    first.note("default", "a.b", {"1"})
    second.note("default", "a.b", {"2"})
    both.note("default", "a.b", {"1", "2"})

    for changes in (first, second):
        live_queries._add_changes(sets, changes)

    assert all(one.changes is sets[0].changes for one in sets) and sets[0].changes == both
    assert first["default", "a.b"].written == {"1"} and not live_queries.NO_CHANGES


def test_changes_of_other_models_cost_nothing(admin: Peer, flights: Any, told: Told, computed: list[Any]) -> None:
    watching = watch(admin, MODERN, JFK, QUIET)
    computed.clear()

    change(Airport, "JFK", name="another")

    assert told(watching) == [] and computed == []


def test_nothing_is_left_of_a_query_that_nobody_watches_any_more(
    admin: Peer, flights: Any, hub: Callable[[], Hub], settle: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, JFK, "db://flights/flight?carrier__name=United", COUNTED, SET)
    change(Flight, 1, number=7)
    settle()

    watching.close()

    wait_for(lambda: not hub().live._queries, "the end of the queries", 60)
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
    assert begun.wait(60)
    for number in range(5):
        change(Flight, 1, number=number)
        assert watching.uris(1) == [JFK]
        assert admin.read("db://flights/flight/1")["number"] == number
    go_on.set()

    assert watching.uris(1) == [COUNTED]
