"""The answers to a handler's questions, which its next run is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import ValidationError

from mcp_django.exceptions import MissingCapability, ToolError, field_error
from mcp_django.exchange.questions import Elicited, InputRequired, Question, declares
from mcp_django.protocol.errors import InvalidParams
from mcp_django.protocol.types import JSON


@dataclass(slots=True, eq=False)
class Answers:
    """The answers of one request so far, over all the runs of its handler.

    ``vouched`` answers belong to questions that were asked; each stands beside the digest of its question. ``claimed``
    answers came with a first request, and count only for questions that are not ``trusted``.
    """

    vouched: dict[str, Sequence[Any]] = field(default_factory=dict)
    claimed: dict[str, Any] = field(default_factory=dict)
    #: Whether an answer that may be used once is used now.
    redeemed: bool = False
    _counted: int = 0

    def begin(self) -> None:
        """Count the questions of the next run from one."""
        self._counted = 0

    def next_key(self, kind: str) -> str:
        """A key for a question without one. The n-th question of a run has the key of the n-th question of the next."""
        self._counted += 1
        return f"{kind}-{self._counted}"

    def add(self, questions: Mapping[str, Question], given: Mapping[str, Any]) -> None:
        """Keep the answers to questions that were asked. Other keys are ignored."""
        for key, question in questions.items():
            if key in given:
                self.vouched[key] = [question.digest(), given[key]]

    def get(self, questions: Mapping[str, Question], capabilities: JSON) -> dict[str, Any]:
        """The answers. Raises InputRequired for those that are missing, MissingCapability, and InvalidParams."""
        missing: dict[str, Question] = {}
        found: dict[str, Any] = {}
        for key, question in questions.items():
            vouched = self.vouched.get(key)
            if vouched is not None and vouched[0] == question.digest():
                found[key] = parse_answer(key, question, vouched[1])
            elif not question.trusted and key in self.claimed:
                found[key] = parse_answer(key, question, self.claimed[key])
            else:
                missing[key] = question
        for question in missing.values():
            if not declares(capabilities, question.capability):
                raise MissingCapability(question.capability)
        if missing:
            raise InputRequired(missing)
        return found


def given_by(response: JSON | None) -> JSON:
    """The answer that a legacy client's response holds. ``response`` is None where none came."""
    if response is None:
        return {"error": {"message": "there was no answer in time"}}
    if "error" in response:
        return {"error": response["error"]}
    result: JSON = response["result"]
    return result


def parse_answer(key: str, question: Question, answer: Any) -> Any:
    """The answer as the handler gets it. Raises InvalidParams, and ToolError if the client refused to answer."""
    if isinstance(answer, dict) and "error" in answer and question.method != "elicitation/create":
        raise ToolError(f"The client did not answer {question.method}: {_error_text(answer['error'])}")
    if isinstance(answer, dict) and "error" in answer:
        return Elicited("cancel")
    try:
        return question.parse(answer)
    except InvalidParams:
        raise
    except ValidationError as error:
        detail = error.errors(include_url=False, include_context=False)[0]
        place = ".".join([f"inputResponses.{key}", *(str(part) for part in detail["loc"])])
        raise InvalidParams(
            f"The answer {key} is not one to {question.method}: {detail['msg']}.",
            [field_error(place, detail["msg"], detail["input"])],
        ) from None


def _error_text(error: Any) -> str:
    return str(error.get("message", ""))[:200] if isinstance(error, dict) else ""
