"""A few flights, the demo's users, and their tokens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import Permission, User

from demo_project.flights.management.commands.demo import ACTIONS, create_users, switch_on_tools
from demo_project.flights.models import Airline, Airport, Flight, Plane
from mcp_django.models import AccessToken, Tool
from tests.support.restoring import once

START = datetime(2013, 1, 1, 10, tzinfo=UTC)


@dataclass
class Users:
    admin: User
    ops: User
    viewer: User


def make_users() -> Users:
    """The demo's users, and its tools switched on."""
    return once("users", _make_users)


def _make_users() -> Users:
    if Tool.objects.filter(site="mcp", name__in=ACTIONS).update(enabled=True) < len(ACTIONS):
        switch_on_tools(*ACTIONS)
    create_users()
    users = {user.username: user for user in User.objects.all()}
    return Users(users["admin"], users["ops"], users["viewer"])


def token_of(user: User, *scopes: str, **more: Any) -> str:
    """A new token of the user; all scopes, if none is named."""
    return AccessToken.objects.create_token(user=user, scopes=list(scopes or ("read", "actions")), **more)[1]


def make_staff(username: str, *permissions: str) -> User:
    """A member of staff with permissions, each ``app.codename``."""
    user = User.objects.create_user(username, password=username, is_staff=True)
    for permission in permissions:
        app, _, codename = permission.partition(".")
        user.user_permissions.add(Permission.objects.get(content_type__app_label=app, codename=codename))
    return user


def make_flights(count: int = 12) -> list[Flight]:
    """Flights that leave an hour apart, in turn from JFK, EWR and LGA."""
    return once(f"{count} flights", lambda: _make_flights(count))


def _make_flights(count: int = 12) -> list[Flight]:
    airlines = Airline.objects.bulk_create(
        Airline(carrier=code, name=name) for code, name in (("UA", "United"), ("AA", "American"))
    )
    made = Airport.objects.bulk_create(
        Airport(faa=code, name=code, latitude=40, longitude=-73, altitude=10, utc_offset=-5)
        for code in ("JFK", "EWR", "LGA", "IAH")
    )
    airports = {airport.faa: airport for airport in made}
    plane = Plane.objects.create(
        tailnum="N14228", type="Fixed wing multi engine", manufacturer="BOEING", model="737", engines=2, seats=149,
        engine="Turbo-fan",
    )  # fmt: skip
    return Flight.objects.bulk_create(
        Flight(
            id=number + 1, carrier=airlines[number % 2], number=1000 + number, tailnum="N14228" if number % 3 else "",
            plane=plane if number % 3 else None, origin=airports[("JFK", "EWR", "LGA")[number % 3]],
            destination=airports["IAH"], departs_at=START + timedelta(hours=number),
            departure_delay=None if number % 5 == 4 else number * 3 - 5, distance=1400 + number,
            status="cancelled" if number % 5 == 4 else "on_time", notes=f"note {number}",
        )
        for number in range(count)
    )  # fmt: skip


#: Rows that a test may begin with, by the fixture that gives them: their name, and what makes them.
OF_FIXTURES: dict[str, tuple[str, Callable[[], Any]]] = {
    "made_users": ("users", _make_users),
    "made_flights": ("12 flights", _make_flights),
}


def switch_on(*names: str) -> None:
    for name in names:
        Tool.objects.update_or_create(site="mcp", name=name, defaults={"enabled": True})
