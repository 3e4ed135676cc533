"""Numbers on the bus: what a hub concludes from those that it hears, and from those that it does not."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.events.bus import ChannelLayerBus
from mcp_django.models import Tool
from mcp_django.push.follower import Follower
from mcp_django.push.hub import Hub
from tests.push.conftest import list_changed, listen, updated, watch
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Peer

UA, AA, FLIGHTS = "db://flights/airline/UA", "db://flights/airline/AA", "db://flights/flight"
NOBODY = {"BACKEND": "channels.layers.InMemoryChannelLayer", "CONFIG": {}}
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
                followers.append(Follower(hub(), ChannelLayerBus(NOBODY)))
            followers[0].receive(event)

        serving_loop.run(take_in())

    return hear


def test_a_change_of_another_process_is_told(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA, FLIGHTS)

    hear(1, "UA")

    assert watching.uris(1) == [UA]
    hear(2, "AA")
    assert watching.uris(1) == [AA]


def test_a_control_of_another_process_is_told(admin: Peer, hear: Hear) -> None:
    watching = listen(admin, {"toolsListChanged": True})
    watching.next()

    Tool.objects.filter(name="delay_statistics").update(enabled=False)
    hear(1, controls=[{"kind": "tools"}])

    assert watching.next() == list_changed("tools", "sub-1")


def test_a_gap_in_the_numbers_lets_everybody_look_again(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA, FLIGHTS)
    hear(1, "UA")
    watching.uris(1)

    hear(3, "AA")

    assert watching.uris(3) == sorted([UA, AA, FLIGHTS])


def test_after_a_gap_the_tools_may_have_changed_too(admin: Peer, hear: Hear) -> None:
    watching = listen(admin, {"toolsListChanged": True})
    watching.next()
    hear(1, "UA")

    Tool.objects.filter(name="delay_statistics").update(enabled=False)
    hear(3, "AA")

    assert watching.next() == list_changed("tools", "sub-1")


def test_a_repeated_number_that_is_ahead_of_the_last_event_says_that_one_was_lost(
    admin: Peer, flights: Any, hear: Hear
) -> None:
    watching = watch(admin, MODERN, UA, AA)
    hear(1, "UA")
    watching.uris(1)

    hear(2)

    assert watching.uris(2) == [AA, UA]


def test_a_repeated_number_says_nothing_new(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA)
    hear(1, "UA")
    watching.uris(1)

    for _ in range(3):
        hear(1)
    hear(2, "AA")

    assert watching.uris(1) == [AA]
    hear(3, "UA")
    assert watching.uris(1) == [UA]


def test_the_gap_is_told_once(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA)
    hear(1, "UA")
    watching.uris(1)
    hear(5)
    watching.uris(2)

    hear(5)
    hear(6, "AA")

    assert watching.uris(1) == [AA]
    hear(7, "UA")
    assert watching.uris(1) == [UA]


def test_an_unknown_publisher_that_started_later_and_is_past_its_first_event_was_missed(
    admin: Peer, flights: Any, hear: Hear
) -> None:
    watching = watch(admin, MODERN, UA, AA)

    hear(2, "UA", started=LATER)

    assert watching.uris(2) == [AA, UA]


def test_an_unknown_publisher_that_started_later_and_repeats_its_first_number_was_missed(
    admin: Peer, flights: Any, hear: Hear
) -> None:
    watching = watch(admin, MODERN, UA, AA)

    hear(1, started=LATER)

    assert watching.uris(2) == [AA, UA]


def test_an_unknown_publisher_that_is_older_than_the_hub_was_not_missed(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA)

    hear(100, started=LONG_AGO)
    hear(101, "UA", started=LONG_AGO)

    assert watching.uris(1) == [UA]
    hear(102, "AA", started=LONG_AGO)
    assert watching.uris(1) == [AA]


def test_each_publisher_has_numbers_of_its_own(admin: Peer, flights: Any, hear: Hear) -> None:
    watching = watch(admin, MODERN, UA, AA)

    hear(1, "UA", publisher="a")
    watching.uris(1)
    hear(1, "AA", publisher="b")

    assert watching.uris(1) == [AA]
    hear(2, "UA", publisher="a")
    assert watching.uris(1) == [UA]


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
