"""The transport HTTP+SSE of 2024-11-05: one stream that tells everything, and a URL to post to."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.asgi import get_asgi_application as get_django_application
from django.test import Client
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.core.middleware_policy import why_no_push
from mcp_django.exchange.questions import Elicitation
from mcp_django.models import AccessToken, SSEConnection
from mcp_django.push import hub as hubs
from mcp_django.routing import get_asgi_application
from mcp_django.transports.http import sse
from tests.push.conftest import assert_nothing_but
from tests.support.chunks import parts_in
from tests.support.data import Users, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, Answered, meta
from tests.support.raw import error
from tests.support.sse import SSEPeer, Stream, sse_peers

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
PONG = {"jsonrpc": "2.0", "id": 1, "result": {}}
UNKNOWN = "tests.transports.tenants.UnknownMiddleware"
NO_STREAM = "Session not found: open a stream with GET, and send messages where its first event says."


@pytest.fixture(params=["application", "view"])
def application(request: pytest.FixtureRequest, settings: Any) -> Any:
    """What serves the URLs: our ASGI application, or the Django view."""
    settings.MCP = {**settings.MCP, "SSE_TRANSPORT": True}
    django = get_django_application()
    return get_asgi_application(django) if request.param == "application" else django


@pytest.fixture
def client_of(application: Any, serving_loop: LoopThread, transactional_db: None) -> Iterator[Any]:
    """``client_of(token)``: a client."""
    with sse_peers(application, serving_loop) as make:
        yield make


@pytest.fixture
def peer(users: Users, client_of: Any) -> SSEPeer:
    made: SSEPeer = client_of(token_of(users.admin))
    return made


def leave(stream: Stream) -> None:
    """Go away, and wait until every process can know of it."""
    stream.leave()
    stream.loop.run(_finish(list(sse._tasks)))


async def _finish(tasks: list[Any]) -> None:
    await asyncio.gather(*tasks)


def hubs_are_empty() -> bool:
    return all(not hub._members and not hub._listeners and not hub.waiters._expected for hub in hubs._hubs.values())


# The stream.


@pytest.mark.parametrize("slash", ["", "/"])
def test_the_first_event_says_where_to_post_and_the_answer_comes_on_the_stream(peer: SSEPeer, slash: str) -> None:
    peer.path = f"/sse{slash}"

    stream = peer.open()
    answered = stream.post(json.dumps(PING))

    assert (answered.status, answered.body, stream.answer()) == (202, b"", PONG)
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.headers["cache-control"] == "no-store, no-transform"
    path, _, key = stream.endpoint.partition("?session_id=")
    assert path == "/sse/messages"
    assert len(key) == 43
    stored = SSEConnection.objects.get()
    assert (stored.key, stored.lease_until > timezone.now()) == (key, True)


@pytest.mark.parametrize("revision", LEGACY)
def test_a_session_of_each_legacy_revision(peer: SSEPeer, flights: Any, revision: str) -> None:
    assert "find_records" in peer.tools(revision)
    assert peer.read("db://flights/flight/1", revision)["id"] == 1
    found = peer.call("find_records", revision, model="flights.flight", limit=1)
    assert json.loads(found["content"][0]["text"])["rows"]


def test_a_batch_is_answered_on_the_stream(peer: SSEPeer) -> None:
    connection = peer.connection("2025-03-26")

    answer = connection.ask([PING, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {**PING, "id": 2}])

    assert answer == [PONG, {**PONG, "id": 2}]


def test_a_question_is_asked_on_the_stream_and_its_answer_is_posted(peer: SSEPeer, declared: Declared) -> None:
    def greet(request: Any) -> str:
        """Ask for a name."""
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return f"Hello, {request.mcp.ask({'name': Elicitation('Who?', schema)})['name'].content['name']}."

    declared.tool(greet, read_only=True)
    peer.capabilities = {"elicitation": {}}
    connection = peer.connection("2025-06-18")

    connection.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "greet", "arguments": {}}})
    question = connection.loop.run(connection.notifications.get(), 60)
    content = {"action": "accept", "content": {"name": "Ada"}}
    answer = connection.ask({"jsonrpc": "2.0", "id": question["id"], "result": content})

    assert question["method"] == "elicitation/create"
    assert (answer["id"], answer["result"]["content"]) == (5, [{"type": "text", "text": "Hello, Ada."}])


def test_a_result_that_streams_on_it(peer: SSEPeer, declared: Declared) -> None:
    def many(request: Any) -> Iterator[list[Any]]:
        """More than a stream holds ready."""
        for number in range(1_000):
            yield [number, "a" * 1_000]

    declared.tool(many, read_only=True)
    connection = peer.connection("2025-06-18")

    params = {"name": "many", "_stream": True}
    answer = connection.ask({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params})

    told = [connection.notifications.get_nowait() for _ in range(connection.notifications.qsize())]
    assert [row[0] for row in parts_in(told)] == list(range(1_000))
    assert answer["result"]["content"][-1]["text"].startswith("The result is cut here: it has 1000 parts")


def test_a_quiet_stream_is_kept_alive_by_comments(peer: SSEPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "KEEPALIVE_SECONDS": 0.05}
    stream = peer.open()

    assert stream.loop.run(stream.comments.get(), 30) == b":"
    assert stream.ask(PING) == PONG


def test_two_streams_of_one_user_are_two_sessions(peer: SSEPeer, flights: list[Flight]) -> None:
    first = peer.watch("2025-11-25", ["db://flights/flight/1"])
    second = peer.watch("2024-11-05", ["db://flights/flight/2"])

    flights[0].save()

    assert first.uris(1) == ["db://flights/flight/1"]
    assert_nothing_but(second, "db://flights/flight/2", flights[1].save)


# What is refused.


def test_it_is_off_by_default(users: Users, serving_loop: LoopThread, settings: Any) -> None:
    settings.MCP = {}
    peer = SSEPeer(token_of(users.admin), get_asgi_application(get_django_application()), serving_loop)

    for path in ("/sse", "/sse/", "/sse/messages", "/sse/messages/"):
        peer.http.path = path
        by_asgi = [peer.http.http(method).status for method in ("GET", "POST")]
        by_wsgi = [getattr(Client(), method)(path).status_code for method in ("get", "post")]

        assert by_asgi == by_wsgi == [404, 404]


def test_under_wsgi_it_says_what_it_needs(users: Users, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SSE_TRANSPORT": True}
    client = Client(HTTP_AUTHORIZATION=f"Bearer {token_of(users.admin)}")

    answers = [ask(path) for path in ("/sse", "/sse/messages") for ask in (client.get, client.post)]

    message = f"{why_no_push(False)} Without push there is no HTTP+SSE. Use /mcp."
    for answer in answers:
        assert (answer.status_code, answer.headers["Content-Type"]) == (405, "application/json")
        assert answer.json() == error(-32600, "METHOD_NOT_ALLOWED", message)


def test_nobody_opens_no_stream(users: Users, client_of: Any) -> None:
    for token in (None, "mcp_unknown"):
        stream = client_of(token).open()

        assert stream.status == 401
        assert stream.headers["www-authenticate"].startswith('Bearer realm="mcp"')
        assert stream.refused["error"]["data"]["reason"] == "UNAUTHENTICATED"
    assert not SSEConnection.objects.exists()


def test_a_page_of_another_origin_or_a_client_that_takes_no_stream_opens_none(peer: SSEPeer) -> None:
    evil = {"Origin": "https://evil.example"}
    stream = peer.open()

    refused = peer.open(evil)
    posted = stream.post(json.dumps(PING), evil)
    of_json = peer.open({"Accept": "application/json"})

    assert (refused.status, posted.status, of_json.status) == (403, 403, 406)
    assert of_json.refused == error(-32600, "NOT_ACCEPTABLE", "Send Accept: text/event-stream.")
    assert stream.answers.empty()


def test_a_stream_cannot_slip_past_middleware_that_may_matter(
    users: Users, client_of: Any, settings: Any, caplog: pytest.LogCaptureFixture, request: pytest.FixtureRequest
) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, UNKNOWN]

    stream = client_of(token_of(users.admin)).open()

    if request.node.callspec.params["application"] == "view":
        # It is answered below the middleware, where no stream can be.
        message = f"{why_no_push(False)} Without push there is no HTTP+SSE. Use /mcp."
        assert "W002" in message
        assert (stream.status, stream.refused) == (405, error(-32600, "METHOD_NOT_ALLOWED", message))
        return
    message = "This server cannot serve HTTP+SSE; its log says why. Use /mcp."
    assert (stream.status, stream.refused) == (403, error(-32600, "FORBIDDEN", message))
    assert f"HTTP+SSE refused: the work that a stream asks for does not pass {UNKNOWN}" in caplog.text


def test_the_url_of_the_stream_knows_get_alone_and_that_of_messages_post(peer: SSEPeer) -> None:
    for path, method, allowed in (
        ("/sse", "POST", "GET"), ("/sse", "DELETE", "GET"), ("/sse", "PUT", "GET"), ("/sse/messages", "GET", "POST")
    ):  # fmt: skip
        peer.http.path = path

        answer = peer.http.http(method, json.dumps(PING).encode())

        assert (answer.status, answer.headers["allow"]) == (405, allowed)
        assert answer.json["error"]["data"]["reason"] == "METHOD_NOT_ALLOWED"


def refused(answer: Answered) -> tuple[int, int]:
    return answer.status, answer.json["error"]["code"]


def test_what_cannot_be_taken_in_is_said_to_the_post(peer: SSEPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_BODY_BYTES": 1_000}
    stream = peer.open()
    modern = {**PING, "method": "tools/list", "params": {"_meta": meta()}}

    answers = {
        "no JSON": refused(stream.post("{")),
        "no message": refused(stream.post('{"jsonrpc": "2.0", "id": 7}')),
        "a number": refused(stream.post("7")),
        "no text": refused(stream.post(b"\xff")),
        "too large": refused(stream.post(" " * 1_001)),
        "no JSON type": refused(stream.post(json.dumps(PING), {"Content-Type": "text/plain"})),
        "modern": refused(stream.post(json.dumps(modern))),
        "modern notification": refused(stream.post(json.dumps({k: v for k, v in modern.items() if k != "id"}))),
        "no session": refused(stream.post(json.dumps(PING), endpoint="/sse/messages")),
        "two sessions": refused(stream.post(json.dumps(PING), endpoint=f"{stream.endpoint}&session_id=x")),
        "unknown session": refused(stream.post(json.dumps(PING), endpoint="/sse/messages?session_id=x")),
    }

    assert answers == {
        "no JSON": (400, -32700), "no message": (400, -32600), "a number": (400, -32600), "no text": (400, -32700),
        "too large": (413, -32600), "no JSON type": (415, -32600), "modern": (400, -32600),
        "modern notification": (400, -32600), "no session": (400, -32600), "two sessions": (400, -32600),
        "unknown session": (404, -32600),
    }  # fmt: skip
    assert stream.ask(PING) == PONG
    assert stream.answers.empty()


def test_more_streams_than_one_may_open_are_refused(peer: SSEPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 1}
    peer.open()

    second = peer.open()

    message = "You have 1 streams open (MAX_LISTENS). Close one of them."
    assert (second.status, second.refused) == (503, error(-32603, "OVERLOADED", message))


# Whose it is.


def test_hijacking_a_stream_whose_url_was_found_in_a_log(peer: SSEPeer, users: Users, flights: list[Flight]) -> None:
    stream = peer.connection("2025-11-25")
    assert isinstance(stream, Stream)
    call = {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [flights[0].pk]}}
    body = json.dumps({**PING, "method": "tools/call", "params": call})

    for thief in (token_of(users.ops), token_of(users.admin), token_of(users.admin, "read")):
        answer = stream.post(body, {"Authorization": f"Bearer {thief}"})

        assert (answer.status, answer.json) == (404, error(-32600, "SESSION_NOT_FOUND", NO_STREAM))
    assert stream.post(body, {"Authorization": ""}).status == 401
    assert stream.ask(PING) == PONG
    flights[0].refresh_from_db()
    assert flights[0].status != "cancelled"


def test_a_stream_is_no_session_of_the_endpoint(peer: SSEPeer) -> None:
    stream = peer.connection("2025-11-25")
    assert isinstance(stream, Stream)
    key = stream.endpoint.partition("=")[2]
    peer.http.path, peer.http.query = "/mcp", ""

    assert peer.http.post(PING, {"Mcp-Session-Id": key}).status == 404


# How it ends.


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25"])
def test_a_client_that_leaves_ends_the_session(peer: SSEPeer, flights: Any, revision: str) -> None:
    peer.watch(revision, ["db://flights/flight/1"])
    stream = peer.connection(revision)
    assert isinstance(stream, Stream)

    leave(stream)
    later = stream.post(json.dumps(PING))

    assert (later.status, later.json) == (404, error(-32600, "SESSION_NOT_FOUND", NO_STREAM))
    assert hubs_are_empty()
    assert not sse._streams


@pytest.mark.parametrize("end", ["revoked", "revoked without a signal"])
def test_a_stream_ends_with_its_token(peer: SSEPeer, end: str) -> None:
    stream = peer.open()
    assert stream.ask(PING) == PONG

    if end == "revoked":
        AccessToken.objects.get().revoke()
    else:
        AccessToken.objects.update(revoked_at=timezone.now())

    stream.wait_ended()
    assert hubs_are_empty()


def test_a_stream_that_was_taken_for_dead_ends(peer: SSEPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sse, "_RENEW_SECONDS", 0.05)
    stream = peer.open()

    SSEConnection.objects.all().delete()

    stream.wait_ended()


def test_streams_of_processes_that_are_gone_are_forgotten(peer: SSEPeer) -> None:
    SSEConnection.objects.create(key="gone", owner="x", lease_until=timezone.now())

    stream = peer.open()

    assert stream.endpoint.endswith(SSEConnection.objects.get().key)
