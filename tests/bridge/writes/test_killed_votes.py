"""Processes that are killed while people approve a change: done or not done, never twice, never lost.

A function may have done anything when its process died, so nobody runs it again, and that is told.
"""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.core.management import call_command

from mcp_django import Approval
from mcp_django.models import Change, Decision
from tests.bridge.writes.approving import staff
from tests.bridge.writes.clicking import Browser, approve, state_of
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.killing import IN_ONE_TRANSACTION
from tests.bridge.writes.kinds import KINDS, Kind, declare, end_lease, switched_on
from tests.push.processes import ROOT, environment
from tests.support import forkserver
from tests.support.data import Users
from tests.support.declared import Declared

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("transactional_db")]

#: Where the process dies → what is left: its state, how often a function was run, and how often anything else was made.
LEFT: dict[str, tuple[str, int, int]] = {
    "between two votes": ("waiting", 0, 0),
    "before the claim": ("waiting", 0, 0),
    "after the claim": ("writing", 0, 0),
    "before the write": ("writing", 0, 0),
    "after the write": ("writing", 1, 0),
    "before the commit": ("writing", 1, 0),
    "after the commit": ("applied", 1, 1),
    "before the answer is stored": ("writing", 1, 0),
}
#: The state of a function, where it is another one: what is written down of it follows its commit.
LEFT_OF_FUNCTION = {"after the commit": "writing", "before the answer is stored": "applied"}
POSTGRESQL = settings.DATABASES["default"]["ENGINE"].rpartition(".")[2] == "postgresql"


@pytest.fixture
def agent(flights: Any, users: Users) -> Writer:
    switched_on()
    return Writer(users.admin)


@pytest.fixture
def people(users: Users) -> tuple[User, User]:
    return staff("bob"), staff("eve")


def count_of(point: str) -> int:
    return 2 if point == "between two votes" else 1


class Dying:
    """A process in which somebody approves a change of this kind, and which dies."""

    def __init__(self, kind: Kind, point: str, key: str, voter: User, log: Path) -> None:
        self.log = log
        called = [point, kind.is_one_transaction, count_of(point), voter.pk, key, Browser(voter).digest(key)]
        code = f"import django; django.setup()\nfrom tests.bridge.writes.killing import vote\nvote(*{called!r})"
        with log.open("wb") as output:
            self.process = forkserver.start(["-c", code], cwd=ROOT, env=environment(""), stdout=output, stderr=output)

    def wait(self) -> None:
        assert self.process.wait(forkserver.RUN_SECONDS) == -signal.SIGKILL, self.log.read_text()


def assert_left(kind: Kind, point: str, key: str, agent: Writer) -> None:
    state, of_function, otherwise = LEFT[point]
    if not kind.is_one_transaction:
        state = LEFT_OF_FUNCTION.get(point, state)
    assert (state_of(key), kind.times()) == (state, otherwise if kind.is_one_transaction else of_function), point
    assert agent.ask("get_change", change=key)["status"] == {"waiting": "pending"}.get(state, state)


def assert_goes_on(kind: Kind, point: str, key: str, agent: Writer, people: Sequence[User]) -> None:
    """After the lease: made once, whoever tries to make it and how often. A function is in doubt for good."""
    left, before = state_of(key), kind.times()
    is_in_doubt = left == "writing" and not kind.is_one_transaction
    end_lease(key)
    if point == "between two votes":
        call_command("mcp_due", verbosity=0)
        assert kind.times() == 0
        assert approve(people[1], key) == ["The change was made."]
    call_command("mcp_due", verbosity=0)
    if kind.name == "action" and left == "writing":
        # What it sent elsewhere before it died was not taken back, so a person says that it runs again.
        assert kind.times() == 0 and agent.ask("get_change", change=key)["status"] == "pending"
        assert approve(people[0], key) == ["The change was made."]

    assert agent.ask("get_change", change=key)["status"] == ("unknown" if is_in_doubt else "applied")
    assert kind.times() == (before if is_in_doubt else 1)
    for one in people:
        Browser(one).decide(key, "approve", digest=str(Decision.objects.filter(change=key)[0].digest))
    call_command("mcp_due", verbosity=0)
    assert kind.times() == (before if is_in_doubt else 1)
    assert state_of(key) == ("writing" if is_in_doubt else "applied")


@pytest.mark.skipif(not POSTGRESQL, reason="of PostgreSQL")
def test_after_a_kill_each_kind_is_made_once_or_its_end_is_told_as_unknown(
    agent: Writer, people: tuple[User, User], declared: Declared, tmp_path: Path
) -> None:
    """One point of each kind, in processes beside each other: an undo would be of what the others have made."""
    declare(declared, Approval())
    points = {"record": "before the commit", "records": "after the commit", "action": "after the write",
              "call": "after the write"}  # fmt: skip
    keys = {name: KINDS[name].propose(agent) for name in points}
    dying = [Dying(KINDS[name], points[name], keys[name], people[0], tmp_path / name) for name in keys]
    [one.wait() for one in dying]

    for name, key in keys.items():
        assert_left(KINDS[name], points[name], key, agent)
    for name, key in keys.items():
        assert_goes_on(KINDS[name], points[name], key, agent, people)


@pytest.mark.release("thirty processes, each of which dies")
@pytest.mark.parametrize("kind", KINDS.values(), ids=list(KINDS))
@pytest.mark.parametrize("point", IN_ONE_TRANSACTION)
def test_killed_anywhere(
    kind: Kind, point: str, agent: Writer, people: tuple[User, User], declared: Declared, tmp_path: Path
) -> None:
    declare(declared, Approval(count=count_of(point)))
    key = kind.propose(agent)
    Dying(kind, point, key, people[0], tmp_path / "log").wait()

    assert_left(kind, point, key, agent)
    assert_goes_on(kind, point, key, agent, people)


@pytest.mark.parametrize("kind", [KINDS["action"], KINDS["record"]], ids=["action", "record"])
def test_the_call_of_an_agent_runs_no_action_again_that_has_died(
    kind: Kind, agent: Writer, people: tuple[User, User], declared: Declared, tmp_path: Path
) -> None:
    """A person decides whether it is run again: what it sent elsewhere was not taken back. Records go on."""
    declare(declared, Approval())
    confirmed = kind.confirmed(agent)
    key = agent.ask(kind.tool, **confirmed)["change"]
    digest = Browser(people[0]).digest(key)
    # As a process leaves it that has recorded the vote and claimed the change.
    Decision.objects.create(
        change_id=key, user=people[0], user_name="bob", verdict="approve", digest=digest,
        at=Change.objects.get(pk=key).created_at,
    )  # fmt: skip
    Change.objects.filter(pk=key).update(state="writing", run="gone")
    Change.objects.filter(pk=key).update(lease_until=Change.objects.get(pk=key).created_at)

    result = agent.call(kind.tool, **confirmed)

    is_action = kind.name == "action"
    assert result.get("structuredContent", {}).get("status") == ("pending" if is_action else "applied"), result
    assert kind.times() == (0 if is_action else 1)
    if is_action:
        assert approve(people[0], key) == ["The change was made."] and kind.times() == 1
