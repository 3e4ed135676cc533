"""Asks the questions as a model would, and holds what it reads against the facts and the bounds."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.agents.facts import CHANGED, Facts
from tests.agents.misleading import MISLEADING
from tests.agents.mistakes import MISTAKES
from tests.agents.questions import QUESTIONS, ROWS
from tests.agents.steps import Answer, Question, Unanswered
from tests.support.peers import Peer

#: Averages are rounded to four digits after the point.
_NEAR = 1e-4
#: Characters of an answer that is wrong, or of an error.
_SHOWN = 200


@dataclass(frozen=True)
class Part:
    """Questions with bounds on what all of them cost together."""

    name: str
    questions: Sequence[Question]
    max_calls: int
    max_bytes: int


PARTS = (
    # In at most 1.3 calls on the average.
    Part("questions", QUESTIONS, max_calls=int(1.3 * len(QUESTIONS)), max_bytes=50_000),
    Part("answers that would mislead", MISLEADING, max_calls=2 * len(MISLEADING), max_bytes=10_000),
    Part("mistakes", MISTAKES, max_calls=2 * len(MISTAKES), max_bytes=40_000),
    Part("two thousand rows", ROWS, max_calls=2, max_bytes=120_000),
)


@dataclass(frozen=True)
class Outcome:
    """What came of a question."""

    question: Question
    calls: int
    bytes: int
    ms: float
    #: Empty, if the answer is right and within its bounds.
    fault: str


def ask(question: Question, peer: Peer, facts: Facts) -> Outcome:
    """Make the calls of a question. The flight that they change is put back."""
    answers: list[Answer] = []
    calls, began = 0, time.perf_counter()
    try:
        for step in question.calls:
            calls += 1
            answers.append(step.take(peer, answers))
        ms = 1_000 * (time.perf_counter() - began)
        fault = _fault(question, answers, facts)
    except (Unanswered, AssertionError, LookupError, TypeError, ValueError, TimeoutError) as error:
        # An error that peers do not expect, or an answer that neither the next call nor the reading can use.
        ms = 1_000 * (time.perf_counter() - began)
        fault = f"{type(error).__name__}: {error}"[:_SHOWN]
    finally:
        put_back()
    return Outcome(question, calls, sum(answer.size for answer in answers), ms, fault)


def put_back() -> None:
    """Give the flight that questions change the values that it was published with."""
    from demo_project.flights.models import Flight

    Flight.objects.filter(pk=CHANGED).update(status=Flight.Status.ON_TIME, notes="")


def _fault(question: Question, answers: Sequence[Answer], facts: Facts) -> str:
    """What is wrong with the answers, or nothing. Raises Unanswered, LookupError, TypeError and ValueError."""
    for name in question.says:
        if not re.search(rf"\b{re.escape(name)}\b", answers[0].advice):
            return f"the mistake is not answered with {name}: {answers[0].text}"[:_SHOWN]
    found, expected = question.read(answers), question.expected(facts)
    if not same(found, expected):
        return _difference(found, expected)
    size = sum(answer.size for answer in answers)
    return f"{size:,} bytes, of {question.max_bytes:,}" if size > question.max_bytes else ""


def same(found: Any, expected: Any) -> bool:
    """Whether values are equal, and numbers as good as equal."""
    if isinstance(expected, Mapping):
        return found.keys() == expected.keys() and all(same(found[key], expected[key]) for key in expected)
    if isinstance(expected, list):
        return len(found) == len(expected) and all(map(same, found, expected))
    if isinstance(expected, float):
        return isinstance(found, (int, float)) and math.isclose(found, expected, abs_tol=_NEAR)
    return bool(found == expected)


def _difference(found: Any, expected: Any) -> str:
    """Where two values differ first."""
    if isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            return f"{len(found)} values, not {len(expected)}: {found}"[:_SHOWN]
        return next(_difference(a, b) for a, b in zip(found, expected, strict=True) if not same(a, b))
    return f"{found!r}, not {expected!r}"[:_SHOWN]


def faults_of(part: Part, outcomes: Sequence[Outcome]) -> list[str]:
    """What is wrong with the answers and the bounds of a part, in a line each."""
    calls, size = sum(outcome.calls for outcome in outcomes), sum(outcome.bytes for outcome in outcomes)
    faults = [f"{outcome.question.text} {outcome.fault}" for outcome in outcomes if outcome.fault]
    if calls > part.max_calls:
        faults.append(f"{part.name}: {calls} calls, of {part.max_calls}.")
    if size > part.max_bytes:
        faults.append(f"{part.name}: {size:,} bytes, of {part.max_bytes:,}.")
    return faults
