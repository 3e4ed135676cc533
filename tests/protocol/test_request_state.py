"""Attacks on the state that a client carries from one round of questions to the next."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.core import signing
from django.db import connections
from django.utils import timezone

from mcp_django.conf import Conf
from mcp_django.models import UsedNonce
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, DuplexPeer, HTTPPeer, Message, Peer, Peers
from tests.support.talking import accept, call, talk

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
ASKED: Message = {"elicitation": {}}

ADA = {"action": "accept", "content": {"name": "Ada"}}


@pytest.fixture
def deleted() -> list[str]:
    return []


@pytest.fixture
def asker(declared: Declared, users: Any, peers: Peers, deleted: list[str]) -> Iterator[Peer]:
    def erase(request: Any, what: str = "everything") -> str:
        """Erases something, if the user agrees."""
        answer = request.mcp.elicit(f"Erase {what}? Say who you are.", NAME, key="sure")
        if answer.accepted:
            deleted.append(what)
        return f"{answer.content['name']} erased {what}."

    def redeem(request: Any) -> str:
        """Gives something away once."""
        name = request.mcp.elicit("Who gets it?", NAME, key="who", single_use=True).content["name"]
        deleted.append(name)
        return f"{name} got it."

    def guess(request: Any) -> str:
        """Asks without minding whether it was really asked."""
        return str(request.mcp.elicit("Your name?", NAME, key="user_name", trusted=False).content["name"])

    def forever(request: Any) -> str:
        """Never has enough."""
        for number in range(1000):
            request.mcp.elicit(f"Question {number}", NAME)
        return "enough"

    for function in (erase, redeem, guess, forever):
        declared.tool(function, read_only=True)
        switch_on(function.__name__)
    yield client(peers, users.admin)


def client(peers: Peers, user: Any, *scopes: str) -> Peer:
    peer = peers(token_of(user, *scopes))
    peer.capabilities = ASKED
    return peer


def first(peer: Peer, tool: str, **arguments: Any) -> Message:
    """The params of a retry that answers the first round."""
    result = call(peer, tool, **arguments).answer["result"]
    assert result["resultType"] == "input_required"
    [key] = result["inputRequests"]
    return {
        "name": tool,
        "arguments": arguments,
        "inputResponses": {key: ADA},
        "requestState": result["requestState"],
    }


def retry(peer: Peer, params: Message) -> Message:
    return talk(peer, MODERN, "tools/call", params).answer


def assert_refused(answer: Message) -> None:
    assert answer["error"]["code"] == -32602
    assert answer["error"]["data"]["reason"] == "INVALID_REQUEST_STATE"


def test_a_forged_state(asker: Peer, deleted: list[str]) -> None:
    params = first(asker, "erase", what="a row")
    state = params["requestState"]
    forged: list[Any] = [
        f"{state}-TAMPERED", state[:-1], state.replace(":", "."), "", None, {"a": 1}, 7,
        signing.dumps({"request": "x"}, salt="another"),
    ]  # fmt: skip
    for one in forged:
        assert_refused(retry(asker, {**params, "requestState": one}))
    assert deleted == []
    assert retry(asker, params)["result"]["content"][0]["text"] == "Ada erased a row."
    assert deleted == ["a row"]


def test_a_confirmation_without_a_question(asker: Peer, deleted: list[str]) -> None:
    params = {"name": "erase", "arguments": {}, "inputResponses": {"sure": ADA}}
    assert retry(asker, params)["result"]["resultType"] == "input_required"
    assert deleted == []


def test_a_state_of_another_call_or_caller_or_of_long_ago(
    asker: Peer, peers: Peers, users: Any, settings: Any, deleted: list[str]
) -> None:
    params, plain = first(asker, "erase", what="a row"), first(asker, "erase")
    narrow = first(client(peers, users.admin, "read"), "erase")
    assert_refused(retry(asker, {**params, "arguments": {"what": "everything"}}))
    assert_refused(retry(asker, {**plain, "name": "redeem"}))
    assert_refused(retry(client(peers, users.ops), params))
    assert_refused(retry(asker, narrow))
    settings.MCP = {**settings.MCP, "QUESTION_SECONDS": -1}
    assert_refused(retry(asker, params))
    assert deleted == []


def test_an_answer_to_a_question_that_was_not_the_one_asked(asker: Peer, declared: Declared) -> None:
    """The question changes between the rounds, so an answer to the old one does not count."""
    price = [1]

    def buy(request: Any) -> str:
        """Buys at a price that moves."""
        answer = request.mcp.elicit(f"Buy for {price[0]}?", NAME, key="sure")
        return f"bought for {price[0]}" if answer.accepted else "not bought"

    declared.tool(buy, read_only=True)
    switch_on("buy")
    params = first(asker, "buy")
    price[0] = 1000
    again = retry(asker, params)["result"]
    assert again["resultType"] == "input_required"
    assert again["inputRequests"]["sure"]["params"]["message"] == "Buy for 1000?"


def test_a_replay_of_an_answer_for_one_use(asker: Peer, deleted: list[str]) -> None:
    params = first(asker, "redeem")
    assert retry(asker, params)["result"]["content"][0]["text"] == "Ada got it."
    assert_refused(retry(asker, params))
    assert_refused(
        retry(asker, {**params, "inputResponses": {"who": {"action": "accept", "content": {"name": "Eve"}}}})
    )
    assert deleted == ["Ada"]
    assert UsedNonce.objects.count() == 1


def test_a_replay_of_a_later_round_with_an_answer_for_one_use(
    asker: Peer, declared: Declared, deleted: list[str]
) -> None:
    """The state of every later round holds the answer that may be used once."""

    def give(request: Any) -> str:
        """Gives something away once, and asks whether that is meant."""
        name = request.mcp.elicit("Who gets it?", NAME, key="who", single_use=True).content["name"]
        request.mcp.elicit(f"{name}, really?", NAME, key="sure")
        deleted.append(name)
        return f"{name} got it."

    declared.tool(give, read_only=True)
    switch_on("give")
    second = first(asker, "give")
    asked = retry(asker, second)["result"]
    third = {**second, "inputResponses": {"sure": ADA}, "requestState": asked["requestState"]}

    assert retry(asker, third)["result"]["content"][0]["text"] == "Ada got it."

    assert_refused(retry(asker, third))
    assert_refused(retry(asker, second))
    assert_refused(retry(asker, {**third, "inputResponses": {}}))
    assert deleted == ["Ada"]


@pytest.mark.parametrize("transport", ["http-asgi", "http-view-wsgi", "websocket"])
def test_a_replay_of_an_answer_for_one_use_in_many_requests_at_the_same_time(asker: Peer, deleted: list[str]) -> None:
    params = first(asker, "redeem")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda number: redeemed(asker, params, number), range(6)))

    assert deleted == ["Ada"]
    assert sum("result" in answer for answer in answers) == 1


def redeemed(peer: Peer, params: Message, number: int) -> Message:
    """The answer to a retry that other threads send at the same time."""
    if isinstance(peer, HTTPPeer):
        answer: Message = peer.send(MODERN, "tools/call", params).json
        connections.close_all()
        return answer
    assert isinstance(peer, DuplexPeer)
    connection = peer.connect()
    message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {**params, "_meta": peer.meta()}}
    found: Message = connection.ask(message)
    return found


def test_a_used_state_is_remembered_longer_than_any_clock_accepts_it(asker: Peer, settings: Any) -> None:
    assert "result" in retry(asker, first(asker, "redeem"))
    end = UsedNonce.objects.get().expires_at
    assert end > timezone.now() + timedelta(seconds=Conf.QUESTION_SECONDS + 60)


def test_a_state_without_answers_is_not_used_up(asker: Peer, deleted: list[str]) -> None:
    params = first(asker, "redeem")
    again = retry(asker, {**params, "inputResponses": {}})["result"]
    assert again["resultType"] == "input_required"
    assert retry(asker, params)["result"]["content"][0]["text"] == "Ada got it."


def test_an_untrusted_question_takes_an_answer_that_nobody_asked_for(asker: Peer) -> None:
    extra = {"a": {"action": "accept", "content": {}}, "b": {"ignored": True}}
    params = {"name": "guess", "arguments": {}, "inputResponses": {"user_name": ADA, **extra}}
    assert retry(asker, params)["result"]["content"][0]["text"] == "Ada"
    result = call(asker, "guess").answer["result"]
    assert "requestState" not in result
    assert call(asker, "guess", MODERN, accept(name="Bea")).text == "Bea"


def test_questions_without_end(asker: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_django.exchange.questions.MAX_ROUNDS", 3)
    said = call(asker, "forever", MODERN, accept(name="Ada"))
    assert len(said.rounds) == 3
    assert said.answer["error"]["data"]["reason"] == "LIMIT_EXCEEDED"
    assert said.answer["error"]["message"] == "More than 3 rounds of questions."


def test_lists_take_no_answers(asker: Peer) -> None:
    params = {"inputResponses": {"a": 1}, "requestState": "forged"}
    assert "tools" in talk(asker, MODERN, "tools/list", params).answer["result"]
