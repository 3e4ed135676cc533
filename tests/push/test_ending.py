"""Open streams whose token, user or session ends: nothing is sent for it, the sweep finds it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django import site
from mcp_django.exchange.principals import Principal, Source
from mcp_django.models import AccessToken, Session, WatchedResource
from mcp_django.protocol.errors import Unauthenticated
from mcp_django.push import credentials
from mcp_django.push.hub import Hub
from mcp_django.push.listeners import Listener
from mcp_django.push.sessions.session_rows import _digest
from tests.push.conftest import SUBSCRIPTION_ID, assert_nothing_but, updated, watch
from tests.support.asking import request_of
from tests.support.data import Users, token_of
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, DuplexWatching, HTTPWatching, Peer, Peers, Watching

ON_HTTP = pytest.mark.parametrize("transport", ["http-view-asgi", "http-asgi"])


def of_tokens(**values: Any) -> Callable[[Users], int]:
    """What becomes of all tokens, without a signal."""
    return lambda users: AccessToken.objects.update(**values)


def revoke(users: Users) -> None:
    for token in AccessToken.objects.all():
        token.revoke()


def set_a_new_password(users: Users) -> None:
    users.admin.set_password("new")
    users.admin.save()


#: How credentials end, each over one transport or two. Nobody needs a token for stdio, where the user is named.
ENDINGS: dict[str, Callable[[Users], Any]] = {
    "http-asgi revoked without a signal": of_tokens(revoked_at=timezone.now()),
    "websocket revoked without a signal": of_tokens(revoked_at=timezone.now()),
    "http-view-asgi revoked": revoke,
    "http-protobuf deleted": lambda users: AccessToken.objects.all().delete(),
    "http-asgi expired": of_tokens(expires_at=timezone.now() - timedelta(seconds=1)),
    "grpc expired": of_tokens(expires_at=timezone.now() - timedelta(seconds=1)),
    "http-asgi bound to another address": of_tokens(addresses=["198.51.100.1"]),
    "websocket a new password": set_a_new_password,
    "stdio a user who is deactivated": lambda users: User.objects.update(is_active=False),
    "http-asgi a user who is deleted": lambda users: users.admin.delete(),
}
ON_EACH = pytest.mark.parametrize(
    ("transport", "end"), [(name.split()[0], end) for name, end in ENDINGS.items()], ids=[*ENDINGS]
)


def assert_completed(watching: Watching, listen_id: str) -> None:
    """The listen is answered, as the specification ends it, and what carried it is closed."""
    completion = {"jsonrpc": "2.0", "id": listen_id, "result": {
        "resultType": "complete", "_meta": {SUBSCRIPTION_ID: listen_id}}}  # fmt: skip
    if isinstance(watching, DuplexWatching):
        assert watching.connection.answer() == completion
        watching.connection.assert_shut_out()
    else:
        assert watching.next() == completion
        assert_over(watching)


def assert_over(watching: Watching) -> None:
    if isinstance(watching, DuplexWatching):
        watching.connection.assert_shut_out()
    else:
        with pytest.raises(EOFError):
            watching.next()


@pytest.mark.parametrize("revision", [MODERN, LEGACY[-1]])
@ON_EACH
def test_an_idle_stream_ends_once_its_credentials_no_longer_hold_and_a_listen_is_completed(
    admin: Peer, users: Users, flights: Any, end: Callable[[Users], None], revision: str
) -> None:
    watching = watch(admin, revision, "db://flights/flight/1", listen_id="sub-1")

    end(users)

    if revision == MODERN:
        assert_completed(watching, "sub-1")
        return
    assert_over(watching)
    admin.sessions.clear() if isinstance(watching, HTTPWatching) else None  # type: ignore[attr-defined]


@ON_EACH
def test_nothing_is_told_to_a_stolen_token_after_it_was_revoked_however_soon_the_change(
    admin: Peer, users: Users, flights: list[Flight], end: Callable[[Users], None], settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "SWEEP_SECONDS": 0.5, "TOKEN_CACHE_SECONDS": 0}
    watching = watch(admin, MODERN, "db://flights/flight/1", "db://flights/flight", listen_id="sub-1")

    end(users)
    flights[0].save()

    assert_completed(watching, "sub-1")


def test_credentials_that_cannot_be_tried_again_keep_nobody_else_alive(
    users: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    listeners = {}
    for user in (users.ops, users.viewer, users.admin):
        request = request_of(user)
        principal = replace(request.mcp.principal, source=Source.LOGIN)
        listeners[user.username] = Listener(site=site, principal=principal, request=request)

    def try_again(principal: Principal, request: Any) -> None:
        if principal.user.get_username() == "viewer":
            raise ConnectionError("no identity provider")
        if principal.user.get_username() == "admin":
            raise Unauthenticated("It is over.", "")

    monkeypatch.setattr(credentials, "authenticate_again", try_again)
    users.ops.is_active = False
    users.ops.save()

    over = credentials.compared(list(listeners.values()), 1).ended

    assert set(over) == {listeners["ops"], listeners["admin"]}


def test_a_stream_whose_token_holds_is_left_alone_by_the_sweep(
    admin: Peer, users: Users, flights: list[Flight], peers: Peers
) -> None:
    kept = watch(admin, MODERN, "db://flights/flight/1", listen_id="kept")
    token = token_of(users.viewer)
    ended = watch(peers(token), MODERN, "db://flights/flight/1", listen_id="ended")

    AccessToken.objects.filter(user=users.viewer).update(revoked_at=timezone.now())

    assert_completed(ended, "ended")
    flights[0].save()
    assert kept.next() == updated("db://flights/flight/1", "kept")


def test_a_sweep_that_fails_is_logged_and_the_next_one_ends_what_is_over(
    admin: Peer, flights: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    find, failures = credentials.compared, [ZeroDivisionError()]

    def fail_at_first(*args: Any) -> Any:
        if failures:
            raise failures.pop()
        return find(*args)

    monkeypatch.setattr(credentials, "compared", fail_at_first)
    watching = watch(admin, MODERN, "db://flights/flight/1", listen_id="sub-1")

    AccessToken.objects.update(revoked_at=timezone.now())

    assert_completed(watching, "sub-1")
    assert not failures
    assert "What is open could not be compared with the database; trying again" in caplog.text


@ON_HTTP
@pytest.mark.parametrize("by", ["another request", "nobody who says so"])
def test_the_stream_ends_with_its_session(admin: Peer, flights: Any, by: str) -> None:
    watching = watch(admin, LEGACY[-1], "db://flights/flight/1")

    if by == "another request":
        end_sessions(admin)
    else:
        Session.objects.all().delete()

    assert_over(watching)
    admin.sessions.clear()  # type: ignore[attr-defined]


def end_sessions(peer: Peer) -> None:
    sessions: dict[str, str] = peer.sessions  # type: ignore[attr-defined]
    for revision in list(sessions):
        key = sessions.pop(revision)
        assert peer.http("DELETE", headers={"Mcp-Session-Id": key}).status == 204  # type: ignore[attr-defined]


@ON_HTTP
def test_what_a_session_watches_since_nobody_said_so_is_found_by_the_sweep(
    admin: Peer, flights: list[Flight], hub: Callable[[], Hub], serving_loop: LoopThread
) -> None:
    watching = watch(admin, LEGACY[-1], "db://flights/airline/UA")
    uri = "db://flights/flight/1"

    # As another process writes it whose message is lost.
    WatchedResource.objects.create(session=Session.objects.get(), uri=uri, uri_hash=_digest(uri))

    # It is told once, for what may have changed since, and watched from then on.
    assert watching.next() == updated(uri)
    flights[0].save()
    assert watching.next() == updated(uri)


@ON_HTTP
def test_a_stream_that_is_opened_again_after_its_record_went_is_not_told_of_it_at_every_sweep(
    admin: Peer, flights: list[Flight], swept: Callable[[], None]
) -> None:
    from demo_project.flights.models import Airline

    first = watch(admin, LEGACY[-1], "db://flights/flight/1", "db://flights/airline/UA")
    first.close()
    flights[0].delete()

    again = admin.watch(LEGACY[-1], [])

    swept()
    assert_nothing_but(again, "db://flights/airline/UA", Airline.objects.get(pk="UA").save)


def test_a_sweep_asks_no_more_queries_for_many_streams_than_for_one(
    admin: Peer, users: Users, flights: Any, peers: Peers, hub: Callable[[], Hub]
) -> None:
    watch(admin, MODERN, "db://flights/flight/1")
    with CaptureQueriesContext(connection) as for_one:
        credentials.compared(list(hub()._members), 1)
    for user in (users.admin, users.ops, users.viewer):
        for number in range(3):
            watch(peers(token_of(user)), MODERN, "db://flights/flight/1", listen_id=number)

    with CaptureQueriesContext(connection) as for_many:
        ended = credentials.compared(list(hub()._members), 1).ended

    assert len(hub()._members) == 10
    assert ended == []
    assert len(for_many) == len(for_one)
