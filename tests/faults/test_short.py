"""A short form of ``make faults``, with few subscribers and brief outages."""

from __future__ import annotations

import asyncio

import pytest

from tests.conftest import need
from tests.faults.__main__ import attempt_all
from tests.faults.services import postgresql_programs, redis_program
from tests.faults.stage import POSTGRESQL, REDIS, Size

pytestmark = pytest.mark.more("breaks services of its own while clients listen")

SHORT = Size(subscribers=12, seconds=1, pause=3, pairs=2, users=1, watched=12, churn=0)
#: One of each kind; ``make faults`` tries everything over each bus.
TRIALS = [
    ("server", REDIS),
    ("broker", REDIS),
    ("database", POSTGRESQL),
]


@pytest.mark.timeout(900)
def test_whatever_breaks_everybody_is_told_of_what_was_committed_and_of_nothing_else(
    capsys: pytest.CaptureFixture[str],
) -> None:
    need(postgresql_programs() is not None, "PostgreSQL's initdb")
    need(redis_program() is not None, "redis-server")

    outcomes = asyncio.run(attempt_all(SHORT, TRIALS))

    assert [(outcome.name, outcome.bus) for outcome in outcomes] == TRIALS
    assert [violation for outcome in outcomes for violation in outcome.violations] == [], capsys.readouterr().out
