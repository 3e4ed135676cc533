"""Queries watched by sessions, whose streams come and go."""

from __future__ import annotations

from typing import Any

import pytest

from demo_project.flights.models import Flight
from mcp_django.bridge.resources import uris
from mcp_django.models import WatchedResource
from mcp_django.transports import attachment
from tests.end_to_end.servers import wait_for
from tests.push.conftest import watch
from tests.push.live.conftest import COUNTED, JFK, QUIET, Told, change
from tests.support.peers import LEGACY, Peer, Watching


def stream_of(peer: Peer) -> Watching:
    return peer.watch(LEGACY[-1], [])


def test_what_changed_while_a_session_had_no_stream_is_told_on_the_next(admin: Peer, flights: Any, told: Told) -> None:
    for uri in (JFK, COUNTED, QUIET):
        admin.result(LEGACY[-1], "resources/subscribe", {"uri": uri})

    change(Flight, 1, number=7)

    assert told(stream_of(admin)) == [JFK]


def test_what_is_found_before_a_stream_may_speak_is_told_when_it_does(
    admin: Peer, flights: Any, computed: list[uris.Target], monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.result(LEGACY[-1], "resources/subscribe", {"uri": JFK})
    change(Flight, 1, number=7)
    computed.clear()
    look = attachment.unseen

    def late(*arguments: Any) -> Any:
        wait_for(lambda: len(computed) > 2, "three answers", 60)
        return look(*arguments)

    monkeypatch.setattr(attachment, "unseen", late)

    assert stream_of(admin).uris(1) == [JFK]


def test_what_was_told_on_a_stream_that_broke_is_told_once_more_on_the_next(
    admin: Peer, flights: Any, told: Told
) -> None:
    watching = watch(admin, LEGACY[-1], JFK, COUNTED, QUIET)
    change(Flight, 1, number=7)
    assert told(watching) == [JFK]
    watching.close()

    watching = stream_of(admin)

    assert told(watching) == [JFK]
    assert told(watching) == []
    assert {item.uri: bool(item.digest) for item in WatchedResource.objects.all()} == {
        JFK: False, COUNTED: True, QUIET: False,
    }  # fmt: skip


def test_what_a_session_subscribes_to_while_its_stream_is_open_is_told(admin: Peer, flights: Any, told: Told) -> None:
    watching = watch(admin, LEGACY[-1], QUIET)
    admin.result(LEGACY[-1], "resources/subscribe", {"uri": JFK})

    assert told(watching) == []
    change(Flight, 1, number=7)
    assert told(watching) == [JFK]
    admin.result(LEGACY[-1], "resources/unsubscribe", {"uri": JFK})
    change(Flight, 1, number=8)
    assert told(watching) == []
