"""A change by an agent that may write for a while waits no longer than that."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from django.utils import timezone

from demo_project.flights.models import Flight
from mcp_django.bridge.changes import change_rows
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.models import Change
from tests.access.lent import Clock, lent_to, stopped
from tests.bridge.writes.clicking import Browser, proposed, said
from tests.support.data import Users, make_staff, switch_on, token_of
from tests.support.peers import Peer, Peers

pytestmark = pytest.mark.usefixtures("transactional_db")

SECONDS = 3_600


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return stopped(monkeypatch)


@pytest.fixture
def clerk(users: Users, flights: Any) -> Any:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return make_staff("clerk", "flights.view_flight", "flights.change_flight", "flights.delete_flight",
                      "flights.view_disruption", "flights.delete_disruption", "mcp_django.view_change")  # fmt: skip


def waiting(peer: Peer) -> Any:
    return proposed(peer, "delete_record", model="flights.flight", ids=["3"])


def test_a_change_waits_until_the_right_ends_and_its_agent_is_told_so(clerk: Any, peers: Peers, clock: Clock) -> None:
    plain = token_of(clerk, "read")
    lent_to(plain, "write", seconds=SECONDS)
    peer = peers(plain)

    answer = waiting(peer)

    assert answer["status"] == "pending"
    assert datetime.fromisoformat(answer["expires_at"]) == clock.now + timedelta(seconds=SECONDS)
    browser = Browser(clerk)
    digest = browser.digest(answer["change"])
    clock.move(SECONDS)
    assert said(browser.decide(answer["change"], "apply", digest=digest)) != ["The change was made."]
    assert change_rows.state_of(Change.objects.get()) == Change.State.EXPIRED
    assert Flight.objects.filter(pk=3).exists()


@pytest.mark.parametrize("own", [("read", "write"), ("read", "model:flights.flight:write")])
def test_what_the_agent_may_write_for_good_waits_as_long_as_ever(
    clerk: Any, peers: Peers, clock: Clock, own: tuple[str, ...]
) -> None:
    plain = token_of(clerk, *own)
    lent_to(plain, "write", seconds=SECONDS)

    waiting(peers(plain))

    assert Change.objects.get().expires_at > timezone.now() + timedelta(seconds=SECONDS)
