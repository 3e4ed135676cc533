"""Calls of clients that take no stream: their questions come by the polls, and their answers to the POST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.models import OpenQuestion, Poll, StreamEvent
from mcp_django.push import collectors
from mcp_django.push.hub import Hub
from mcp_django.push.sessions import polls
from tests.end_to_end.servers import wait_for
from tests.support import schemas
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Message, Peers
from tests.support.polling import REVISION, Polling, in_background
from tests.support.talking import in_session
from tests.transports.calling import NAME
from tests.transports.polls.conftest import over_http

PLAIN = {"Accept": "application/json"}


@pytest.fixture
def polling(declared: Declared, users: Any, peers: Peers) -> Polling:
    """A client that can be asked, polls, and takes no stream."""

    def greet(request: Any) -> str:
        """Asks for a name, twice."""
        request.mcp.log("info", "left out")
        first = request.mcp.elicit("Your first name?", NAME).content["name"]
        last = request.mcp.elicit(f"Your last name, {first}?", NAME).content["name"]
        return f"Hello, {first} {last}."

    async def greet_async(request: Any) -> str:
        """Asks on the loop."""
        return f"Hello, {request.mcp.elicit('Your name?', NAME).content['name']}."

    def optional(request: Any) -> str:
        """Can do without an answer."""
        return "answered" if request.mcp.elicit("Your name?", NAME).accepted else "not answered"

    for function in (greet, greet_async, optional):
        declared.tool(function, read_only=True)
        switch_on(function.__name__)
    peer = peers(token_of(users.admin))
    peer.capabilities = {"elicitation": {}}
    made = Polling(peer)
    assert made.next(0) == []
    return made


def call(polling: Polling, tool: str, **headers: str) -> Any:
    """The answer to a call, which comes later."""
    peer = polling.peer
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, "arguments": {}}}
    return in_background(lambda: peer.post(message, {**in_session(peer, REVISION), **PLAIN, **headers}))


def answer(polling: Polling, question: Message, **content: Any) -> None:
    assert question["method"] == "elicitation/create"
    body = {"jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": content}}
    assert polling.peer.post(body, in_session(polling.peer, REVISION)).status == 202


def text_of(message: Message) -> str:
    schemas.check(message, REVISION, "tools/call")
    [block] = message["result"]["content"]
    return str(block["text"])


@over_http
def test_questions_come_by_the_polls_and_the_answer_to_the_post(polling: Polling, hub: Callable[[], Hub]) -> None:
    called = call(polling, "greet")
    [first] = polling.next()
    answer(polling, first, name="Ada")
    [last] = polling.next()
    answer(polling, last, name="Lovelace")
    answered = called.result(30)

    assert first["params"]["message"] == "Your first name?"
    assert last["params"]["message"] == "Your last name, Ada?"
    assert (answered.status, answered.headers["content-type"]) == (200, "application/json")
    assert (answered.json["id"], text_of(answered.json)) == (7, "Hello, Ada Lovelace.")
    assert polling.next(0) == []
    assert not OpenQuestion.objects.exists()
    wait_for(lambda: len(hub().members()) == 1, "the end of the call")


@over_http
def test_a_question_that_was_not_acknowledged_is_asked_again_with_its_id(polling: Polling) -> None:
    called = call(polling, "greet_async")
    lost = polling.send()
    [question] = polling.next()

    assert lost.json == [question]
    answer(polling, question, name="Ada")
    assert text_of(called.result(30).json) == "Hello, Ada."


@over_http
def test_a_client_that_does_not_poll_cannot_be_asked_nor_can_a_batch(polling: Polling) -> None:
    other = Polling(polling.peer, "2025-03-26")
    assert other.next(0) == []
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet", "arguments": {}}}

    [in_batch] = polling.peer.post([message], {**in_session(polling.peer, "2025-03-26"), **PLAIN}).json
    Poll.objects.all().delete()
    answered = call(polling, "greet").result(30)

    assert in_batch["result"]["isError"] is True
    assert answered.json["result"]["isError"] is True
    assert "poll beside the request" in answered.json["result"]["content"][0]["text"]


@over_http
def test_a_call_that_asks_ends_when_its_client_polls_no_more(
    polling: Polling, monkeypatch: pytest.MonkeyPatch, hub: Callable[[], Hub]
) -> None:
    monkeypatch.setattr(collectors, "GRACE_SECONDS", 0.05)
    assert len(polling.send(0).body) == 0
    # The client was let go, or will be: the first poll that brings the question is its last.
    called = call(polling, "greet")

    answered = called.result(30).json

    assert "poll" in str(answered)
    wait_for(lambda: not hub().members() and not Poll.objects.exists(), "the end of the collector")
    assert not StreamEvent.objects.exists()


@over_http
def test_a_call_that_asks_ends_with_its_session(polling: Polling, hub: Callable[[], Hub]) -> None:
    called = call(polling, "greet")
    assert len(polling.next()) == 1

    key = polling.peer.sessions.pop(REVISION)
    assert polling.peer.http("DELETE", headers={"Mcp-Session-Id": key}).status == 204

    assert called.result(30).json["error"]["data"] == {"reason": "UNAUTHENTICATED"}
    wait_for(lambda: not hub().members(), "the end of the call and the collector")


@over_http
def test_a_question_that_nobody_waits_for_any_more_is_cancelled_by_the_polls(
    polling: Polling, settings: Any, hub: Callable[[], Hub]
) -> None:
    settings.MCP = {**settings.MCP, "QUESTION_SECONDS": 0}

    called = call(polling, "optional")
    found: list[Message] = []
    while len(found) < 2:
        found += polling.next()

    assert text_of(called.result(30).json) == "not answered"
    assert found[1]["method"] == "notifications/cancelled"
    assert found[1]["params"]["requestId"] == found[0]["id"]


# Bounds.


@over_http
@pytest.mark.parametrize("bound", ["messages", "bytes"])
def test_no_question_is_added_to_too_many_messages(
    polling: Polling, monkeypatch: pytest.MonkeyPatch, settings: Any, bound: str
) -> None:
    waiting = [call(polling, "greet") for _ in range(2)]
    wait_for(lambda: StreamEvent.objects.count() == 2, "two questions")
    if bound == "messages":
        monkeypatch.setattr(polls, "_MAX_MESSAGES", 2)
    else:
        size = sum(len(body) for body in StreamEvent.objects.values_list("body", flat=True))
        settings.MCP = {**settings.MCP, "MAX_STREAM_BYTES": size + 10}

    refused = call(polling, "greet").result(30).json

    assert refused["error"]["data"]["reason"] == "LIMIT_EXCEEDED"
    assert "2 messages wait for you already" in refused["error"]["message"]
    questions = polling.next()
    assert len(questions) == 2
    polling.peer.http("DELETE", headers={"Mcp-Session-Id": polling.peer.sessions.pop(REVISION)})
    assert all("error" in one.result(30).json for one in waiting)


@over_http
def test_questions_of_polls_count_for_the_open_streams(polling: Polling, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "MAX_LISTENS": 2}
    first = call(polling, "greet_async")
    [question] = polling.next()

    refused = call(polling, "greet").result(30).json

    assert "(MAX_LISTENS)" in refused["error"]["message"]
    answer(polling, question, name="Ada")
    assert text_of(first.result(30).json) == "Hello, Ada."
