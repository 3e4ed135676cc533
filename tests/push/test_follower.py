"""Numbers on the bus: what a hub concludes from those that it hears, and from those that it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.models import Tool
from mcp_django.push.follower import Follower
from mcp_django.push.hub import Hub
from tests.push.conftest import list_changed, listen, updated, watch
from tests.push.processes import layer_bus
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Peer

UA, AA, FLIGHTS = "db://flights/airline/UA", "db://flights/airline/AA", "db://flights/flight"
NOBODY = "channels.layers.InMemoryChannelLayer"
LONG_AGO, LATER = -3_600.0, 3_600.0

Hear = Callable[..., None]


@pytest.fixture
def hear(hub: Callable[[], Hub], serving_loop: LoopThread) -> Hear:
    """Lets the hub hear events: ``hear(number, …)``; ``started`` is when its publisher did, from now."""
    followers: list[Follower] = []

    def hear(number: int, *keys: str, publisher: str = "a", started: float = LATER, **more: Any) -> None:
        event: dict[str, Any] = {"publisher": publisher, "started": time.time() + started, "number": number, **more}
        if keys:
            change = {"alias": "default", "label": "flights.airline", "written": list(keys), "deleted": []}
            event["changes"] = [change]

        async def take_in() -> None:
            if not followers:
                followers.append(Follower(hub(), layer_bus(NOBODY, {})))
            followers[0].receive(event)

        serving_loop.run(take_in())

    return hear


def test_changes_of_other_processes_are_told_by_numbers_of_their_own_and_repeated_numbers_say_nothing_new(
    admin: Peer, flights: Any, hear: Hear
) -> None:
    watching = watch(admin, MODERN, UA, AA, FLIGHTS)

    for publisher, number, key in (("a", 1, "UA"), ("a", 2, "AA"), ("b", 1, "AA"), ("a", 3, "UA"), ("b", 2, "UA")):
        hear(number, key, publisher=publisher)
        assert watching.uris(1) == [f"db://flights/airline/{key}"]
        for _ in range(3):
            hear(number, publisher=publisher)


def test_a_gap_in_the_numbers_lets_everybody_look_again_once(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA, FLIGHTS)
    hear(1, "UA")
    watching.uris(1)

    for ahead in (3, 7):
        hear(ahead, "AA")
        assert watching.uris(3) == sorted([UA, AA, FLIGHTS])
        # A repeated number that is ahead of the last event says that one was lost.
        hear(ahead + 1)
        assert watching.uris(3) == sorted([UA, AA, FLIGHTS])
        hear(ahead + 1)
        hear(ahead + 2, "UA")
        assert watching.uris(1) == [UA]


@pytest.mark.parametrize("after_a_gap", [False, True])
def test_a_control_of_another_process_is_told_and_after_a_gap_tools_may_have_changed(
    admin: Peer, hear: Hear, after_a_gap: bool
) -> None:
    watching = listen(admin, {"toolsListChanged": True})
    watching.next()
    hear(1, "UA")

    Tool.objects.filter(name="delay_statistics").update(enabled=False)
    hear(3, "AA") if after_a_gap else hear(2, controls=[{"kind": "tools"}])

    assert watching.next() == list_changed("tools", "sub-1")


def test_an_unknown_publisher_was_missed_where_it_started_later_and_says_no_first_event(
    admin: Peer, flights: Any, hear: Hear
) -> None:
    watching = watch(admin, MODERN, UA, AA)

    hear(2, "UA", publisher="past its first event", started=LATER)
    assert watching.uris(2) == [AA, UA]
    hear(1, publisher="repeats its first number", started=LATER)
    assert watching.uris(2) == [AA, UA]
    hear(100, publisher="older than the hub", started=LONG_AGO)
    for number, uri in ((101, UA), (102, AA), (103, UA)):
        hear(number, uri[-2:], publisher="older than the hub", started=LONG_AGO)
        assert watching.uris(1) == [uri]


def test_a_roll_call_takes_no_number_and_hides_no_loss(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA)
    here = [{"kind": "here", "key": "x"}]
    hear(1, "UA")
    watching.uris(1)

    hear(1, controls=here)
    hear(0, publisher="has told of nothing else", controls=here)
    hear(2, "AA")
    assert watching.uris(1) == [AA]
    hear(3, controls=here)
    assert watching.uris(2) == [AA, UA]


def test_looking_again_tells_only_what_the_principal_may_see(ops: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(ops, MODERN, "db://flights/flight/1", UA)
    flights[0].delete()
    watching.uris(1)
    hear(1, "UA")
    watching.uris(1)

    hear(9)

    assert watching.next() == updated(UA, "sub-1")
    hear(10, "UA")
    assert watching.next() == updated(UA, "sub-1")
