"""One small change of each kind that other people approve: how it is proposed, and how often it was made."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

from django.contrib.admin.models import CHANGE, LogEntry
from django.db.models import F
from django.http import HttpRequest
from django.utils import timezone

from demo_project.flights.admin import FlightAdmin
from demo_project.flights.models import Disruption, Flight
from mcp_django import action, site
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import Change
from tests.bridge.writes.approving import FLIGHT
from tests.support.data import switch_on
from tests.support.declared import Declared
from tests.support.peers import Message, Peer

LENGTHEN = "flights_flight_mark_cancelled"


@dataclass(frozen=True)
class Kind:
    """A kind of change. What each shows of its flights, no other kind changes."""

    name: str
    tool: str
    arguments: Mapping[str, Any]
    #: How often it was made.
    times: Callable[[], int]
    #: Whether it is written in the same transaction as what is kept of it.
    is_one_transaction: bool = True
    #: What the agent has done before.
    prepare: Callable[[Peer], None] = lambda writer: None

    def confirmed(self, writer: Peer) -> Message:
        """The call that confirms it."""
        self.prepare(writer)
        shown = writer.call(self.tool, **self.arguments)["content"][0]["text"]
        [confirm] = re.findall(r'"confirm": ?"([^"]+)"', shown)
        return {**self.arguments, "confirm": confirm}

    def propose(self, writer: Peer) -> str:
        """The number of a change that waits for other people."""
        result = writer.call(self.tool, **self.confirmed(writer))
        assert result["structuredContent"]["status"] == "pending", result
        return str(result["structuredContent"]["change"])


def _logged(*keys: str, how: str = ", change ") -> int:
    """How often an agent has written each of these flights."""
    found = LogEntry.objects.filter(action_flag=CHANGE, change_message__contains=how)
    [times] = {found.filter(object_id=key).count() for key in keys}
    return times


def _flown() -> int:
    [longer] = {
        distance - 1399 - key for key, distance in Flight.objects.filter(pk__in=[1, 4]).values_list("pk", "distance")
    }
    return longer


def _delay(writer: Peer) -> None:
    """Two flights are delayed, which needed nobody then."""
    consent: Any = site.models[FLIGHT].consent
    needed = consent.pop("update")
    about = {"model": FLIGHT, "ids": ["2", "3"], "values": {"departure_delay": 77}}
    shown = writer.call("update_records", **about)
    assert not shown["isError"], shown
    confirm = shown["structuredContent"]["confirm"]
    done = writer.call("update_records", **about, confirm=confirm)["structuredContent"]
    consent["update"] = needed
    assert done["status"] == "applied", done


KINDS = {
    one.name: one
    for one in (
        Kind(
            "record", "update_record", {"model": FLIGHT, "id": "1", "values": {"notes": "fog"}}, partial(_logged, "1")
        ),
        Kind(
            "records",
            "update_records",
            {"model": FLIGHT, "ids": ["4", "7"], "values": {"notes": "fog"}},
            partial(_logged, "4", "7"),
        ),
        Kind("action", LENGTHEN, {"ids": ["1", "4"]}, _flown),
        Kind(
            "undo",
            "undo_change",
            {"since": "2020-01-01T00:00:00Z"},
            partial(_logged, "2", how=", undoing "),
            prepare=_delay,
        ),
        Kind("call", "refund", {"flight": 10, "amount": 30.0}, Disruption.objects.count, is_one_transaction=False),
    )
}


def declare(declared: Declared, consent: Any = "approve", hidden_from: str = "") -> None:
    """All kinds, each with this consent. What an action and a function write tells how often they were run."""

    class Admin(FlightAdmin):
        def get_queryset(self, request: HttpRequest) -> Any:
            rows = super().get_queryset(request)
            return rows.none() if request.user.get_username() == hidden_from else rows

        @action(consent=consent)
        def mark_cancelled(self, request: HttpRequest, queryset: Any) -> None:
            queryset.update(distance=F("distance") + 1)

        mark_cancelled.allowed_permissions = ("change",)  # type: ignore[attr-defined]

    def preview(request: MCPRequest, flight: Flight, amount: float) -> Mapping[str, Any]:
        return {"notes": flight.notes, "amount": amount}

    def refund(request: MCPRequest, flight: Flight, amount: float) -> str:
        """Pay back."""
        Disruption.objects.create(flight=flight, kind="other", note=f"{amount}")
        return "Paid."

    declared.admin(Flight, Admin)
    declared.model(Flight, consent={"update": consent})
    declared.tool(refund, consent=consent, permission="flights.change_flight", preview=preview)


def switched_on() -> None:
    switch_on(LENGTHEN, *(tool.name for tool in WRITE_TOOLS))


def move() -> None:
    """Somebody else writes a row that the change is about, of whatever kind it is."""
    Flight.objects.filter(pk__in=[1, 4, 10]).update(notes="since then", number=4444, origin_id="LGA")
    Flight.objects.filter(pk=3).update(departure_delay=99)


def end_lease(key: str) -> None:
    """Nobody waits any more for the run that has the change."""
    Change.objects.filter(pk=key, state="writing").update(lease_until=timezone.now() - timedelta(seconds=1))
