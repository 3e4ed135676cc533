"""Questions to the client's user, in every era and on every transport."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from demo_project.flights.models import Airline
from mcp_django import Elicitation, ModelMCP, Roots, Sampling, URLElicitation
from mcp_django.exceptions import ToolError
from mcp_django.models import OpenQuestion
from tests.axes import DUPLEX, PUSHING
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import MODERN, REVISIONS, DuplexPeer, DuplexWatching, Message, Peer, Peers
from tests.support.raw import assert_next_is_mine
from tests.support.talking import accept, call, talk

ASKING = ("2025-06-18", "2025-11-25", MODERN)
EVERYTHING: Message = {"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}}
NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
COLOUR = {"type": "object", "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}}}


class Seat(BaseModel):
    row: int = Field(ge=1, le=40)
    window: bool = False


@pytest.fixture
def asker(declared: Declared, users: Any, peers: Peers) -> Peer:
    """An administrator's client that supports every kind of question."""

    runs: list[str] = []

    def greet(request: Any) -> str:
        """Asks for a name."""
        runs.append("greet")
        request.mcp.log("info", "before the question")
        request.mcp.progress(len(runs))
        answer = request.mcp.elicit("Your name?", NAME)
        return f"Hello, {answer.content['name']}." if answer.accepted else f"The user chose {answer.action}."

    def dress(request: Any) -> str:
        """Asks for a name, then for a colour."""
        name = request.mcp.elicit("Your name?", NAME).content["name"]
        colour = request.mcp.elicit(f"Your colour, {name}?", COLOUR).content["colour"]
        return f"{name} wears {colour}."

    def everything(request: Any) -> str:
        """Asks three things at once."""
        found = request.mcp.ask(
            {"who": Elicitation("Your name?", NAME), "poem": Sampling("A poem, please.", 100), "where": Roots()}
        )
        return f"{found['who'].content['name']} / {found['poem'].text} / {found['where'][0].uri}"

    def seat(request: Any) -> str:
        """Asks with a pydantic model."""
        answer = request.mcp.elicit("Which seat?", Seat)
        return f"{answer.content.row} {answer.content.window} {type(answer.content).__name__}"

    def pay(request: Any) -> str:
        """Sends the user to a page."""
        return str(request.mcp.elicit_url("Pay here.", "https://example.com/pay").action)

    for function in (greet, dress, everything, seat, pay):
        declare(declared, function)
    peer = peers(token_of(users.admin))
    peer.capabilities = EVERYTHING
    return peer


def declare(declared: Declared, function: Any) -> None:
    declared.tool(function, read_only=True)
    switch_on(function.__name__)


