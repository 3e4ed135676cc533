"""The open streams of the transport HTTP+SSE: a message to one of them may be posted to any process."""

from __future__ import annotations

import secrets
from datetime import timedelta

from django.utils import timezone

from mcp_django.conf import get_conf
from mcp_django.core.events.controls import Control, ControlKind, named
from mcp_django.core.events.publisher import flush
from mcp_django.models import SSEConnection
from mcp_django.push.sessions import mailbox

#: A stream whose process is gone is forgotten after this.
_LEASE = timedelta(seconds=60)


def mail_of(key: str) -> Control:
    """The control by which the process that holds a stream learns of messages to it."""
    return Control(ControlKind.MAIL, named(key))


def open_stream(owner: str) -> str:
    """Store a stream of ``owner``. Returns the key that names it."""
    now = timezone.now()
    SSEConnection.objects.filter(lease_until__lte=now).delete()
    key = secrets.token_urlsafe(32)
    SSEConnection.objects.create(key=key, owner=owner, lease_until=now + _LEASE)
    return key


def is_open(key: str, owner: str) -> bool:
    """Whether the owner's stream is open, in whatever process."""
    found = SSEConnection.objects.filter(pk=key[:64], owner=owner, lease_until__gt=timezone.now()).first()
    return found is not None and found.key == key


def post(key: str, body: str) -> bool:
    """Leave a message for the process that holds the stream. False: MAX_IN_FLIGHT messages wait there already."""
    if mailbox.waiting(mail_of(key)) >= get_conf().MAX_IN_FLIGHT:
        return False
    mailbox.put(mail_of(key), body)
    # The other process must know before the client goes on.
    flush()
    return True


def renew_and_take(key: str) -> list[str] | None:
    """The messages that were posted to other processes; None where the stream was taken for dead."""
    if not SSEConnection.objects.filter(pk=key).update(lease_until=timezone.now() + _LEASE):
        return None
    return mailbox.take(mail_of(key))


def forget(key: str) -> None:
    SSEConnection.objects.filter(pk=key).delete()
