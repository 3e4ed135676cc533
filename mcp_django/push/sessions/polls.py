"""What waits for a legacy session whose client polls: numbered messages, which are kept until it acknowledges them.

They are the events of a stored stream, and any process may add to them, give them out and delete them. A lock on the
row of the poll puts them into one order: a message is there before the next one gets its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from django.db import IntegrityError, router, transaction
from django.db.models import F, QuerySet
from django.utils import timezone

from mcp_django.conf import get_conf
from mcp_django.core.db.clearing import clear_away
from mcp_django.core.events.controls import ControlKind
from mcp_django.core.events.transaction import note_control
from mcp_django.models import CallStream, Poll, StreamEvent
from mcp_django.protocol.errors import InvalidRequest, LimitExceeded, SessionNotFound
from mcp_django.push.sessions import streams

#: No message of a call is added if more than this many would wait for the session. Their bytes are bounded too.
_MAX_MESSAGES = 1_000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a client is in its messages."""

    #: The key of the stored stream.
    key: str
    #: The number of the last message that the client has acknowledged; 0 where it named none.
    number: int
    #: Whether the client names messages that are kept no more: it polled before, and has missed what came since.
    has_missed: bool
    #: Whether nothing was kept for the session until now.
    is_new: bool
    #: Names the collector that adds to the stream.
    collector: str = ""


def begin(session_key: str, last_event_id: str | None) -> Place:
    """Where a poll begins, which acknowledges ``last_event_id`` and all messages before it.

    An id of another session, and one of messages that are kept no more, acknowledges nothing: no caller learns which
    it is. Raises InvalidRequest for what is no id, and SessionNotFound.
    """
    named = None
    if last_event_id is not None:
        named = streams.read_event_id(last_event_id)
        if named is None:
            raise InvalidRequest("Last-Event-ID names no message: send it as the last poll with messages gave it.")
    poll = Poll.objects.filter(pk=session_key).first()
    if poll is None:
        return Place(_open(session_key), 0, has_missed=named is not None, is_new=True)
    _renew(poll.stream_id)
    if named is None or named[0] != poll.stream_id:
        return Place(poll.stream_id, 0, has_missed=False, is_new=False, collector=poll.collector)
    number = named[1]
    if number > poll.last:
        raise InvalidRequest("Last-Event-ID names a message that was not sent yet.")
    # By their keys and in their order, since two polls may acknowledge the same. What stays is deleted by the next one.
    clear_away(StreamEvent.objects.filter(stream=poll.stream_id, number__lte=number))
    return Place(poll.stream_id, number, has_missed=False, is_new=False, collector=poll.collector)


def _open(session_key: str) -> str:
    """The key of the stream of a session whose client begins to poll."""
    key = streams.open_stream(session_key, None)
    if not key:
        raise SessionNotFound
    try:
        with transaction.atomic(using=router.db_for_write(Poll)):
            Poll.objects.create(session_id=session_key, stream_id=key)
    except IntegrityError:
        streams.drop(key)
        # Another poll of the client was faster.
        found = Poll.objects.filter(pk=session_key).values_list("stream", flat=True).first()
        if found is None:
            raise SessionNotFound from None
        return found
    return key


def _renew(key: str) -> None:
    """Put off the end of a stream whose client polls, at most once in half of a session's time."""
    now, life = timezone.now(), timedelta(seconds=get_conf().SESSION_SECONDS)
    CallStream.objects.filter(pk=key, expires_at__lt=now + life / 2).update(expires_at=now + life)


def is_open(session_key: str) -> bool:
    """Whether the client of the session polls: it may be asked."""
    return Poll.objects.filter(pk=session_key, stream__lease_until__gt=timezone.now()).exists()


# For collectors.


def take_over(session_key: str, key: str, collector: str) -> str:
    """Make a collector the one that adds notifications to a stream. Returns the one before it; empty where none lives.

    Raises SessionNotFound where the stream is gone.
    """
    while True:
        found = Poll.objects.filter(pk=session_key, stream=key).select_related("stream").first()
        if found is None:
            raise SessionNotFound
        lives = found.stream.lease_until > timezone.now()
        if Poll.objects.filter(pk=session_key, stream=key, collector=found.collector).update(collector=collector):
            streams.renew([key])
            return found.collector if lives else ""


def collect(session_key: str, collector: str, bodies: Sequence[str]) -> bool:
    """Add notifications, each in the place of an equal one that waits; False if another collector has taken over.

    They need no bound: a session may watch MAX_SUBSCRIPTIONS resources, and one notification of each waits.
    """
    return _add(Poll.objects.filter(pk=session_key, collector=collector), bodies, are_notifications=True)


def let_go(session_key: str, collector: str) -> None:
    """Delete what waits for a client that polls no more, unless another collector has taken over."""
    mine = Poll.objects.filter(pk=session_key, collector=collector)
    key = mine.values_list("stream", flat=True).first()
    # Deleting the row claims it.
    if key is not None and mine.delete()[0]:
        clear_away(CallStream.objects.filter(pk=key))


def release(session_key: str, collector: str) -> None:
    """Say that a collector ends and nobody has taken over: the next one notifies of everything that is watched."""
    Poll.objects.filter(pk=session_key, collector=collector).update(collector="")


# For calls.


def put(session_key: str, bodies: Sequence[str]) -> bool:
    """Add messages of a call; False if the client polls no more. Raises LimitExceeded where too much waits."""
    return _add(Poll.objects.filter(pk=session_key), bodies, are_notifications=False)


def _add(polls: QuerySet[Poll], bodies: Sequence[str], *, are_notifications: bool) -> bool:
    alias = router.db_for_write(Poll)
    with transaction.atomic(using=alias):
        # The transaction begins with a write: it locks the row, and SQLite refuses a write behind a read.
        if not polls.update(last=F("last") + len(bodies)):
            return False
        poll = polls.get()
        waiting = list(StreamEvent.objects.filter(stream=poll.stream_id).values_list("pk", "body"))
        if are_notifications:
            added = set(bodies)
            StreamEvent.objects.filter(pk__in=[key for key, body in waiting if body in added]).delete()
        else:
            _check_room([body for _, body in waiting], bodies)
        first = poll.last - len(bodies) + 1
        StreamEvent.objects.bulk_create(
            StreamEvent(stream_id=poll.stream_id, number=number, body=body) for number, body in enumerate(bodies, first)
        )
        note_control(alias, ControlKind.STREAM, poll.stream_id)
    return True


def _check_room(waiting: Sequence[str], bodies: Sequence[str]) -> None:
    size = sum(len(body.encode()) for body in (*waiting, *bodies))
    if len(waiting) + len(bodies) > _MAX_MESSAGES or size > get_conf().MAX_STREAM_BYTES:
        raise LimitExceeded(f"{len(waiting)} messages wait for you already. Poll, and acknowledge what you were sent.")
