"""What the tools of all of them do. For a project whose Django is set up."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import PermissionDenied

from bench.peers import TOKENS
from demo_project.flights.models import Flight

PERMISSION = "flights.view_flight"

_PATHS = (
    "id", "departs_at", "carrier", "number", "origin", "destination", "status", "departure_delay", "arrival_delay",
    "tailnum", "notes", "plane", "air_time", "distance",
)  # fmt: skip


def greeting(name: str) -> str:
    return f"Hello, {name}!"


def first_flights(limit: int) -> dict[str, Any]:
    rows = Flight.objects.order_by("departs_at", "id").values_list(*_PATHS)[:limit]
    return {"columns": list(_PATHS), "rows": [list(row) for row in rows]}


def check(user: Any) -> None:
    """Raises PermissionDenied."""
    if TOKENS and not user.has_perm(PERMISSION):
        raise PermissionDenied("You may not view flights.")
