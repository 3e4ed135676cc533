"""Sets: what looking at a change costs, and what is told where it is slow, fails, or cannot be done for a while."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings
from django.db import OperationalError

from demo_project.flights.models import Flight
from mcp_django.events.changes import Changes
from mcp_django.protocol.errors import TooSlow
from mcp_django.push import keys, live_queries, live_sets
from mcp_django.push.hub import Hub
from mcp_django.push.identities import Identity
from mcp_django.resources import uris
from tests.push.conftest import watch
from tests.push.live.conftest import QUIET, Told, change, touch, wait_until
from tests.support.data import Users, token_of
from tests.support.peers import MODERN, Peer, Peers

SET = "db://flights/flight?origin=JFK&fields=number"
DELAYED = "db://flights/flight?departure_delay__gte=600"


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Changes]:
    """The changes that sets were compared with since, in their order."""
    compared: list[Changes] = []
    after = live_sets.after

    def noted(viewer: Any, target: Any, before: Any, changes: Changes, *, rights_changed: bool) -> Any:
        compared.append(changes)
        return after(viewer, target, before, changes, rights_changed=rights_changed)

    monkeypatch.setattr(live_sets, "after", noted)
    return compared


def failing(errors: list[Exception]) -> Callable[..., Any]:
    """A comparison that raises each of the errors once."""
    after = live_sets.after

    def fails(*arguments: Any, **more: Any) -> Any:
        if errors:
            raise errors.pop()
        return after(*arguments, **more)

    return fails


# What it costs.


def test_who_watch_the_same_set_with_equal_rights_share_one_comparison(
    peers: Peers, users: Users, flights: Any, each_told: Callable[..., list[list[str]]], compared: list[Changes]
) -> None:
    token = token_of(users.admin)
    watching = [watch(peers(token), MODERN, SET, QUIET, listen_id=number) for number in range(3)]
    watching.append(watch(peers(token_of(users.ops)), MODERN, SET, QUIET))
    each_told(*watching)
    compared.clear()

    change(Flight, 1, number=7)

    assert each_told(*watching) == [[SET]] * 4
    assert len(compared) == 2


def test_a_change_of_its_own_rows_does_not_read_the_set_again(
    admin: Peer, flights: Any, told: Told, computed: list[Any]
) -> None:
    watching = watch(admin, MODERN, SET, DELAYED, QUIET)
    told(watching)
    computed.clear()

    change(Flight, 1, number=7)
    change(Flight, 4, departure_delay=700)
    Flight.objects.get(pk=7).delete()

    assert told(watching) == sorted([SET, DELAYED]) and computed == []


def test_a_set_is_told_of_once_in_the_interval(
    admin: Peer, flights: Any, settings: LazySettings, compared: list[Changes]
) -> None:
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 3600}
    watching = watch(admin, MODERN, SET, QUIET)

    change(Flight, 1, number=7)
    assert watching.uris(1) == [SET]
    for number in range(20):
        change(Flight, 1, number=number)
    for _ in range(2):
        touch()
        assert watching.uris(1) == [QUIET]

    assert len(compared) == 1


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


def test_nothing_is_left_of_a_set_that_nobody_watches_any_more(
    admin: Peer, flights: Any, hub: Callable[[], Hub], settle: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, SET, "db://flights/flight?carrier__name=United")
    change(Flight, 1, number=7)
    settle()

    watching.close()

    wait_until(lambda: not hub().live._queries)
    assert not hub().live._index


# Slow, failing, away.


def test_a_set_that_cannot_be_compared_in_time_is_told_in_the_end(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    watching = watch(admin, MODERN, DELAYED, QUIET)
    told(watching)
    errors: list[Exception] = [TooSlow()] * live_queries._TRIES
    monkeypatch.setattr(live_queries, "_LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(live_sets, "after", failing(errors))

    change(Flight, 1, number=7)

    assert told(watching) == [DELAYED] and not errors


@pytest.mark.parametrize("error", [TooSlow(), OperationalError("away")])
def test_a_set_that_could_not_be_compared_misses_no_change(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told, error: Exception
) -> None:
    watching = watch(admin, MODERN, SET, DELAYED, QUIET)
    told(watching)
    errors = [error, error]
    monkeypatch.setattr(live_sets, "after", failing(errors))

    change(Flight, 1, number=7)

    assert told(watching) == [SET] and not errors


def test_a_hook_that_fails_tells_nobody_until_it_works_again(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    watching = watch(admin, MODERN, SET, QUIET)
    told(watching)

    with monkeypatch.context() as patched:
        patched.setattr(live_sets, "after", failing([ValueError("a hook")] * 10))
        change(Flight, 1, number=7)
        assert told(watching) == []
    change(Flight, 2, number=7)

    assert told(watching) == [SET]


def test_a_set_whose_keys_cannot_be_read_in_time_is_watched_as_a_large_one(
    ops: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, told: Told
) -> None:
    def too_slow(*arguments: Any) -> Any:
        raise TooSlow

    monkeypatch.setattr(keys, "fetch", too_slow)
    watching = watch(ops, MODERN, SET, QUIET)

    change(Flight, 1, number=7)
    assert told(watching) == [SET]
    change(Flight, 2, number=7)
    assert told(watching) == []
