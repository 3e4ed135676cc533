"""Messages from one process to another by way of the database.

A control reports each message to the process that waits for it. Where no bus reaches that process, its sweep finds the
message.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from django.db import router
from django.utils import timezone

from mcp_django.core.db.clearing import clear_away
from mcp_django.core.events.controls import Control
from mcp_django.core.events.transaction import note_control
from mcp_django.models import PostedMessage

#: A message that was not taken by then has no recipient any more.
_KEPT = timedelta(seconds=60)


def put(control: Control, body: str = "") -> None:
    """Leave a message for the process that waits for the control."""
    now = timezone.now()
    clear_away(PostedMessage.objects.filter(created_at__lte=now - _KEPT))
    PostedMessage.objects.create(address=_address(control), body=body, created_at=now)
    note_control(router.db_for_write(PostedMessage), control.kind, control.key)


def waiting(control: Control) -> int:
    """The number of messages that were left and not taken yet."""
    return PostedMessage.objects.filter(address=_address(control), created_at__gt=timezone.now() - _KEPT).count()


def arrived(controls: Collection[Control]) -> list[Control]:
    """Those of the controls for which there is a message."""
    addresses = {_address(control): control for control in controls}
    since = timezone.now() - _KEPT
    found = PostedMessage.objects.filter(address__in=addresses, created_at__gt=since)
    return [addresses[address] for address in set(found.values_list("address", flat=True))]


def take(control: Control) -> list[str]:
    """The messages that were left, in their order. Each message is given to one caller only."""
    rows = PostedMessage.objects.filter(address=_address(control)).order_by("pk").values_list("pk", "body")
    # Deleting a message claims it: only one caller can. There is no transaction here, since SQLite refuses to write in
    # one that has read before.
    return [body for key, body in list(rows) if PostedMessage.objects.filter(pk=key).delete()[0]]


def _address(control: Control) -> str:
    return f"{control.kind}:{control.key}"
