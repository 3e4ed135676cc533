"""Messages from one process to another by way of the database: the bus tells of them, or the sweep finds them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.db import router
from django.utils import timezone

from mcp_django.db.clearing import clear_away
from mcp_django.events.transaction import note_control
from mcp_django.models import PostedMessage

#: Nobody holds the address of a message that was not taken by then.
_KEPT = timedelta(seconds=60)


def put(address: str, body: str = "") -> None:
    """Leave a message for whoever holds ``address``."""
    now = timezone.now()
    clear_away(PostedMessage.objects.filter(created_at__lte=now - _KEPT))
    PostedMessage.objects.create(address=address, body=body, created_at=now)
    note_control(router.db_for_write(PostedMessage), f"wake:{address}")


def waiting(address: str) -> int:
    """How many messages wait for the address."""
    return PostedMessage.objects.filter(address=address, created_at__gt=timezone.now() - _KEPT).count()


def arrived(addresses: Collection[str]) -> set[str]:
    """Those of the addresses for which there is something."""
    since = timezone.now() - _KEPT
    found = PostedMessage.objects.filter(address__in=addresses, created_at__gt=since)
    return set(found.values_list("address", flat=True))


def take(address: str) -> list[str]:
    """What was left for the address, in its order; nobody else gets it."""
    rows = PostedMessage.objects.filter(address=address).order_by("pk").values_list("pk", "body")
    # Whoever deletes a message has it. In no transaction: SQLite lets none write that has read before.
    return [body for key, body in list(rows) if PostedMessage.objects.filter(pk=key).delete()[0]]
