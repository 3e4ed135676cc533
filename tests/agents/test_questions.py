"""The questions of ``make agents``: that they are all there, and that they are answered over a small year."""

from __future__ import annotations

from functools import cache

import pytest
from django.db import connection

from tests.agents.asking import PARTS, ask, faults_of
from tests.agents.facts import Facts
from tests.agents.misleading import MISLEADING
from tests.agents.mistakes import MISTAKES
from tests.agents.sample import load_sample
from tests.support.data import Users, switch_on, token_of
from tests.support.peers import Peers

pytestmark = pytest.mark.every_database

#: MariaDB compares texts without regard to case, so that the right answer comes at once.
NO_MISTAKES = {
    "mysql": ("A key in small letters", *(question.text for question in MISLEADING if "BOEING" in question.says))
}


def test_there_are_all_questions_mistakes_and_rows() -> None:
    assert [len(part.questions) for part in PARTS] == [28, 9, 24, 1]


def test_the_calls_are_within_their_bounds() -> None:
    calls = {part.name: sum(len(question.calls) for question in part.questions) for part in PARTS}

    assert all(calls[part.name] <= part.max_calls for part in PARTS), calls


def test_the_bytes_of_each_question_are_within_the_bound_of_all() -> None:
    sizes = {part.name: sum(question.max_bytes for question in part.questions) for part in PARTS}

    assert all(sizes[part.name] <= part.max_bytes for part in PARTS), sizes


def test_each_mistake_is_one_wrong_call_and_the_right_one() -> None:
    mistakes = [*MISLEADING, *MISTAKES]

    # Of some the first answer is right, and says more.
    assert all(mistake.says and len(mistake.calls) <= 2 for mistake in mistakes)


@pytest.mark.slow
def test_the_answers_over_a_small_year_are_right_and_short(users: Users, peers: Peers) -> None:
    load_sample()
    facts = Facts.of_database()
    switch_on("update_record", "delete_record")
    peer_of = cache(lambda name: peers(token_of(getattr(users, name), "read", "actions", "write")))

    faults = [
        fault
        for part in PARTS
        for fault in faults_of(
            part,
            [
                ask(question, peer_of(question.user), facts)
                for question in part.questions
                if question.text not in NO_MISTAKES.get(connection.vendor, ())
            ],
        )
    ]

    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_no_question_of_the_small_year_is_about_nothing(users: Users) -> None:
    load_sample()
    facts = Facts.of_database()

    answers = {question.text: question.expected(facts) for part in PARTS for question in part.questions}

    assert [text for text, answer in answers.items() if answer in ([], [[0]], {})] == []