def answerer(method: str, params: Message) -> Message:
    """A client that answers everything."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///home/ada", "name": "home"}]}
    if method == "sampling/createMessage":
        assert params == {
            "messages": [{"role": "user", "content": {"type": "text", "text": "A poem, please."}}],
            "maxTokens": 100,
        }
        return {"role": "assistant", "content": {"type": "text", "text": "Roses."}, "model": "m", "stopReason": "end"}
    if "colour" in params.get("requestedSchema", {}).get("properties", {}):
        return {"action": "accept", "content": {"colour": "red"}}
    return {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.parametrize("transport", PUSHING)
@pytest.mark.parametrize("revision", ASKING)
@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_a_user_need_not_answer(asker: Peer, revision: str, action: str) -> None:
    assert call(asker, "greet", revision, lambda *_: {"action": action}).text == f"The user chose {action}."


@pytest.mark.parametrize("transport", PUSHING)
@pytest.mark.parametrize("revision", ASKING)
def test_one_question_after_the_other(asker: Peer, revision: str) -> None:
    said = call(asker, "dress", revision, answerer)
    assert said.text == "Ada wears red."
    assert said.asked == [
        ("elicitation/create", {"message": "Your name?", "requestedSchema": NAME}),
        ("elicitation/create", {"message": "Your colour, Ada?", "requestedSchema": COLOUR}),
    ]


@pytest.mark.parametrize("transport", PUSHING)
@pytest.mark.parametrize("revision", ASKING)
def test_three_questions_at_once(asker: Peer, revision: str) -> None:
    said = call(asker, "everything", revision, answerer)
    assert said.text == "Ada / Roses. / file:///home/ada"
    assert {method for method, _ in said.asked} == {"elicitation/create", "sampling/createMessage", "roots/list"}
    assert len(said.rounds) == (1 if revision == MODERN else 0)
    assert not OpenQuestion.objects.exists()


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_form_of_a_pydantic_model(asker: Peer, revision: str) -> None:
    said = call(asker, "seat", revision, accept(row=7, window=True))
    assert said.text == "7 True Seat"
    [(_, params)] = said.asked
    assert params["requestedSchema"]["properties"]["row"]["maximum"] == 40


@pytest.mark.parametrize("transport", PUSHING)
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_page_to_open(asker: Peer, revision: str) -> None:
    said = call(asker, "pay", revision, lambda *_: {"action": "accept"})
    assert said.text == "accept"
    [(method, params)] = said.asked
    assert method == "elicitation/create"
    assert bool(params.pop("elicitationId", "")) == (revision == "2025-11-25")
    assert params == {"mode": "url", "message": "Pay here.", "url": "https://example.com/pay"}


@pytest.mark.parametrize("transport", PUSHING)
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
def test_messages_before_a_question_are_sent_once(asker: Peer, revision: str) -> None:
    params = {"name": "greet", "_meta": {"progressToken": "t"}}
    said = talk(asker, revision, "tools/call", params, accept(name="Ada"))
    assert said.logged == [("info", "before the question")]
    assert [step for step, _, _ in said.progress] == [1, 2]


@pytest.mark.parametrize("transport", PUSHING)
def test_a_legacy_client_that_refuses_to_ask(asker: Peer) -> None:
    refusal = {"error": {"code": -1, "message": "not now"}}
    assert call(asker, "greet", "2025-11-25", lambda *_: refusal).text == "The user chose cancel."
    result = call(asker, "everything", "2025-11-25", lambda *_: refusal).answer["result"]
    assert result["isError"] is True


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-03-26"])
def test_a_legacy_client_that_cannot_be_asked(asker: Peer, revision: str) -> None:
    asker.capabilities = {"sampling": {}}
    result = call(asker, "greet", revision).answer["result"]
    assert result["isError"] is True
    assert "elicitation" in result["content"][0]["text"]


def test_a_modern_client_that_cannot_be_asked(asker: Peer) -> None:
    asker.capabilities = {"sampling": {}}
    for tool, needed in (("greet", {"elicitation": {}}), ("pay", {"elicitation": {"url": {}}})):
        error = call(asker, tool).answer["error"]
        assert error["code"] == -32021
        assert error["data"] == {"reason": "MISSING_CLIENT_CAPABILITY", "requiredCapabilities": needed}
    # Forms alone are no pages.
    asker.capabilities = {"elicitation": {}}
    assert call(asker, "greet", MODERN, accept(name="Ada")).text == "Hello, Ada."
    assert call(asker, "pay").answer["error"]["data"]["requiredCapabilities"] == {"elicitation": {"url": {}}}


@pytest.mark.parametrize("transport", ["http-view-wsgi"])
def test_under_wsgi_a_legacy_question_is_refused_in_band_and_a_modern_client_is_asked(asker: Peer) -> None:
    result = call(asker, "greet", "2025-11-25").answer["result"]
    assert result["isError"] is True
    assert "ASGI" in result["content"][0]["text"]
    assert call(asker, "dress", MODERN, answerer).text == "Ada wears red."


def test_answers_that_are_none_are_refused(asker: Peer) -> None:
    asked = call(asker, "greet").answer["result"]
    for wrong in (12345, {}, {"action": "perhaps"}, [], "yes", {"action": "accept", "content": {"name": 7}},
                  {"action": "accept"}):  # fmt: skip
        params = {"name": "greet", "arguments": {}, "inputResponses": {"elicitation-1": wrong}}
        error = talk(asker, MODERN, "tools/call", {**params, "requestState": asked["requestState"]}).answer["error"]
        assert error["code"] == -32602, wrong


def test_without_answers_the_question_is_asked_again(asker: Peer) -> None:
    asked = call(asker, "greet").answer["result"]
    for given in ({}, {"other": {"action": "accept"}}):
        params = {"name": "greet", "arguments": {}, "inputResponses": given, "requestState": asked["requestState"]}
        again = talk(asker, MODERN, "tools/call", params).answer["result"]
        assert again["resultType"] == "input_required"
        assert again["inputRequests"] == asked["inputRequests"]
        assert again["requestState"] != asked["requestState"]


def test_input_responses_must_be_an_object(asker: Peer) -> None:
    for given in (None, [], "x", 1):
        params = {"name": "greet", "arguments": {}, "inputResponses": given}
        error = talk(asker, MODERN, "tools/call", params).answer["error"]
        assert error["code"] == -32602
        assert error["data"]["errors"][0]["field"] == "inputResponses"


def test_a_question_in_a_tool_that_failed_is_no_state(declared: Declared, asker: Peer) -> None:
    def careless(request: Any) -> str:
        """Catches every Exception, and still asks."""
        try:
            return str(request.mcp.elicit("Your name?", NAME).content["name"])
        except Exception:  # noqa: BLE001
            return "swallowed"

    declare(declared, careless)
    assert call(asker, "careless", MODERN, answerer).text == "Ada"


def test_a_form_that_no_client_can_show() -> None:
    for wrong in (
        {"type": "array"},
        {"type": "object", "properties": {"a": {"type": "object"}}},
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "a+"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/b"}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
        {"type": "object", "properties": {"a": {"type": "string", "format": "password"}}},
    ):
        with pytest.raises(ValueError, match=r"form|must be"):
            Elicitation("?", wrong)
    with pytest.raises(ValueError, match="address"):
        URLElicitation("?", "javascript:alert(1)")


def test_an_answer_that_counts_without_a_state_cannot_be_for_one_use() -> None:
    once: Any = {"trusted": False, "single_use": True}
    for ask in (
        lambda: Elicitation("?", {"type": "object", "properties": {}}, **once),
        lambda: URLElicitation("?", "https://example.com", **once),
        lambda: Sampling("?", 10, **once),
        lambda: Roots(**once),
    ):
        with pytest.raises(ValueError, match="single_use needs trusted=True"):
            ask()


def test_first_forms_knew_less(declared: Declared, asker: Peer) -> None:
    """2025-06-18 has only boolean defaults, and no titled choices."""
    properties = {
        "name": {"type": "string", "default": "Ada"},
        "sure": {"type": "boolean", "default": True},
        "level": {"type": "string", "oneOf": [{"const": "a", "title": "Easy"}, {"const": "b", "title": "Hard"}]},
    }

    def form(request: Any) -> str:
        """Asks with a modern form."""
        return json.dumps(request.mcp.elicit("?", {"type": "object", "properties": properties}).content)

    declare(declared, form)

    content = {"name": "Bea", "sure": False, "level": "b"}
    [(_, params)] = call(asker, "form", "2025-06-18", accept(**content)).asked
    assert params["requestedSchema"]["properties"] == {
        "name": {"type": "string"},
        "sure": {"type": "boolean", "default": True},
        "level": {"type": "string", "enum": ["a", "b"], "enumNames": ["Easy", "Hard"]},
    }
    [(_, params)] = call(asker, "form", "2025-11-25", accept(**content)).asked
    assert params["requestedSchema"]["properties"] == properties


def test_tool_errors_of_a_later_run_reach_the_client(declared: Declared, asker: Peer) -> None:
    def picky(request: Any) -> str:
        """Likes nobody."""
        name = request.mcp.elicit("Your name?", NAME).content["name"]
        raise ToolError(f"Not you, {name}.")

    declare(declared, picky)
    said = call(asker, "picky", MODERN, answerer)
    assert said.answer["result"]["isError"] is True
    assert said.text == "Not you, Ada."


@pytest.mark.parametrize("transport", DUPLEX)
def test_a_legacy_client_cancels_a_request_that_asks_it(asker: Peer) -> None:
    assert isinstance(asker, DuplexPeer)
    connection = asker.connection("2025-11-25")
    connection.send({"jsonrpc": "2.0", "id": "mine", "method": "tools/call", "params": {"name": "greet"}})
    question = DuplexWatching(connection, "2025-11-25", None)
    while (asked := question.next())["method"] != "elicitation/create":
        pass
    connection.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "mine"}})
    assert question.next()["params"]["requestId"] == asked["id"]
    connection.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"name": "Ada"}}})
    assert_next_is_mine(connection)


@pytest.mark.parametrize("transport", DUPLEX)
def test_questions_of_a_batch_are_refused_in_band(asker: Peer) -> None:
    assert isinstance(asker, DuplexPeer)
    connection = asker.connection("2025-03-26")
    connection.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "greet"}}])
    [answer] = connection.answer()
    assert answer["result"]["isError"] is True


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_an_asynchronous_tool_asks(declared: Declared, asker: Peer, revision: str) -> None:
    async def welcome(request: Any) -> str:
        """Asks for a name."""
        await asyncio.sleep(0)
        return f"Welcome, {request.mcp.elicit('Your name?', NAME).content['name']}."

    declare(declared, welcome)
    assert call(asker, "welcome", revision, accept(name="Ada")).text == "Welcome, Ada."


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_list_asks_nobody(declared: Declared, asker: Peer, revision: str, caplog: pytest.LogCaptureFixture) -> None:
    """Only tools, prompts and resources may ask. A model's hook that asks during a list is a mistake."""

    class Asking(ModelMCP):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return bool(request.mcp.elicit("Your name?", NAME).accepted)

    declared.model(Airline, Asking)
    error = talk(asker, revision, "resources/list").answer["error"]
    assert (error["code"], error["data"]) == (-32603, {"reason": "INTERNAL_ERROR"})
    assert "resources/list cannot ask the client" in caplog.text


