"""Two people, or a person and an agent, who do something to a change at the same moment: it is made once, or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connections

from demo_project.flights.models import Flight
from mcp_django import Approval
from mcp_django.models import Change
from tests.bridge.writes.approving import staff
from tests.bridge.writes.clicking import Browser, state_of
from tests.bridge.writes.conftest import Writer
from tests.bridge.writes.kinds import KINDS, Kind, declare, switched_on
from tests.support.data import Users
from tests.support.declared import Declared
from tests.support.peers import Message

pytestmark = [pytest.mark.every_database, pytest.mark.usefixtures("transactional_db", "flights")]

#: Before a release, and in the lanes before.
ROUNDS, FEW_ROUNDS = 100, 2


@pytest.fixture
def rounds(pytestconfig: pytest.Config) -> int:
    return ROUNDS if pytestconfig.getoption("lane") == "release" else FEW_ROUNDS


@dataclass
class Round:
    """A change that waits, and who may do something to it."""

    kind: Kind
    agent: Writer
    confirmed: Message
    key: str
    #: Two who may approve, and the user of the agent.
    bob: Browser
    eve: Browser
    own: Browser
    #: What the page shows, as a click brings it back.
    digest: str

    def approve(self, browser: Browser) -> Callable[[], Any]:
        return lambda: browser.decide(self.key, "approve", digest=self.digest)

    def apply(self) -> Any:
        return self.own.decide(self.key, "apply", digest=self.digest)

    def call(self) -> Any:
        return self.agent.call(self.kind.tool, **self.confirmed)

    def reject(self) -> Any:
        return self.eve.decide(self.key, "reject", note="No.")

    def withdraw(self) -> Any:
        return self.own.decide(self.key, "reject", note="No.")

    def move(self) -> Any:
        return Flight.objects.filter(pk=1).update(notes="since then")


#: What is done at once → the consent that is needed, both of it, and the states that it may end with.
Race = tuple[Any, Callable[[Round], tuple[Callable[[], Any], Callable[[], Any]]], Mapping[str, int]]
MADE = {"applied": 1}
RACES: dict[str, Race] = {
    "two people who approve, of whom one is needed": (
        Approval(), lambda one: (one.approve(one.bob), one.approve(one.eve)), MADE,
    ),
    "two people who approve, who are both needed": (
        Approval(count=2), lambda one: (one.approve(one.bob), one.approve(one.eve)), MADE,
    ),
    "two clicks of one person who approves": (
        Approval(), lambda one: (one.approve(one.bob), one.approve(one.bob)), MADE,
    ),
    "two clicks of one person where two are needed": (
        Approval(count=2), lambda one: (one.approve(one.bob), one.approve(one.bob)), {"waiting": 0},
    ),
    "two clicks of its user": ("ask", lambda one: (one.apply, one.apply), MADE),
    "a click of its user beside the call of the agent": ("ask", lambda one: (one.apply, one.call), MADE),
    "a vote beside the call of the agent": (Approval(), lambda one: (one.approve(one.bob), one.call), MADE),
    "a vote beside a rejection": (
        Approval(), lambda one: (one.approve(one.bob), one.reject), {"applied": 1, "rejected": 0},
    ),
    "a vote beside a withdrawal": (
        Approval(), lambda one: (one.approve(one.bob), one.withdraw), {"applied": 1, "withdrawn": 0},
    ),
    "a vote beside a move of the record": (
        Approval(), lambda one: (one.approve(one.bob), one.move), {"applied": 1, "waiting": 0},
    ),
}  # fmt: skip


def at_once(*tasks: Callable[[], Any]) -> None:
    """Do all at the same moment, each with connections of its own. Raises what one of them raises."""
    barrier = Barrier(len(tasks))

    def run(task: Callable[[], Any]) -> None:
        try:
            barrier.wait(60)
            task()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(len(tasks)) as pool:
        for one in [pool.submit(run, task) for task in tasks]:
            one.result(120)


# A hundred rounds take minutes.
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("race", RACES)
@pytest.mark.parametrize("kind", [KINDS["record"], KINDS["call"]], ids=["record", "call"])
def test_it_is_made_once_or_not_at_all(
    kind: Kind, race: str, users: Users, bob: User, declared: Declared, rounds: int
) -> None:
    consent, both, ends = RACES[race]
    declare(declared, consent)
    switched_on()
    agent, eve = Writer(users.admin), staff("eve")
    browsers = [Browser(one) for one in (bob, eve, users.admin)]

    for _ in range(rounds):
        Flight.objects.filter(pk=1).update(notes="note 0")
        before, confirmed = kind.times(), kind.confirmed(agent)
        key = agent.ask(kind.tool, **confirmed)["change"]
        looks = browsers[2] if consent == "ask" else browsers[0]
        one = Round(kind, agent, confirmed, key, *browsers, digest=looks.digest(key))
        at_once(*both(one))

        state, times = state_of(key), kind.times() - before
        assert state in ends and times == ends[state], (race, state, times)
        if "move" in race and kind.name == "record":
            # A record that was made before the move has its value, and one after it is looked at again: none is lost.
            assert Flight.objects.get(pk=1).notes == "since then"
        Change.objects.filter(pk=key, state="waiting").delete()
