"""People who approve changes by agents, and a change of a flight that waits for them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.contrib.auth.models import User
from django.utils import timezone

from demo_project.flights.models import Flight
from tests.bridge.writes.clicking import Browser
from tests.support.data import make_staff

if TYPE_CHECKING:
    from tests.bridge.writes.conftest import Writer

FLIGHT = "flights.flight"
APPROVER = ("mcp_django.approve_change", "flights.view_flight", "flights.change_flight", "flights.view_airport",
            "flights.view_airline", "flights.view_plane")  # fmt: skip
NOT_YOU = "You stand behind this change: your agent, your token or your account proposes it."
LONG_AGO = timezone.now() - timedelta(days=30)


def staff(name: str, *permissions: str, **more: Any) -> User:
    """A member of staff who may approve changes of flights, whose account is old."""
    made = make_staff(name, *(permissions or APPROVER))
    User.objects.filter(pk=made.pk).update(**{"date_joined": LONG_AGO, **more})
    return User.objects.get(pk=made.pk)


def propose(writer: Writer, notes: str = "fog", key: str = "1", **values: Any) -> str:
    """The number of a change that waits for other people."""
    found = writer.confirmed("update_record", model=FLIGHT, id=key, values={"notes": notes, **values})
    assert found["status"] == "pending", found
    return str(found["change"])


def digest_for(who: Any, key: str) -> str:
    """What the change is shown as, to whoever may approve it."""
    return Browser(who).digest(key)


def text_of(response: Any) -> str:
    return str(response.content.decode())


def notes_of(key: int = 1) -> str:
    return Flight.objects.get(pk=key).notes