@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
def test_a_question_that_is_larger_than_a_client_reads(declared: Declared, asker: Peer, revision: str) -> None:
    def bore(request: Any) -> str:
        """Asks at length."""
        return str(request.mcp.elicit("Your name? " * 100_000, NAME).action)

    declare(declared, bore)
    said = call(asker, "bore", revision, accept(name="Ada"))
    assert said.asked == []
    assert said.answer["error"]["data"]["reason"] == "LIMIT_EXCEEDED"
    assert "MAX_RESULT_BYTES" in said.answer["error"]["message"]


def test_a_resource_whose_client_will_not_answer(
    declared: Declared, asker: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    declared.resource("poem://mine", lambda request: request.mcp.sample("A poem, please.", max_tokens=100).text)
    refusal = {"error": {"code": -1, "message": "not now"}}

    error = talk(asker, "2025-11-25", "resources/read", {"uri": "poem://mine"}, lambda *_: refusal).answer["error"]
    assert error["data"]["reason"] == "RESOURCE_REFUSED"
    assert error["message"] == "The client did not answer sampling/createMessage: not now"

    said = talk(asker, MODERN, "resources/read", {"uri": "poem://mine"}, answerer)
    assert said.answer["result"]["contents"][0]["text"] == "Roses."
    assert caplog.records == []


@pytest.fixture
def composer(declared: Declared, asker: Peer) -> Peer:
    """A client whose model is asked with features that came late to the protocol."""

    def compose(request: Any, kind: str) -> str:
        """Lets the client's model write."""
        text = {"type": "text", "text": "Compose."}
        audio = {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}
        messages = {
            "audio": [{"role": "user", "content": audio}],
            "blocks": [{"role": "user", "content": [text, {"type": "text", "text": "In verse."}]}],
            "tools": [{"role": "user", "content": text}],
        }[kind]
        tools = {"tools": [{"name": "rhyme", "inputSchema": {"type": "object"}}]} if kind == "tools" else {}
        return str(request.mcp.sample(messages, max_tokens=100, **tools).text)

    declare(declared, compose)
    return asker


def poet(method: str, params: Message) -> Message:
    return {"role": "assistant", "content": {"type": "text", "text": "Roses."}, "model": "m", "stopReason": "end"}


@pytest.mark.every_case
@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("kind", "since"), [("audio", "2025-03-26"), ("tools", "2025-11-25"), ("blocks", "")])
def test_a_client_s_model_gets_content_of_its_revision(composer: Peer, revision: str, kind: str, since: str) -> None:
    said = call(composer, "compose", revision, poet, kind=kind)
    if revision < since:
        assert said.asked == []
        assert said.answer["result"]["isError"] is True
        return
    assert said.text == "Roses."
    [(_, params)] = said.asked
    is_whole = kind != "blocks" or revision >= "2025-11-25"
    assert len(params["messages"]) == (1 if is_whole else 2)
