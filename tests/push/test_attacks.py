"""Attempts to be told of what others may see, to keep others from being told, and to leave things behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.conf import LazySettings

from mcp_django import site
from mcp_django.bridge.resources import uris
from mcp_django.exchange.principals import Source
from mcp_django.push import listeners, live_jobs, live_queries
from mcp_django.push.follower import Follower
from mcp_django.push.hub import Hub
from mcp_django.push.identities import Identity
from mcp_django.push.listeners import Listener
from mcp_django.push.live_answers import LiveAnswer
from mcp_django.push.subscriptions import Subscription
from mcp_django.push.sweep import compare
from tests.end_to_end.servers import wait_for
from tests.push.conftest import acknowledged, listen, watch
from tests.push.processes import layer_bus
from tests.support.asking import request_of
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, ASGIPeer, DuplexPeer, Peer, Peers

ON_ASGI_AND_A_SOCKET = pytest.mark.parametrize("transport", ["http-asgi", "websocket"])

UA, AIRLINES = "db://flights/airline/UA", "db://flights/airline"
NOBODY = "channels.layers.InMemoryChannelLayer"


def listener_of(user: Any, **attributes: Any) -> Listener:
    """A listener of the user, whose request has these attributes."""
    request = request_of(user)
    vars(request).update(attributes)
    return Listener(site=site, principal=request.mcp.principal, request=request, subscription_id=1)


# Who may speak on the bus: on PostgreSQL, whoever may connect to the database.


def test_suppressing_a_change_by_forged_events(
    admin: Peer, flights: Any, hub: Callable[[], Hub], serving_loop: LoopThread
) -> None:
    watching = watch(admin, MODERN, UA, AIRLINES)
    true = {"alias": "default", "label": "flights.airline", "written": ["UA"], "deleted": []}
    forgeries: list[dict[str, Any]] = [
        {"alias": "nowhere"}, {"alias": "nowhere", "written": None}, {"written": ["\0", "9" * 7_000, "no such key"]},
    ]  # fmt: skip

    async def hear(*changes: dict[str, Any]) -> None:
        follower = Follower(hub(), layer_bus(NOBODY, {}))
        for change in changes:
            follower.receive({"changes": [change]})

    for forged in forgeries:
        serving_loop.run(hear({**true, **forged}, true))
        assert sorted(watching.uris(2)) == [AIRLINES, UA]


# What is left behind.


def test_leaving_queries_behind_that_are_computed_when_their_client_goes(
    users: Users, serving_loop: LoopThread, settings: LazySettings
) -> None:
    settings.CHANNEL_LAYERS = {}
    listener, uri = listener_of(users.admin), "db://flights/flight?carrier__name=United"
    subscription = Subscription(uri, uris.parse(uri), "flights.flight", digest="known")
    answer = LiveAnswer("another", frozenset({"flights.flight", "flights.airline"}), 0.0)

    async def leave_meanwhile() -> tuple[dict[Any, Any], dict[Any, Any]]:
        hub = Hub(serving_loop.loop)
        hub.live.add(subscription, listener)
        [query] = hub.live._queries.values()
        known = query.known
        hub.live.remove(subscription, listener)
        hub.live._finish(query, known, live_jobs.QueryOutcome(answer), serving_loop.loop.time())
        hub.close()
        return hub.live._queries, hub.live._index

    assert serving_loop.run(leave_meanwhile()) == ({}, {})


# Holding up others.


def test_holding_up_the_queries_of_others_with_another_header_on_each_stream() -> None:
    many = [live_queries.LiveQuery(Identity("user:1"), uris.Target("collection", f"a.{n}")) for n in range(200)]
    few = [live_queries.LiveQuery(Identity("user:2"), uris.Target("collection", "b"))]
    lane = live_queries.Lane()
    for query in (*many, *few):
        lane.put(query)

    taken = [asyncio.run(lane.take(50)) for _ in range(3)]

    assert taken == [many[:50], [*few, *many[50:99]], many[99:149]]


# Filling the memory of a process.


def long_uri(letter: str) -> str:
    return f"db://flights/flight?search={letter * 160}"


@ON_ASGI_AND_A_SOCKET
def test_watching_by_long_uris_on_many_streams(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch, hub: Callable[[], Hub]
) -> None:
    monkeypatch.setattr("mcp_django.push.hub.MAX_WATCHED_BYTES", 400)
    token = token_of(users.admin)
    first, _ = (watch(peers(token), MODERN, long_uri(letter)) for letter in "ab")

    wanted = {"notifications": {"resourceSubscriptions": [long_uri("c")]}}
    refused = peers(token).request(MODERN, "subscriptions/listen", wanted)
    watch(peers(token_of(users.viewer)), MODERN, long_uri("c"))
    first.close()
    wait_for(lambda: len(hub()._listeners) == 2, "the end of the first", 60)
    watch(peers(token), MODERN, long_uri("c"))

    assert refused["error"]["data"]["reason"] == "LIMIT_EXCEEDED"


@pytest.mark.parametrize("transport", ["websocket"])
def test_watching_by_long_uris_in_a_session(
    admin: DuplexPeer, flights: Any, monkeypatch: pytest.MonkeyPatch, hub: Callable[[], Hub]
) -> None:
    monkeypatch.setattr("mcp_django.push.hub.MAX_WATCHED_BYTES", 400)
    a, b, c = map(long_uri, "abc")

    answers = [admin.request(LEGACY[-1], "resources/subscribe", {"uri": uri}) for uri in (a, b, b, c)]
    admin.request(LEGACY[-1], "resources/unsubscribe", {"uri": a})
    answers.append(admin.request(LEGACY[-1], "resources/subscribe", {"uri": c}))

    assert ["error" in answer for answer in answers] == [False, False, False, True, False]
    assert answers[3]["error"]["data"]["reason"] == "LIMIT_EXCEEDED"
    assert list(hub()._watched_bytes.values()) == [len(b + c)]


def test_watching_by_long_uris_in_sessions_of_which_the_database_knows(
    peers: Peers, users: Users, flights: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcp_django.push.hub.MAX_WATCHED_BYTES", 400)
    token = token_of(users.admin)
    peers(token).watch(LEGACY[-1], [long_uri("a")])
    second, third = peers(token), peers(token)
    stream = second.watch(LEGACY[-1], [long_uri("b")])
    assert isinstance(third, ASGIPeer)
    third.result(LEGACY[-1], "resources/subscribe", {"uri": long_uri("c")})

    headers = {"Mcp-Session-Id": third.session(LEGACY[-1]), "MCP-Protocol-Version": LEGACY[-1]}
    refused = third.http("GET", headers={**headers, "Accept": "text/event-stream"})

    assert refused.status == 400
    assert b"LIMIT_EXCEEDED" in refused.body
    second.result(LEGACY[-1], "resources/subscribe", {"uri": long_uri("d")})
    with pytest.raises(EOFError):
        stream.next()


def test_nothing_is_counted_of_what_is_not_there_or_watched_no_more(
    admin: Peer, flights: Any, hub: Callable[[], Hub]
) -> None:
    wanted = [long_uri("a"), "db://flights/airline/UA", "db://flights/airline/absent", "db://no/where"]
    watching = listen(admin, {"resourceSubscriptions": wanted})
    assert watching.next() == acknowledged("sub-1", resourceSubscriptions=wanted[:2])
    [counted] = hub()._watched_bytes.values()
    watching.close()
    admin.close()

    assert counted == len("".join(wanted[:2]))
    assert hub()._watched_bytes == {}
    assert [subscriptions for subscriptions in hub()._index.values() if subscriptions] == []


# Being asked about as somebody else.


@pytest.mark.every_case
@pytest.mark.parametrize("attributes", [{"path": "/north/mcp"}, {"tenant": "north"}, {"tenant": ["north"]}])
def test_hearing_with_the_sight_of_another_tenant(users: Users, attributes: dict[str, Any]) -> None:
    """The tenant is in the path, or a middleware has set it: what one may see there, is not what one may see here."""
    here = listener_of(users.admin)

    there = listener_of(users.admin, **attributes)

    assert there.identity is not here.identity


def test_equal_requests_of_one_principal_are_asked_about_once(users: Users) -> None:
    here, there = (listener_of(users.admin, path="/north/mcp", tenant="north") for _ in range(2))

    assert there.identity is here.identity


# Going on with a stream that nobody will ever speak on.


def test_a_stream_that_begins_too_late_ends_at_once(
    users: Users, serving_loop: LoopThread, settings: LazySettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.CHANNEL_LAYERS = {}
    monkeypatch.setattr(listeners, "_BEGIN_SECONDS", -1.0)
    listener = listener_of(users.admin)
    listener.principal = replace(listener.principal, source=Source.COMMAND)  # It holds, whatever the sweep asks.

    async def begin_after_a_sweep() -> list[bytes] | None:
        hub = Hub(serving_loop.loop)
        hub.add(listener)
        await compare(hub, 1)
        hub.close()
        return await asyncio.wait_for(listener.next(), 60)

    assert serving_loop.run(begin_after_a_sweep()) is None
