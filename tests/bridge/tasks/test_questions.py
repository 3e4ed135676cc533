"""Questions of a task, asked with tasks/get and answered with tasks/update, and questions before a task begins."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from mcp_django import Sampling
from mcp_django.models import Task, TaskQuestion
from tests.bridge.tasks.conftest import CONFIRM, NAME
from tests.support import tasks
from tests.support.peers import MODERN, Peer
from tests.support.talking import accept, call, talk
from tests.support.tasks import TASKS, text_of

YES = {"action": "accept", "content": {"confirm": True}}


def named(name: str) -> dict[str, Any]:
    return {"action": "accept", "content": {"name": name}}


@pytest.mark.every_database
@pytest.mark.http_and_duplex
def test_a_task_asks_and_goes_on(client: Peer) -> None:
    created = tasks.start(client, "delete", filename="a.txt")
    assert created["status"] == "input_required"
    assert "inputRequests" not in created

    asked = tasks.get(client, created)
    assert asked["inputRequests"] == {
        "sure": {"method": "elicitation/create", "params": {"message": "Delete a.txt?", "requestedSchema": CONFIRM}}
    }
    assert tasks.get(client, created)["inputRequests"] == asked["inputRequests"]
    tasks.update(client, created, sure=YES)

    assert text_of(tasks.get(client, created)) == "deleted a.txt"


def test_a_task_asks_by_a_worker(client: Peer, database: None) -> None:
    created = tasks.start(client, "delete", filename="a.txt")
    with tasks.working():
        tasks.wait(client, created, "input_required")
        tasks.update(client, created, sure={"action": "decline"})
        assert text_of(tasks.wait(client, created, "completed")) == "kept"


def test_two_questions_are_answered_one_after_the_other(client: Peer) -> None:
    created = tasks.start(client, "two")
    assert set(tasks.get(client, created)["inputRequests"]) == {"first", "second"}

    tasks.update(client, created, second=named("Bo"))
    assert set(tasks.get(client, created)["inputRequests"]) == {"first"}
    # Answers to answered questions and to unknown ones are acknowledged and ignored.
    tasks.update(client, created, **{"second": named("Eve"), "unknown-key": {"ignored": True}, "other": 7})
    assert set(tasks.get(client, created)["inputRequests"]) == {"first"}

    tasks.update(client, created, first=named("Ada"))
    assert text_of(tasks.get(client, created)) == "Ada and Bo"
    tasks.update(client, created, first=named("late"))
    assert text_of(tasks.get(client, created)) == "Ada and Bo"


def test_questions_before_the_task_are_asked_in_the_call(client: Peer) -> None:
    said = talk(client, MODERN, "tools/call", {"name": "later", "arguments": {}}, accept(name="Ada"))
    created = said.answer["result"]
    assert [params["message"] for _, params in said.asked] == ["Your name?"]
    assert created["resultType"] == "task"
    assert "requestState" not in created

    assert set(tasks.get(client, created)["inputRequests"]) == {"colour"}
    tasks.update(client, created, colour=named("red"))
    assert text_of(tasks.get(client, created)) == "Ada wears red"


def test_without_tasks_all_questions_are_asked_in_the_call(client: Peer) -> None:
    client.capabilities = {"elicitation": {}}
    assert call(client, "later", MODERN, accept(name="Ada")).text == "Ada wears Ada"


def test_an_answer_that_is_none_is_refused_and_its_question_stays_open(client: Peer) -> None:
    created = tasks.start(client, "two")
    for wrong in (12345, None, {}, {"action": "perhaps"}, [], "yes", {"action": "accept"},
                  {"action": "accept", "content": {"name": 7}}):  # fmt: skip
        params = {"taskId": created["taskId"], "inputResponses": {"first": wrong, "second": named("Bo")}}
        error = client.error(MODERN, "tasks/update", params)
        assert error["code"] == -32602, wrong
    assert set(tasks.get(client, created)["inputRequests"]) == {"first", "second"}


def test_a_key_is_never_used_for_another_question(client: Peer, add: Any) -> None:
    def haggle(request: Any) -> str:
        """Asks under one key until it is content."""
        offer = 1
        while True:
            answer = request.mcp.elicit(f"Is {offer} enough?", NAME, key="offer").content["name"]
            if answer == "yes":
                return f"sold for {offer}"
            offer = int(answer)

    add(haggle)
    created = tasks.start(client, "haggle")
    assert set(tasks.get(client, created)["inputRequests"]) == {"offer"}
    tasks.update(client, created, offer=named("2"))
    [key] = tasks.get(client, created)["inputRequests"]
    assert key == "offer-2"
    tasks.update(client, created, offer=named("yes"))
    assert tasks.get(client, created)["status"] == "input_required"


def test_a_question_is_asked_again_if_only_its_model_refuses_the_answer(client: Peer, add: Any) -> None:
    class Even(BaseModel):
        number: int

        @field_validator("number")
        @classmethod
        def _is_even(cls, value: int) -> int:
            if value % 2:
                raise ValueError("must be even")
            return value

    def halve(request: Any) -> str:
        """Halves."""
        return str(request.mcp.elicit("Which number?", Even, key="n").content.number // 2)

    add(halve)
    created = tasks.start(client, "halve")
    tasks.update(client, created, n={"action": "accept", "content": {"number": 3}})
    assert set(tasks.get(client, created)["inputRequests"]) == {"n-2"}
    tasks.update(client, created, **{"n-2": {"action": "accept", "content": {"number": 4}}})
    assert text_of(tasks.get(client, created)) == "2"


def test_a_question_that_the_client_cannot_be_asked_fails_the_task(client: Peer) -> None:
    client.capabilities = TASKS
    failed = tasks.get(client, tasks.start(client, "delete", filename="a"))
    assert failed["status"] == "failed"
    assert failed["error"]["code"] == -32021
    assert failed["error"]["data"]["requiredCapabilities"] == {"elicitation": {}}


def test_sampling_and_roots_in_a_task(client: Peer, add: Any) -> None:
    def poem(request: Any) -> str:
        """Lets the client's model write."""
        found = request.mcp.ask({"poem": Sampling("A poem.", 100, "Be brief.", {"temperature": 0.5})})["poem"]
        return f"{found.text} in {request.mcp.list_roots(key='where')[0].uri}"

    add(poem)
    client.capabilities = {**TASKS, "sampling": {}, "roots": {}}
    created = tasks.start(client, "poem")
    assert tasks.get(client, created)["inputRequests"]["poem"]["params"] == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "A poem."}}],
        "maxTokens": 100, "systemPrompt": "Be brief.", "temperature": 0.5,
    }  # fmt: skip
    answer = {"role": "assistant", "content": {"type": "text", "text": "Roses"}, "model": "m"}
    assert client.error(MODERN, "tasks/update", {
        "taskId": created["taskId"], "inputResponses": {"poem": {**answer, "content": {"type": "smell"}}}
    })["code"] == -32602  # fmt: skip
    tasks.update(client, created, poem=answer)
    assert tasks.get(client, created)["inputRequests"] == {"where": {"method": "roots/list"}}
    tasks.update(client, created, where={"roots": [{"uri": "file:///home"}]})
    assert text_of(tasks.get(client, created)) == "Roses in file:///home"


def test_a_tool_that_asks_without_end_fails(client: Peer, add: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def curious(request: Any) -> str:
        """Asks and asks."""
        for number in range(100):
            request.mcp.elicit(f"{number}?", NAME)
        return "content"

    add(curious)
    monkeypatch.setattr("mcp_django.exchange.questions.MAX_ROUNDS", 3)
    created = tasks.start(client, "curious")
    for _ in range(3):
        [key] = tasks.get(client, created)["inputRequests"]
        tasks.update(client, created, **{key: named("a")})
    failed = tasks.get(client, created)
    assert failed["status"] == "failed"
    assert failed["statusMessage"] == "More than 3 rounds of questions."


@pytest.mark.every_database
def test_answers_are_deleted_with_their_task(client: Peer) -> None:
    tasks.start(client, "two")
    assert TaskQuestion.objects.count() == 2
    Task.objects.all().delete()
    assert TaskQuestion.objects.count() == 0
