"""A legacy client that loses its connection in the middle of a call, and comes back for the rest."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from mcp_django.models import CallStream, Session, StreamEvent
from tests.support.data import token_of
from tests.support.http import ASGIPeer
from tests.support.peers import MODERN, Peers
from tests.support.talking import in_session
from tests.transports.calling import Gate, begin, events_until, message, resume
from tests.transports.calls.conftest import HTTP_ASGI

RESUMING = ("2025-03-26", "2025-06-18", "2025-11-25")

pytestmark = [pytest.mark.every_database, pytest.mark.parametrize("transport", HTTP_ASGI)]


@pytest.mark.parametrize("revision", RESUMING)
def test_the_rest_of_a_call(peer: ASGIPeer, gate: Gate, revision: str) -> None:
    call = begin(peer, "slow", revision)
    primed = revision == "2025-11-25"
    opening = events_until(call, 2 if primed else 1)
    if primed:
        assert (opening[0].data, opening[0].retry) == ("", 500)
        assert opening[0].id
    assert message(opening[-1])["params"] == {"level": "info", "data": "begun"}
    assert gate.reached.wait(30)
    call.leave()
    gate.opened.set()
    assert gate.left.wait(30)
    assert not gate.cancelled
    rest = list(resume(peer, revision, str(opening[-1].id)).events())
    assert [message(event).get("params") for event in rest] == [{"level": "info", "data": "waited"}, None]
    assert message(rest[-1])["result"]["content"] == [{"type": "text", "text": "done"}]
    assert message(rest[-1])["id"] == 1
    ids = [str(event.id) for event in [*opening, *rest]]
    assert len(set(ids)) == len(ids)
    assert len({event_id.rpartition("-")[0] for event_id in ids}) == 1


def test_all_of_a_call_again(peer: ASGIPeer, gate: Gate) -> None:
    call = begin(peer, "slow", "2025-11-25")
    gate.opened.set()
    events = list(call.events())
    again = list(resume(peer, "2025-11-25", str(events[0].id)).events())
    assert again == events[1:]
    assert list(resume(peer, "2025-11-25", str(events[1].id)).events()) == events[2:]


def test_nothing_left_is_405(peer: ASGIPeer, gate: Gate) -> None:
    call = begin(peer, "slow", "2025-11-25")
    gate.opened.set()
    events = list(call.events())
    for event_id in (events[-1].id, "unknown-3", "", "x", f"{events[0].id}0000000000", "é-1"):
        answer = resume(peer, "2025-11-25", str(event_id))
        assert answer.status == 405, event_id
        assert answer.headers["allow"]


def test_the_stream_of_another_session_is_404(peer: ASGIPeer, gate: Gate, peers: Peers, users: Any) -> None:
    call = begin(peer, "slow", "2025-11-25")
    gate.opened.set()
    event_id = str(next(iter(call.events())).id)
    stranger = peers(token_of(users.ops))
    assert isinstance(stranger, ASGIPeer)
    assert resume(stranger, "2025-11-25", event_id).status == 404
    own = peers(peer.token)
    assert isinstance(own, ASGIPeer)
    assert resume(own, "2025-11-25", event_id).status == 404


def test_a_client_that_is_let_go_comes_back(peer: ASGIPeer, gate: Gate) -> None:
    call = begin(peer, "polled", "2025-11-25")
    events = list(call.events())
    assert [(event.data, event.retry) for event in events] == [("", 500), ("", 250)]
    assert gate.reached.wait(30)
    rest = resume(peer, "2025-11-25", str(events[0].id))
    assert rest.status == 200
    gate.opened.set()
    [answer] = rest.events()
    assert message(answer)["result"]["content"] == [{"type": "text", "text": "done"}]


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18"])
def test_a_client_that_would_not_come_back_is_not_let_go(peer: ASGIPeer, gate: Gate, revision: str) -> None:
    gate.opened.set()
    events = list(begin(peer, "polled", revision).events())
    assert message(events[-1])["result"]["content"] == [{"type": "text", "text": "done"}]


def test_a_question_survives_a_lost_connection(peer: ASGIPeer) -> None:
    call = begin(peer, "greet", "2025-11-25")
    priming, question = events_until(call, 2)
    call.leave()
    assert message(question)["method"] == "elicitation/create"
    response = {"jsonrpc": "2.0", "id": message(question)["id"],
                "result": {"action": "accept", "content": {"name": "Ada"}}}  # fmt: skip
    rest = resume(peer, "2025-11-25", str(priming.id))
    assert message(events_until(rest, 1)[0]) == message(question)
    assert peer.post(response, in_session(peer, "2025-11-25")).status == 202
    [answer] = rest.events()
    assert message(answer)["result"]["content"] == [{"type": "text", "text": "Hello, Ada."}]


def test_a_question_that_is_cancelled_ends_its_stream(peer: ASGIPeer) -> None:
    call = begin(peer, "greet", "2025-11-25", "the call")
    events_until(call, 2)
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "the call"}}
    assert peer.post(notice, in_session(peer, "2025-11-25")).status == 202
    assert [message(event)["method"] for event in call.events()] == ["notifications/cancelled"]


def test_an_answer_of_another_session_is_dropped(peer: ASGIPeer, peers: Peers, users: Any) -> None:
    call = begin(peer, "greet", "2025-11-25")
    _, question = events_until(call, 2)
    forged = {"jsonrpc": "2.0", "id": message(question)["id"],
              "result": {"action": "accept", "content": {"name": "Eve"}}}  # fmt: skip
    for stranger in (peers(token_of(users.ops)), peers(peer.token)):
        assert isinstance(stranger, ASGIPeer)
        assert stranger.post(forged, in_session(stranger, "2025-11-25")).status == 202
    honest = {**forged, "result": {"action": "accept", "content": {"name": "Ada"}}}
    assert peer.post(honest, in_session(peer, "2025-11-25")).status == 202
    assert peer.post(forged, in_session(peer, "2025-11-25")).status == 202
    [answer] = call.events()
    assert message(answer)["result"]["content"] == [{"type": "text", "text": "Hello, Ada."}]


def test_a_question_that_nobody_answers(peer: ASGIPeer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "QUESTION_SECONDS": 1}
    events = list(begin(peer, "greet", "2025-11-25").events())
    _, question, cancelled, answer = events
    assert message(cancelled)["params"]["requestId"] == message(question)["id"]
    assert message(answer)["result"]["isError"] is True


def test_a_process_that_died_with_the_call(peer: ASGIPeer, gate: Gate) -> None:
    call = begin(peer, "slow", "2025-11-25", "lost")
    first, _ = events_until(call, 2)
    call.leave()
    CallStream.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    rest = list(resume(peer, "2025-11-25", str(first.id)).events())
    assert message(rest[-1])["error"]["code"] == -32603
    assert message(rest[-1])["id"] == "lost"


def test_streams_end_with_their_session(peer: ASGIPeer, gate: Gate) -> None:
    call = begin(peer, "slow", "2025-11-25")
    gate.opened.set()
    list(call.events())
    peer.loop.run(call.call.finish())  # What was sent is also kept.
    assert StreamEvent.objects.exists()
    peer.http("DELETE", headers=in_session(peer, "2025-11-25"))
    assert not Session.objects.exists()
    assert not CallStream.objects.exists()
    assert not StreamEvent.objects.exists()


def test_a_stream_that_is_too_large_to_keep(peer: ASGIPeer, gate: Gate, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_STREAM_BYTES": 10}
    gate.opened.set()
    events = list(begin(peer, "slow", "2025-11-25").events())
    assert message(events[-1])["result"]["content"] == [{"type": "text", "text": "done"}]
    assert not CallStream.objects.exists()
    assert resume(peer, "2025-11-25", str(events[0].id)).status == 405


def test_old_streams_are_cleared_away(peer: ASGIPeer, gate: Gate) -> None:
    gate.opened.set()
    first, *_ = begin(peer, "slow", "2025-11-25").events()
    CallStream.objects.update(expires_at=timezone.now())
    assert resume(peer, "2025-11-25", str(first.id)).status == 405
    list(begin(peer, "slow", "2025-11-25").events())
    assert CallStream.objects.count() == 1


def test_nothing_of_a_modern_call_is_kept(peer: ASGIPeer, gate: Gate) -> None:
    """A modern client that goes away has given its request up."""
    call = begin(peer, "slow", MODERN, _meta={"io.modelcontextprotocol/logLevel": "info"})
    [opening] = events_until(call, 1)
    assert opening.id is None
    assert gate.reached.wait(30)
    call.leave()
    gate.opened.set()
    assert gate.left.wait(30)
    assert gate.cancelled
    assert not CallStream.objects.exists()
