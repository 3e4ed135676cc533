"""Stored events of a legacy request's stream, so that a client that lost its connection can get the rest.

Any process can give the rest (2025-11-25 basic/transports#resumability-and-redelivery). An event id consists of the key
of its stream and its number. It is no credential: the session is looked up for the principal first.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, router, transaction
from django.db.models import Max, Q
from django.utils import timezone
from pydantic_core import from_json

from mcp_django.conf import get_conf
from mcp_django.core.db.clearing import clear_away
from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.transaction import note_control
from mcp_django.models import CallStream, StreamEvent
from mcp_django.protocol.errors import SessionNotFound
from mcp_django.protocol.jsonrpc import RequestId, encode

if TYPE_CHECKING:
    from mcp_django.push.sessions.session_rows import StoredSession

#: How long the events of a request's stream are kept for a client that lost its connection.
_KEPT_SECONDS = 300
#: The number of ended streams that are kept for one session.
_MAX_STREAMS = 50


def _lease() -> timedelta:
    """The time after which a stream counts as lost if its process does not renew it."""
    return timedelta(seconds=max(30.0, 10 * get_conf().SWEEP_SECONDS))


def open_stream(session_key: str, request_id: RequestId | None) -> str:
    """The key of a new stream, empty if its session has ended. Expired streams are cleared away.

    ``request_id``: None for what waits for a client that polls.
    """
    now = timezone.now()
    kept = timedelta(seconds=_KEPT_SECONDS)
    clear_away(CallStream.objects.filter(Q(expires_at__lte=now) | Q(lease_until__lte=now - kept, ended=False)))
    mine = CallStream.objects.filter(session=session_key, ended=True).order_by("-expires_at")
    surplus = list(mine.values_list("pk", flat=True)[_MAX_STREAMS:])
    if surplus:
        clear_away(CallStream.objects.filter(pk__in=surplus))
    try:
        with transaction.atomic(using=router.db_for_write(CallStream)):
            stream = CallStream.objects.create(
                key=secrets.token_hex(12), session_id=session_key, request_id=encode(request_id).decode(),
                lease_until=now + _lease(), expires_at=now + timedelta(seconds=get_conf().SESSION_SECONDS),
            )  # fmt: skip
    except IntegrityError:
        return ""
    return stream.key


def add_events(key: str, first: int, bodies: Sequence[str], *, ended: bool, report: bool) -> bool:
    """Store events from number ``first`` on; False if the stream is gone. ``report``: wake the reader."""
    alias = router.db_for_write(CallStream)
    now = timezone.now()
    state: dict[str, Any] = {"lease_until": now + _lease()}
    if ended:
        state |= {"ended": True, "expires_at": now + timedelta(seconds=_KEPT_SECONDS)}
    with transaction.atomic(using=alias):
        # The transaction begins with a write, for which SQLite waits. While another one writes, SQLite refuses at once
        # the write of a transaction that has read before.
        if not CallStream.objects.filter(pk=key).update(**state):
            return False
        StreamEvent.objects.bulk_create(
            StreamEvent(stream_id=key, number=number, body=body) for number, body in enumerate(bodies, first)
        )
    if report:
        note_control(alias, ControlKind.STREAM, key)
    return True


def renew(keys: Sequence[str]) -> None:
    """Renew the leases of streams whose requests this process still answers."""
    CallStream.objects.filter(pk__in=keys).update(lease_until=timezone.now() + _lease())


def drop(key: str) -> None:
    """Delete a stream: it cannot be resumed any more."""
    CallStream.objects.filter(pk=key).delete()


def event_id(key: str, number: int) -> str:
    return f"{key}-{number}"


def read_event_id(value: str) -> tuple[str, int] | None:
    """The key and the number in an event id; None for what is none."""
    key, _, number = value.rpartition("-")
    if not (value.isascii() and key.isalnum() and number.isdigit() and len(number) < 10):
        return None
    return key, int(number)


@dataclass(frozen=True, slots=True)
class Rest:
    """The events after a given one of a stream. ``lost``: no more will come, since the answering process is gone."""

    events: list[tuple[int, str]]
    ended: bool
    lost: bool
    request_id: RequestId | None


def find(session: StoredSession, last_event_id: str) -> tuple[str, int] | None:
    """The stream and the number that an event id of the session names; None if nothing is left on that stream.

    Raises SessionNotFound for the id of another session.
    """
    named = read_event_id(last_event_id)
    if named is None:
        return None
    key, number = named
    stream = CallStream.objects.filter(pk=key[:32], poll=None, expires_at__gt=timezone.now()).first()
    if stream is None or stream.key != key:
        return None
    if stream.session_id != session.key:
        raise SessionNotFound
    if stream.ended and not stream.events.filter(number__gt=number).exists():
        return None
    return key, number


def rest(key: str, number: int) -> Rest | None:
    """The events after ``number``; None if the stream is gone."""
    stream = CallStream.objects.filter(pk=key).first()
    if stream is None:
        return None
    # Read after the stream: all events of a stream that has ended are there by now.
    events = list(StreamEvent.objects.filter(stream=key, number__gt=number).values_list("number", "body"))
    return Rest(events, stream.ended, stream.lease_until < timezone.now(), from_json(stream.request_id))


def with_news(read: Mapping[str, int]) -> list[str]:
    """The streams that have more than was read: stream → the number of the last event read."""
    rows = CallStream.objects.filter(pk__in=read, ended=False, lease_until__gt=timezone.now())
    last = dict(rows.annotate(last=Max("events__number")).values_list("pk", "last"))
    # A stream that has ended, or is gone, is not in ``last``.
    return [key for key, number in read.items() if key not in last or (last[key] or 0) > number]
