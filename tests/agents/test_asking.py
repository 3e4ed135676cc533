"""What the checker of the questions finds wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.agents.asking import Outcome, Part, ask, faults_of, same
from tests.agents.facts import Facts
from tests.agents.steps import Question, Read, aggregate, find
from tests.support.asking import DirectPeer
from tests.support.data import Users

NO_FACTS = Facts([], {}, {}, {}, {})
COUNT = Question("How many?", (aggregate("flight"),), lambda _: [[12]], max_bytes=100)
MISTAKE = replace(COUNT, calls=(aggregate("flights"), aggregate("flight")), max_bytes=1_000, says=("flights.flight",))


def asked(users: Users, question: Question) -> Outcome:
    return ask(question, DirectPeer(users.admin), NO_FACTS)


@pytest.mark.parametrize("question", [COUNT, MISTAKE])
def test_a_right_answer_has_no_fault(users: Users, flights: Any, question: Question) -> None:
    assert asked(users, question).fault == ""


def test_a_wrong_answer_is_a_fault(users: Users, flights: Any) -> None:
    outcome = asked(users, replace(COUNT, expected=lambda _: [[13]]))

    assert outcome.fault == "12, not 13"


def test_an_answer_with_other_rows_is_a_fault(users: Users, flights: Any) -> None:
    outcome = asked(users, replace(COUNT, expected=lambda _: []))

    assert outcome.fault == "1 values, not 0: [[12]]"


def test_a_refused_call_is_a_fault(users: Users, flights: Any) -> None:
    outcome = asked(users, replace(COUNT, calls=(find("flight", fields=["nonsense"]),)))

    assert outcome.fault.startswith("Unanswered: ")


def test_a_resource_that_is_not_there_is_a_fault(users: Users, flights: Any) -> None:
    outcome = asked(users, replace(COUNT, calls=(Read("db://flights/flight/999"),)))

    assert outcome.fault.startswith("AssertionError: ")


def test_a_long_answer_is_a_fault(users: Users, flights: Any) -> None:
    outcome = asked(users, replace(COUNT, max_bytes=10))

    assert outcome.fault == f"{outcome.bytes} bytes, of 10"


def test_a_mistake_that_is_answered_as_if_it_were_none_is_a_fault(users: Users, flights: Any) -> None:
    outcome = asked(users, replace(MISTAKE, calls=(aggregate("flight"), aggregate("flight"))))

    assert outcome.fault.startswith("the mistake is not answered with flights.flight: ")


def test_more_calls_and_bytes_than_a_part_may_take_are_faults() -> None:
    part = Part("both", [COUNT, COUNT], max_calls=1, max_bytes=150)
    outcome = Outcome(COUNT, 1, 100, 1.0, "")

    assert faults_of(part, [outcome, outcome]) == ["both: 2 calls, of 1.", "both: 200 bytes, of 150."]


@pytest.mark.parametrize(
    ("found", "expected", "are_same"),
    [
        ([[12.3457]], [[12.345678]], True),
        ([[12.346]], [[12.345678]], False),
        ([[None]], [[12.3]], False),
        ([["12"]], [[12]], False),
        ({1: 2.0}, {1: 2.00001}, True),
        ({1: 2.0}, {2: 2.0}, False),
    ],
)
def test_numbers_are_compared_at_four_digits(found: Any, expected: Any, are_same: bool) -> None:
    assert same(found, expected) is are_same
