"""Calls that end before their answer."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.db.models.signals import pre_delete
from django.utils import timezone

from mcp_django.models import AccessToken, CallStream, OpenQuestion, Session, StreamEvent
from mcp_django.push.sessions.stored_questions import answer_question
from tests.end_to_end.servers import wait_for
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.http import ASGIPeer
from tests.support.peers import MODERN, Message, Peers, SocketPeer
from tests.support.talking import in_session
from tests.transports.calling import NAME, Gate, begin, events_until, message
from tests.transports.calls.conftest import LEVEL, bypassing_middleware, hub_of, over_http, text_of


def ada(question: Message) -> Message:
    """The answer to a question for a name."""
    return {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"name": "Ada"}}}


@over_http
@pytest.mark.parametrize("frame", ["alone", "in a batch"])
def test_a_call_that_is_given_up_ends_its_stream_though_its_tool_does_not_look(
    peer: ASGIPeer, gate: Gate, frame: str
) -> None:
    stream = begin(peer, "slow", "2025-03-26", "mine")
    events_until(stream, 1)
    notice: Any = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}}

    assert peer.post([notice] if frame == "in a batch" else notice, in_session(peer, "2025-03-26")).status == 202

    assert list(stream.events()) == []
    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled


@over_http
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_revoked_token_ends_the_stream_and_the_work(peer: ASGIPeer, gate: Gate, revision: str) -> None:
    stream = begin(peer, "slow", revision, _meta={LEVEL: "info"})
    events_until(stream, 1)

    AccessToken.objects.get().revoke()

    [*_, end] = [message(event) for event in stream.events() if event.data]
    assert end["error"]["data"]["reason"] == "UNAUTHENTICATED"
    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled
    peer.sessions.clear()


@over_http
@pytest.mark.parametrize("how", ["with its token", "by its client", "by another process"])
def test_a_session_that_ends_takes_its_open_questions_with_it(peer: ASGIPeer, how: str) -> None:
    """Nobody can answer them any more."""
    stream = begin(peer, "greet", "2025-11-25")
    _, question = events_until(stream, 2)

    if how == "with its token":
        AccessToken.objects.get().revoke()
    elif how == "by its client":
        assert peer.http("DELETE", headers=in_session(peer, "2025-11-25")).status == 204
    else:
        Session.objects.all().delete()

    peer.sessions.clear()
    cancelled, end = [message(event) for event in stream.events()]
    assert cancelled["params"]["requestId"] == message(question)["id"]
    assert end["error"]["data"]["reason"] == "UNAUTHENTICATED"
    assert not OpenQuestion.objects.exists()
    wait_for(lambda: not hub_of(peer)._members, "the end of the call")
    assert hub_of(peer).waiters._expected == {}
    assert hub_of(peer).waiters.stored_streams == {}


@over_http
def test_a_session_that_ends_before_its_client_is_asked(
    peer: ASGIPeer, declared: Declared, gate: Gate, caplog: pytest.LogCaptureFixture
) -> None:
    def late(request: Any) -> str:
        """Asks when it is too late."""
        request.mcp.log("info", "begun")
        gate.wait(request)
        return str(request.mcp.elicit("Your name?", NAME).action)

    declared.tool(late, read_only=True)
    switch_on("late")
    stream = begin(peer, "late", "2025-11-25")
    events_until(stream, 2)
    assert peer.http("DELETE", headers=in_session(peer, "2025-11-25")).status == 204
    peer.sessions.clear()

    gate.opened.set()

    [end] = [message(event) for event in stream.events()]
    assert end["error"]["data"]["reason"] == "SESSION_NOT_FOUND"
    assert caplog.records == []


@over_http
def test_a_session_ends_though_one_of_its_calls_stores_an_event_just_then(peer: ASGIPeer, gate: Gate) -> None:
    """The database does not let the stream go, to which the event points: the session is over all the same."""
    key = peer.session("2025-11-25")
    stream = begin(peer, "slow", "2025-11-25")
    events_until(stream, 2)

    def store(sender: Any, instance: CallStream, **kwargs: Any) -> None:
        StreamEvent.objects.create(stream=instance, number=99, body="{}")

    pre_delete.connect(store, sender=CallStream)
    try:
        ended = peer.http("DELETE", headers=in_session(peer, "2025-11-25"))
        again = peer.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, in_session(peer, "2025-11-25"))
    finally:
        pre_delete.disconnect(store, sender=CallStream)

    assert (ended.status, again.status) == (204, 404)
    peer.sessions.clear()
    gate.opened.set()
    [*_, end] = stream.events()
    assert text_of(message(end)) == "done"
    peer.session("2025-11-25")
    assert not Session.objects.filter(pk=key).exists()
    assert not CallStream.objects.exists()


@over_http
def test_a_session_lives_as_long_as_its_client_is_asked(peer: ASGIPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "SESSION_SECONDS": 1_000}
    stream = begin(peer, "greet", "2025-11-25")
    _, question = events_until(stream, 2)
    Session.objects.update(expires_at=timezone.now() + timedelta(seconds=500))

    wait_for(lambda: Session.objects.get().expires_at > timezone.now() + timedelta(seconds=900), "a renewal")

    assert peer.post(ada(message(question)), in_session(peer, "2025-11-25")).status == 202
    [end] = stream.events()
    assert text_of(message(end)) == "Hello, Ada."


@pytest.mark.own_form
@pytest.mark.parametrize("transport", ["http-asgi", "websocket"])
def test_who_was_asked_is_not_sent_away_because_the_workers_are_busy(
    users: Any, declared: Declared, peers: Peers, gate: Gate, settings: Any
) -> None:
    settings.MCP = {**settings.MCP, "QUEUE_PER_PRINCIPAL": 1, "THREADS": 2}

    def wait(request: Any) -> str:
        """Waits."""
        gate.wait(request)
        return "waited"

    def greet(request: Any) -> str:
        """Asks for a name."""
        return f"Hello, {request.mcp.elicit('Your name?', NAME).content['name']}."

    for function in (wait, greet):
        declared.tool(function, read_only=True)
        switch_on(function.__name__)
    peer = peers(token_of(users.admin))
    peer.capabilities = {"elicitation": {}}
    busy = {"jsonrpc": "2.0", "id": "busy", "method": "tools/call", "params": {"name": "wait"}}
    asking = {"jsonrpc": "2.0", "id": "asking", "method": "tools/call", "params": {"name": "greet"}}
    opening = threading.Timer(1, gate.opened.set)
    if isinstance(peer, SocketPeer):
        socket = peer.socket("2025-11-25")
        socket.send(asking)
        question = socket.loop.run(asyncio.wait_for(socket.notifications.get(), 30))
        socket.send(busy)
        assert gate.reached.wait(30)
        socket.send(ada(question))
        opening.start()
        answers = {answer["id"]: answer for answer in (socket.answer(), socket.answer())}
        assert text_of(answers["asking"]) == "Hello, Ada."
        return
    assert isinstance(peer, ASGIPeer)
    stream = begin(peer, "greet", "2025-11-25", "asking")
    _, asked = events_until(stream, 2)
    work = peer._exchange(peer.scope("POST", peer.headers(in_session(peer, "2025-11-25"))), json.dumps(busy).encode())
    waiting = asyncio.run_coroutine_threadsafe(work, peer.loop.loop)
    assert gate.reached.wait(30)
    # To another process, which is not busy.
    answer_question(peer.sessions["2025-11-25"], message(asked)["id"], ada(message(asked)))
    opening.start()
    [end] = stream.events()
    assert text_of(message(end)) == "Hello, Ada."
    assert waiting.result(30).status == 200


@bypassing_middleware
def test_questions_beyond_the_limit_are_refused_in_band(peer: ASGIPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 2}
    open_ = [begin(peer, "greet", "2025-11-25", number) for number in range(2)]
    asked = [message(events_until(stream, 2)[1]) for stream in open_]

    [*_, refused] = begin(peer, "greet", "2025-11-25", 3).messages()

    assert refused["error"]["data"]["reason"] == "LIMIT_EXCEEDED"
    assert "MAX_LISTENS" in refused["error"]["message"]
    for stream, question in zip(open_, asked, strict=True):
        assert peer.post(ada(question), in_session(peer, "2025-11-25")).status == 202
        [end] = stream.events()
        assert text_of(message(end)) == "Hello, Ada."
