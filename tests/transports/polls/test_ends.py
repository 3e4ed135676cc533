"""Whose polls end, and when: clients that stay away, credentials and sessions that end, ids that name nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from mcp_django.models import AccessToken, CallStream, Poll, StreamEvent
from mcp_django.push import collectors
from mcp_django.push.hub import Hub
from mcp_django.push.sessions import polls, streams
from mcp_django.transports.http import polling as http_polling
from tests.end_to_end.servers import wait_for
from tests.push.conftest import list_changed, updated
from tests.support.asgi import ASGICall
from tests.support.data import token_of
from tests.support.peers import ASGIPeer, HTTPPeer, Peers
from tests.support.polling import REVISION, Polling
from tests.support.talking import in_session
from tests.transports.polls.conftest import FLIGHT, OTHER, over_http

EVERYTHING = [list_changed(name) for name in ("prompts", "resources", "tools")]


def stored(count: int) -> Callable[[], bool]:
    return lambda: StreamEvent.objects.count() == count


# Clients that stay away.


@over_http
def test_a_client_that_stops_polling_is_let_go_with_what_was_kept_for_it(
    watching: Polling, flights: Any, hub: Callable[[], Hub], monkeypatch: pytest.MonkeyPatch
) -> None:
    flights[0].save()
    wait_for(stored(1), "the notification")
    monkeypatch.setattr(collectors, "GRACE_SECONDS", 0.01)
    assert len(watching.next()) == 1

    wait_for(lambda: not hub().members() and not CallStream.objects.exists(), "the end of the collector")

    assert not (Poll.objects.exists() or StreamEvent.objects.exists())
    assert not (hub().waiters.stored_streams or hub().waiters._expected)


@over_http
@pytest.mark.parametrize("told_before", [False, True])
def test_a_client_that_comes_back_late_is_told_to_look_at_everything_again(
    watching: Polling, flights: Any, monkeypatch: pytest.MonkeyPatch, told_before: bool
) -> None:
    if told_before:
        flights[0].save()
        assert watching.uris() == [FLIGHT]
    with monkeypatch.context() as patched:
        patched.setattr(collectors, "GRACE_SECONDS", 0.01)
        assert watching.next(0) == []
        wait_for(lambda: not Poll.objects.exists(), "the end of the collector")
    flights[0].save()

    assert watching.next() == [*EVERYTHING, updated(FLIGHT)]
    assert watching.next(0) == []


@over_http
def test_a_poll_of_a_client_that_disconnects_is_freed(
    watching: Polling, flights: Any, hub: Callable[[], Hub], until_one_waits: Callable[[], None]
) -> None:
    peer = watching.peer
    assert isinstance(peer, ASGIPeer)
    headers = peer.headers({**in_session(peer, REVISION), "Accept": "application/json", "Prefer": "wait=50"})

    async def poll() -> ASGICall:
        call = ASGICall(peer.application, peer.scope("GET", headers))
        await call.inbox.put({"type": "http.request", "body": b"", "more_body": False})
        return call

    call = peer.loop.run(poll())
    until_one_waits()
    peer.loop.run(call.disconnect("http.disconnect"))

    wait_for(lambda: not hub().waiters._readers, "the end of the poll")
    flights[0].save()
    assert watching.next() == [updated(FLIGHT)]


# Sessions and credentials.


@over_http
@pytest.mark.parametrize("ended", ["session", "token"])
def test_the_end_of_the_session_or_of_the_token_ends_a_poll_that_waits(
    watching: Polling, hub: Callable[[], Hub], until_one_waits: Callable[[], None], ended: str
) -> None:
    waiting = watching.begin()
    until_one_waits()

    if ended == "session":
        key = watching.peer.sessions[REVISION]
        assert watching.peer.http("DELETE", headers={"Mcp-Session-Id": key}).status == 204
    else:
        AccessToken.objects.get().revoke()

    assert waiting.result(30).status == 204
    assert watching.send().status == (404 if ended == "session" else 401)
    watching.peer.sessions.clear()
    wait_for(lambda: not hub().members(), "the end of the collector")
    if ended == "session":
        wait_for(lambda: not CallStream.objects.exists(), "the end of the collector")
    else:
        assert Poll.objects.get().collector == ""


@over_http
def test_the_polls_of_a_session_do_not_exist_for_another_user_or_token(
    watching: Polling, peers: Peers, users: Any, flights: Any
) -> None:
    flights[0].save()
    wait_for(stored(1), "the notification")

    for token in (token_of(users.viewer), token_of(users.admin)):
        thief = Polling(peers(token))
        thief.peer.sessions[REVISION] = watching.peer.session(REVISION)
        stolen = thief.send()
        thief.peer.sessions.clear()

        assert (stolen.status, stolen.json["error"]["data"]["reason"]) == (404, "SESSION_NOT_FOUND")
    assert watching.next() == [updated(FLIGHT)]


@over_http
def test_a_server_that_ends_answers_a_poll_that_waits(
    watching: Polling, flights: Any, hub: Callable[[], Hub], until_one_waits: Callable[[], None]
) -> None:
    waiting = watching.begin()
    until_one_waits()
    ending = hub()

    ending.loop.call_soon_threadsafe(ending.close)

    assert waiting.result(30).status == 204
    wait_for(lambda: ending.is_empty and Poll.objects.get().collector == "", "the end of the collector")


# Ids.


@over_http
def test_what_is_no_id_is_refused_and_nothing_acknowledged(watching: Polling, flights: Any) -> None:
    """Nor is a message that was not sent yet: else the messages to come would never be told."""
    key = CallStream.objects.get().key
    ids = ["x", "-", "x-", "-x", "1", f"{key}-x", f"{key}--1", "-1", f"{key}-1.0", "\u00b2-\u00b2", f"{key}-1"]

    for watching.last_id in ids:
        answer = watching.send(0)
        assert (answer.status, answer.json["error"]["data"]["reason"]) == (400, "INVALID_REQUEST"), watching.last_id
    flights[0].save()
    wait_for(stored(1), "the notification")

    watching.last_id = ""
    assert watching.next() == [updated(FLIGHT)]


@over_http
def test_an_old_id_acknowledges_nothing_more(watching: Polling, flights: Any) -> None:
    ids = []
    for _ in range(2):
        flights[0].save()
        assert watching.uris() == [FLIGHT]
        ids.append(watching.last_id)
    assert watching.next(0) == []
    flights[0].save()
    wait_for(stored(1), "the notification")
    watching.last_id = ids[0]

    assert watching.uris() == [FLIGHT]


@over_http
def test_an_id_of_another_session_or_of_a_call_is_like_one_that_nobody_has(
    watching: Polling, viewer: HTTPPeer, flights: Any
) -> None:
    """Its messages stay, and the answer does not say that there are any."""
    flights[0].save()
    wait_for(stored(1), "the notification")
    key = Poll.objects.get().stream_id
    thief = Polling(viewer)
    thief.last_id = f"{key}-1"
    found = thief.send()
    unknown = Polling(viewer, "2025-06-18")
    unknown.last_id = f"{'0' * 24}-1"
    missing = unknown.send()

    assert found.status == missing.status == 200
    assert found.json == missing.json == EVERYTHING
    assert StreamEvent.objects.filter(stream=key).count() == 1
    of_a_call = streams.open_stream(watching.peer.session(REVISION), 1)
    streams.add_events(of_a_call, 1, ["{}"], ended=False, report=False)
    last_id, watching.last_id = watching.last_id, f"{of_a_call}-1"
    assert watching.send().json == [updated(FLIGHT)]
    assert StreamEvent.objects.filter(stream=of_a_call).count() == 1
    watching.last_id = last_id
    assert watching.next() == [updated(FLIGHT)]


# Bounds.


@over_http
def test_polls_count_for_the_open_streams(settings: Any, watching: Polling) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 1}
    other = Polling(watching.peer, "2025-06-18")

    refused = other.send(0)

    assert "(MAX_LISTENS)" in refused.json["error"]["message"]
    assert watching.next(0) == []


@over_http
def test_an_answer_is_no_longer_than_a_page(watching: Polling, flights: Any, settings: Any) -> None:
    watching.peer.result(REVISION, "resources/subscribe", {"uri": OTHER})
    for count, flight in enumerate(flights[:2], 1):
        flight.save()
        wait_for(stored(count), "the notification")
    settings.MCP = {**settings.MCP, "MAX_RESULT_BYTES": 150}

    assert [watching.uris(), watching.uris()] == [[FLIGHT], [OTHER]]
    assert watching.next(0) == []


# Failures.


@over_http
def test_what_cannot_be_stored_or_read_is_tried_again(
    watching: Polling,
    flights: Any,
    until_one_waits: Callable[[], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    failing = {"collect": polls.collect, "rest": http_polling.streams.rest}

    def fails_once(name: str) -> Callable[..., Any]:
        def call(*args: Any) -> Any:
            if name in failing:
                return failing.pop(name) and fail()
            return real(*args)

        real = failing[name]
        return call

    def fail() -> None:
        raise OSError("the database is away")

    monkeypatch.setattr(collectors, "_RETRY_SECONDS", 0)
    monkeypatch.setattr(polls, "collect", fails_once("collect"))
    flights[0].save()
    wait_for(stored(1), "the notification")
    monkeypatch.setattr(http_polling.streams, "rest", fails_once("rest"))

    assert watching.next() == [updated(FLIGHT)]
    assert [record.getMessage() for record in caplog.records] == [
        "Notifications could not be stored for a client that polls; trying again",
        "The messages for a poll could not be read; trying again",
    ]


@over_http
def test_a_client_that_polls_with_another_token_of_its_line_goes_on(
    watching: Polling, flights: Any, hub: Callable[[], Hub]
) -> None:
    """As after a token was rolled: the collector of the old one leaves to that of the new one."""
    old = AccessToken.objects.get()
    flights[0].save()
    wait_for(stored(1), "the notification")
    _, watching.peer.token = old.roll(grace=timedelta(hours=1))

    assert watching.next() == [updated(FLIGHT)]
    wait_for(lambda: len(hub().listeners()) == 1, "the end of the older collector")
