"""Pauses, as the console and other processes make them."""

from __future__ import annotations

from typing import Any

from mcp_django.models import AccessToken, Restriction

WHY = "An incident: look at the bookings."
#: What an agent reads, whatever is paused.
LATER = "Try again in a few minutes; nobody has said when the pause ends."
SAID = f"All agents are paused: {WHY} {LATER}"


def pause(kind: str = "all", name: Any = "", *, silently: bool = False) -> None:
    """Pause somebody, also as another process without a bus would: ``silently``, so that no signal tells of it."""
    made = Restriction(kind=kind, name=str(name), reason=WHY, by="root")
    if silently:
        Restriction.objects.bulk_create([made])
    else:
        made.save()


def resume() -> None:
    Restriction.objects.all().delete()


def line_of(token: str) -> str:
    """How a pause names a token."""
    from mcp_django.models import digest

    return str(AccessToken.objects.get(hash=digest(token)).line)
