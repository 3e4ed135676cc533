"""The answers of a task's client, for the run of its tool."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import from_json

from mcp_django.exceptions import ToolError
from mcp_django.exchange.answers import Answers, parse_answer
from mcp_django.exchange.questions import Elicitation, Question, Roots, Sampling, URLElicitation
from mcp_django.models import Task, TaskQuestion
from mcp_django.protocol.errors import InvalidParams
from mcp_django.protocol.types import JSON


class TaskAnswers(Answers):
    """Answers that came before the task was created, and answers to the task's own questions.

    If a later run finds that an answer does not fit its question, the question is asked again and the task does not
    fail: the client has seen its answer accepted, and the work so far should not be lost.
    """

    def __init__(self, task: Task, rows: Iterable[TaskQuestion]) -> None:
        before = from_json(task.answers)
        super().__init__(before["vouched"], before["claimed"])
        self._given: set[str] = set()
        for row in rows:
            if row.answer is not None:
                self.vouched[row.asked_as] = [row.digest, from_json(row.answer)]
                self._given.add(row.asked_as)

    def get(self, questions: Mapping[str, Question], capabilities: JSON) -> dict[str, Any]:
        for key in self._given & questions.keys():
            if not _is_answer(key, questions[key], self.vouched[key][1]):
                self._given.discard(key)
                del self.vouched[key]
        for key in self.claimed.keys() & questions.keys():
            if not _is_answer(key, questions[key], self.claimed[key]):
                del self.claimed[key]
        return super().get(questions, capabilities)


def _is_answer(key: str, question: Question, answer: Any) -> bool:
    try:
        parse_answer(key, question, answer)
    except InvalidParams:
        return False
    except ToolError:
        pass  # The client refused to answer. The tool gets that refusal.
    return True


def check_answer(key: str, request: JSON, answer: Any) -> None:
    """Raises InvalidParams for a value that does not answer the question, which is stored as its request."""
    with contextlib.suppress(ToolError):  # A refusal is an answer too.
        parse_answer(key, question_of(request), answer)


def question_of(request: JSON) -> Question:
    """The question of a stored request. A form that was declared as a pydantic model comes back as its JSON Schema."""
    method, params = request["method"], dict(request.get("params", {}))
    if method == "roots/list":
        return Roots()
    if method == "sampling/createMessage":
        messages, max_tokens = params.pop("messages"), params.pop("maxTokens")
        return Sampling(messages, max_tokens, params.pop("systemPrompt", ""), params)
    if params.get("mode") == "url":
        return URLElicitation(params["message"], params["url"])
    return Elicitation(params["message"], params["requestedSchema"])
