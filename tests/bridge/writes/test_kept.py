"""What is kept of a change, for how long, and what outlives whom."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.utils import timezone

from demo_project.flights.models import Airline, Flight
from mcp_django.models import AccessToken, Change
from tests.bridge.writes.conftest import Writer
from tests.support.data import make_flights, make_staff, token_of
from tests.support.peers import Peers


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """A request of a client is answered in another thread."""


def previewed(agent: Any, flight: Flight) -> dict[str, Any]:
    """The arguments of a change with its token."""
    about = {"model": "flights.flight", "id": str(flight.pk), "values": {"notes": "fog"}}
    shown = agent.call("update_record", **about)["structuredContent"]
    return {**about, "confirm": shown["confirm"]}


def test_the_names_of_user_and_token_outlive_both(root: Writer, peers: Peers) -> None:
    flight = make_flights(1)[0]
    clerk = make_staff("clerk", "flights.view_flight", "flights.change_flight")
    agent = peers(token_of(clerk, "read", "write", name="laptop"))

    agent.call("update_record", **previewed(agent, flight))
    AccessToken.objects.filter(user=clerk).delete()
    clerk.delete()

    [kept] = Change.objects.values("user", "user_name", "token_name", "state", "model", "keys")
    assert kept == {
        "user": None, "user_name": "clerk", "token_name": "laptop", "state": "applied", "model": "flights.flight",
        "keys": f'["{flight.pk}"]',
    }  # fmt: skip


def test_values_are_kept_no_longer_than_they_are_needed(root: Writer) -> None:
    flight = make_flights(1)[0]
    root.call("update_record", **previewed(root, flight))
    answered = Change.objects.get().result
    Change.objects.update(expires_at=timezone.now() - timedelta(seconds=1))

    root.confirmed("create_record", model="flights.airline", values={"carrier": "ZZ", "name": "Zed"})

    old, new = Change.objects.order_by("created_at")
    assert "fog" in answered
    assert (old.arguments, old.result, old.state) == ("", "", "applied")
    assert (new.arguments, bool(new.result)) == ("", True)


def test_changes_are_deleted_with_the_lines_of_the_trail(root: Writer, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "AUDIT_DAYS": 30}
    for code in ("A1", "A2"):
        root.confirmed("create_record", model="flights.airline", values={"carrier": code, "name": code})
    oldest = Change.objects.order_by("created_at")[0]
    Change.objects.filter(pk=oldest.pk).update(created_at=timezone.now() - timedelta(days=31))
    out = StringIO()

    call_command("mcp_audit", "--clear", stdout=out)

    assert out.getvalue().endswith("changes by agents: 1.\n")
    assert Change.objects.count() == 1
    assert Airline.objects.count() == 2
