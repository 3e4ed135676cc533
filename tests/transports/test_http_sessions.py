"""Legacy sessions over HTTP: opened, used, ended, and nobody else's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.utils import timezone

from mcp_django.core.events.controls import ControlKind, named
from mcp_django.core.events.publisher import flush
from mcp_django.core.events.transaction import note_control
from mcp_django.core.middleware_policy import why_no_push
from mcp_django.models import CallStream, Session
from mcp_django.push.sessions.session_rows import remembered
from tests.axes import HTTP, PUSHING
from tests.end_to_end.servers import wait_for
from tests.support.peers import LEGACY, ASGIPeer, HTTPPeer
from tests.support.raw import error

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
GONE = (
    404,
    error(
        -32600, "SESSION_NOT_FOUND", "Session not found: send initialize without Mcp-Session-Id to start a new one.", 1
    ),
)
STREAMS = [name for name in PUSHING if name in HTTP]
REVISION = "2025-11-25"


def ping(peer: HTTPPeer, key: str, **headers: str) -> tuple[int, Any]:
    answer = peer.post(PING, {"Mcp-Session-Id": key, **headers})
    return answer.status, answer.json


@pytest.mark.parametrize("transport", HTTP)
@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_speaks_the_revision_that_was_agreed_on_whatever_the_header_says(
    admin: HTTPPeer, revision: str
) -> None:
    key = {"Mcp-Session-Id": admin.session(revision)}

    for headers in (key, {**key, "MCP-Protocol-Version": REVISION}):
        answer = admin.post({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers)

        tool = answer.json["result"]["tools"][0]
        assert ("annotations" in tool, "outputSchema" in tool) == (revision >= "2025-03-26", revision >= "2025-06-18")


@pytest.mark.parametrize("transport", HTTP)
def test_the_key_of_a_session_is_long_visible_and_never_the_same(admin: HTTPPeer) -> None:
    keys = {admin.session(revision) for revision in LEGACY}

    assert len(keys) == len(LEGACY)
    assert all(len(key) >= 32 and key.isascii() and key.isprintable() and " " not in key for key in keys)


@pytest.mark.parametrize("transport", HTTP)
def test_a_session_needs_no_notification_that_it_is_initialized(admin: HTTPPeer) -> None:
    params = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    opened = admin.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})

    assert ping(admin, opened.headers["mcp-session-id"]) == (200, PONG)


@pytest.mark.parametrize("transport", HTTP)
def test_the_session_of_another_user_does_not_exist(admin: HTTPPeer, viewer: HTTPPeer) -> None:
    stolen = admin.session(REVISION)

    assert ping(viewer, stolen) == GONE
    assert viewer.http("DELETE", headers={"Mcp-Session-Id": stolen}).status == 404
    assert viewer.http("GET", headers={"Mcp-Session-Id": stolen}).status == (404 if viewer.push else 405)
    assert ping(admin, stolen) == (200, PONG)


@pytest.mark.parametrize("transport", HTTP)
def test_a_guessed_session_does_not_exist(admin: HTTPPeer) -> None:
    own = admin.session(REVISION)

    for key in ("", "x", "x" * 64, "x" * 5000, "é", "a' OR '1'='1", f"{own}x", own.swapcase()):
        assert ping(admin, key) == GONE


@pytest.mark.parametrize("transport", HTTP)
def test_a_session_that_was_deleted_is_gone(admin: HTTPPeer) -> None:
    key = admin.sessions.pop(REVISION) if admin.session(REVISION) else ""

    deleted = admin.http("DELETE", headers={"Mcp-Session-Id": key})

    assert (deleted.status, deleted.body) == (204, b"")
    assert ping(admin, key) == GONE
    assert admin.http("DELETE", headers={"Mcp-Session-Id": key}).status == 404


@pytest.mark.parametrize("transport", HTTP)
def test_a_session_that_has_expired_is_gone_and_a_new_one_clears_it_away(
    settings: LazySettings, admin: HTTPPeer
) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 0}
    old = admin.session("2025-06-18")
    Session.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    assert ping(admin, old) == GONE
    admin.session(REVISION)
    assert not Session.objects.filter(pk=old).exists()


@pytest.mark.parametrize("transport", HTTP)
def test_using_a_session_puts_its_end_off(settings: LazySettings, admin: HTTPPeer) -> None:
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 0}
    key = admin.session(REVISION)
    Session.objects.update(expires_at=timezone.now() + timedelta(minutes=1))

    ping(admin, key)

    assert Session.objects.get().expires_at > timezone.now() + timedelta(days=6)


@pytest.mark.parametrize("transport", HTTP)
def test_delete_needs_a_session(admin: HTTPPeer) -> None:
    answer = admin.http("DELETE")

    assert (answer.status, answer.json["error"]["data"]["reason"]) == (400, "NOT_INITIALIZED")


# What a process remembers of a session.


@pytest.fixture
def key(settings: LazySettings, admin: HTTPPeer) -> str:
    """The key of a session that was used, and may be remembered for long."""
    settings.MCP = {**settings.MCP, "TOKEN_CACHE_SECONDS": 300}
    key = admin.session(REVISION)
    assert ping(admin, key) == (200, PONG)
    return key


def take_away(key: str) -> None:
    """Delete a session in the database alone, as another process does."""
    Session.objects.filter(pk=key).delete()


@pytest.mark.parametrize("transport", HTTP)
def test_a_session_is_remembered_where_events_come_in(admin: HTTPPeer, key: str) -> None:
    take_away(key)

    assert ping(admin, key) == ((200, PONG) if admin.push else GONE)


@pytest.mark.parametrize("transport", STREAMS)
def test_a_session_that_another_process_ends_is_forgotten(admin: HTTPPeer, key: str) -> None:
    take_away(key)
    note_control("default", ControlKind.SESSION, named(key))
    flush()

    wait_for(lambda: ping(admin, key) == GONE, "the end of the session")


@pytest.mark.parametrize("transport", STREAMS)
def test_a_remembered_session_is_nobody_elses(viewer: HTTPPeer, key: str) -> None:
    assert ping(viewer, key) == GONE


@pytest.mark.parametrize("transport", STREAMS)
def test_a_remembered_session_has_the_log_level_that_was_set(admin: HTTPPeer, key: str) -> None:
    message = {"jsonrpc": "2.0", "id": 1, "method": "logging/setLevel", "params": {"level": "error"}}

    assert admin.post(message, {"Mcp-Session-Id": key}).status == 200

    found = remembered.get(named(key))
    assert found is not None and found.log_level == "error"


# Streams.


@pytest.mark.parametrize("transport", STREAMS)
def test_a_stream_needs_a_session(admin: HTTPPeer) -> None:
    answer = admin.http("GET")

    message = "A stream belongs to a session: send initialize, then GET with its Mcp-Session-Id."
    assert (answer.status, answer.json) == (405, error(-32600, "METHOD_NOT_ALLOWED", message))
    assert answer.headers["allow"] == "GET, POST, DELETE"


@pytest.mark.parametrize("transport", STREAMS)
def test_a_stream_needs_a_client_that_takes_one_or_polls(admin: HTTPPeer) -> None:
    key = admin.session(REVISION)

    answer = admin.http("GET", headers={"Mcp-Session-Id": key, "Accept": "text/html;q=0.1, image/png"})

    message = "Send Accept: text/event-stream, or to poll application/json."
    assert (answer.status, answer.json) == (406, error(-32600, "NOT_ACCEPTABLE", message))


@pytest.mark.parametrize("transport", STREAMS)
def test_a_stream_is_not_cached_buffered_or_compressed(admin: ASGIPeer) -> None:
    stream = admin.watch(REVISION, [])

    headers = {name: stream.headers.get(name) for name in (
        "content-type", "cache-control", "x-accel-buffering", "content-encoding", "content-length",
        "x-content-type-options",
    )}  # fmt: skip
    assert headers == {
        "content-type": "text/event-stream",
        "cache-control": "no-store, no-transform",
        "x-accel-buffering": "no",
        "content-encoding": "identity",
        "content-length": None,
        "x-content-type-options": "nosniff",
    }


@pytest.mark.parametrize("transport", STREAMS)
def test_a_message_goes_on_the_newest_stream_of_a_session_only_until_that_has_gone(
    admin: ASGIPeer, flights: Any
) -> None:
    uri = "db://flights/flight/1"
    older = admin.watch(REVISION, [uri])
    newer = admin.watch(REVISION, [])

    flights[0].save()
    assert newer.uris(1) == [uri]
    newer.close()
    flights[0].save()

    assert older.uris(1) == [uri]
    # What else was sent on the older stream would come before its end.
    assert admin.http("DELETE", headers={"Mcp-Session-Id": admin.session(REVISION)}).status == 204
    with pytest.raises(EOFError):
        older.next()


@pytest.mark.parametrize("transport", STREAMS)
def test_of_too_many_streams_of_a_session_the_oldest_ends(admin: ASGIPeer) -> None:
    oldest, *_ = [admin.watch(REVISION, []) for _ in range(5)]

    with pytest.raises(EOFError):
        oldest.next()


@pytest.mark.parametrize("transport", STREAMS)
def test_a_subscription_is_heard_on_a_stream_that_is_already_open(admin: ASGIPeer, flights: Any) -> None:
    stream = admin.watch(REVISION, [])
    admin.result(REVISION, "resources/subscribe", {"uri": "db://flights/flight/3"})

    flights[2].save()

    assert stream.uris(1) == ["db://flights/flight/3"]


# WSGI.


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_wsgi_has_no_streams_and_no_polls_and_says_what_they_need(admin: HTTPPeer) -> None:
    session = {"Mcp-Session-Id": admin.session(REVISION)}

    for wanted in ({}, {"Accept": "application/json", "Prefer": "wait=1"}):
        answer = admin.http("GET", headers={**session, **wanted})

        message = why_no_push(False)
        assert (answer.status, answer.json) == (405, error(-32600, "METHOD_NOT_ALLOWED", message))
        assert answer.headers["allow"] == "POST, DELETE"
    assert not CallStream.objects.exists()


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_wsgi_says_that_it_cannot_push(admin: HTTPPeer) -> None:
    for revision, method, params, status in (
        (REVISION, "resources/subscribe", {"uri": "db://flights/flight/1"}, 200),
        (REVISION, "resources/unsubscribe", {"uri": "db://flights/flight/1"}, 200),
        ("2026-07-28", "subscriptions/listen", {"notifications": {}}, 404),
    ):
        answer = admin.send(revision, method, params)

        message = (
            f"Method not found: {method}. This server runs under WSGI, which cannot push. Serve the project with an "
            "ASGI server (daphne or uvicorn) to offer subscriptions."
        )
        assert (answer.status, answer.json) == (status, error(-32601, "PUSH_UNAVAILABLE", message, answer.json["id"]))
