"""Follows the audit trail while processes write to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

from mcp_django.models import Call
from mcp_django.models.call_queries import PAGE, CallQuerySet

#: How long lines are looked for again, since ids do not commit in the order in which they were given. A line whose
#: outcome is unknown waits for it as long.
SECONDS_AGAIN = 10.0
#: Before the first look, ids as far back as this may not be committed yet.
IDS_BACK = 10_000


class Follower:
    """Gives each line once: first the lines that exist, then the new ones."""

    def __init__(self, calls: Any, clock: Callable[[], float] = time.monotonic) -> None:
        self._calls: CallQuerySet = calls
        self._clock = clock
        newest = Call.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        #: Lines up to this id are not looked for as new ones.
        self._floor = max(0, newest - IDS_BACK)
        #: Id of a line above it → when it was given.
        self._given = dict.fromkeys(self._ids(Call.objects.all()), clock())
        #: Id of a line whose outcome is awaited → since when.
        self._awaited: dict[int, float] = {}

    def present(self, calls: Any) -> Iterator[Call]:
        """The lines of ``calls`` in the order of time, without those that ``new`` will give."""
        now = self._clock()
        for page in calls.pages():
            for call in page:
                if call.pk > self._floor and self._waits(call, now):
                    self._given.pop(call.pk, None)
                    continue
                if call.pk > self._floor:
                    self._given[call.pk] = now
                yield call

    def new(self) -> Iterator[Call]:
        """The lines that were not given yet, in the order of their ids."""
        now = self._clock()
        ids = [key for key in self._ids(self._calls) if key not in self._given]
        for start in range(0, len(ids), PAGE):
            for call in self._calls.filter(pk__in=ids[start : start + PAGE]).order_by("pk"):
                if not self._waits(call, now):
                    self._given[call.pk] = now
                    yield call
        self._forget(now)

    def _ids(self, calls: Any) -> list[int]:
        return list(calls.filter(pk__gt=self._floor).order_by("pk").values_list("pk", flat=True))

    def _waits(self, call: Call, now: float) -> bool:
        """Whether the outcome of the call may still be written."""
        if call.outcome != Call.Outcome.UNKNOWN:
            return False
        return now - self._awaited.setdefault(call.pk, now) < SECONDS_AGAIN

    def _forget(self, now: float) -> None:
        """Raise the floor: ids below one that was given long ago are committed by now."""
        old = [key for key, given in self._given.items() if now - given >= SECONDS_AGAIN]
        waiting = [key for key in self._awaited if key not in self._given]
        self._floor = max(self._floor, min([max(old, default=0), *(key - 1 for key in waiting)]))
        self._given = {key: given for key, given in self._given.items() if key > self._floor}
        self._awaited = {key: since for key, since in self._awaited.items() if key > self._floor}
