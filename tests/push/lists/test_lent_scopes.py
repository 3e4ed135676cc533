"""Clients that are connected learn of what their credential is lent: when it begins, and when it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application as get_django_application

from demo_project.flights.models import Flight
from mcp_django.access import lending
from mcp_django.access.authentication import principals
from mcp_django.models import AccessToken
from mcp_django.push.credentials import changed_rights, compared
from mcp_django.routing import get_asgi_application
from tests.access.lent import CREDENTIALS, LENT_SECONDS, Clock, by_hand, declare_work, lent_to, stopped
from tests.access.test_grants import make_grant, token_by
from tests.axes import PUSHING
from tests.push.conftest import list_changed, next_uri
from tests.push.lists.conftest import EACH_ERA, Hubs, watch_lists
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, Peers
from tests.support.sse import SSEPeer, sse_peers

#: A server on stdio has no credential that anything could be lent to.
ON_EACH = pytest.mark.parametrize("transport", [name for name in PUSHING if name != "stdio"])
FLIGHT = "db://flights/flight/1"
AIRLINE = "db://flights/airline/UA"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped(monkeypatch)


@pytest.fixture
def work(declared: Declared) -> None:
    declare_work(declared)


@ON_EACH
@EACH_ERA
def test_the_list_of_tools_changes_at_the_start_and_at_the_end_without_any_event(
    users: Users, peers: Peers, flights: Any, work: None, clock: Clock, revision: str
) -> None:
    """No process has a timer: the sweep finds that the time is over."""
    plain = by_hand(users.admin)
    watching = watch_lists(peers(plain), revision)
    told = list_changed("tools", "sub-1" if revision == MODERN else None)

    lent_to(plain)
    began = watching.next()
    clock.move(LENT_SECONDS)
    ended = watching.next()

    assert began == ended == told


@ON_EACH
def test_ending_it_before_its_time_is_told_at_once(
    users: Users, peers: Peers, flights: Any, work: None, clock: Clock
) -> None:
    plain = by_hand(users.admin)
    lent = lent_to(plain)
    watching = watch_lists(peers(plain), MODERN)

    lending.end(lent, "ann")

    assert watching.next() == list_changed("tools", "sub-1")


@ON_EACH
@EACH_ERA
@pytest.mark.parametrize("seconds", [0, 3_600])
def test_a_watched_row_is_told_of_while_its_right_is_lent_then_that_it_is_gone_and_then_no_more(
    users: Users, peers: Peers, flights: list[Flight], clock: Clock, settings: Any, revision: str, seconds: int
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": seconds}
    held = ["model:flights.airline:read", "actions"]
    plain = AccessToken.objects.create_token(user=users.admin, scopes=held)[1]
    lent_to(plain, "model:flights.flight:read")
    peer = peers(plain)
    watching, told = peer.watch(revision, [FLIGHT, AIRLINE]), []

    for _ in range(2):
        flights[0].save()
        told.append(next_uri(watching))
        clock.move(LENT_SECONDS)
    read = peer.request(revision, "resources/read", {"uri": FLIGHT})
    flights[0].save()
    flights[0].carrier.save()

    assert told == [FLIGHT, FLIGHT] and "error" in read
    assert next_uri(watching) == AIRLINE


def test_the_sweep_asks_nothing_anew_where_nothing_is_lent(
    users: Users, peers: Peers, flights: Any, hub: Hubs, monkeypatch: pytest.MonkeyPatch
) -> None:
    for make in CREDENTIALS.values():
        watch_lists(peers(make(users.admin)), MODERN)
    members = hub().members()

    found = compared(members, 1)

    assert len(found.lent) == 2 and not any(found.lent.values())
    assert [changed_rights(members, before, found) for before in ({}, found.lent)] == [[], []]


# HTTP+SSE of 2024-11-05: a stream that stays, and posts that must be of its credential.


@pytest.fixture
def client_of(serving_loop: LoopThread, transactional_db: None, settings: Any) -> Iterator[Callable[[str], SSEPeer]]:
    settings.MCP = {**settings.MCP, "SSE_TRANSPORT": True, "TOKEN_CACHE_SECONDS": 3_600}
    with sse_peers(get_asgi_application(get_django_application()), serving_loop) as make:
        yield make


@pytest.mark.parametrize("make", CREDENTIALS.values(), ids=CREDENTIALS)
def test_a_stream_of_http_sse_goes_on_and_has_the_right_for_its_time(
    users: Users, client_of: Callable[[str], SSEPeer], work: None, clock: Clock, make: Callable[..., str]
) -> None:
    plain = make(users.admin)
    peer = client_of(plain)
    stream: Any = peer.connection(LEGACY[0])
    calling = json.dumps(
        {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "work", "arguments": {}}}
    )

    def is_done() -> bool:
        posted = stream.post(calling)
        assert posted.status in (202, 403), posted.json
        return posted.status == 202 and "done" in json.dumps(stream.answer())

    before = is_done()
    lent_to(plain)
    during = is_done()
    clock.move(LENT_SECONDS)
    after = is_done()

    assert (before, during, after) == (False, True, False)
    # It is the first stream still.
    assert peer.result(LEGACY[0], "ping") == {}


def test_posting_to_the_stream_of_a_token_with_more(
    users: Users, client_of: Callable[[str], SSEPeer], clock: Clock
) -> None:
    """The grant is lent a scope, and a client that asked for less has a token without it."""
    grant = make_grant(users.admin, resource="")
    whole = token_by(grant)[1]
    lent_to(whole)
    grant.refresh_from_db()
    narrow = token_by(grant, lent=dict.fromkeys(grant.lent, 0))[1]
    peer = client_of(whole)
    stream: Any = peer.connection(LEGACY[0])
    ping = json.dumps({"jsonrpc": "2.0", "id": 7, "method": "ping"})
    principals.clear()

    peer.http.token = narrow

    assert stream.post(ping).status == 404
