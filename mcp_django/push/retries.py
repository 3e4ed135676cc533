"""Subscriptions of which it could not be found out in time whether to tell them: asked about again, one at a time.

A committed change is told at least once, however slow the database is. So the question is put again, with growing
pauses and in one worker at most, while everybody else's events go on. Where it stays unanswered, those are told who
could see the row when it was last looked at: that it changed, or that it left their view, is theirs to know either way.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_django.events.changes import Changes
from mcp_django.protocol.errors import Overloaded
from mcp_django.push import visibility
from mcp_django.push.listeners import Identity, Listener, Subscription
from mcp_django.workers import run_patiently

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub

logger = logging.getLogger("mcp_django")

_FIRST_PAUSE, _LAST_PAUSE = 1.0, 60.0
#: A database that is away may be back soon.
_LAST_PAUSE_AWAY = 5.0
#: How often the question is put in vain before those are told who last saw the row.
_ROUNDS = 5


@dataclass(slots=True, eq=False)
class _Entry:
    """What principals with equal rights wait for."""

    subscriptions: dict[Subscription, Listener] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    #: Those that were told already; what they may see is still to be found out.
    told: set[Subscription] = field(default_factory=set)
    #: The kinds of questions that took too long in this round, and how many rounds were in vain.
    slow: set[visibility.Kind] = field(default_factory=set)
    rounds: int = 0
    #: On the loop's clock.
    due: float = 0.0


class Unanswered:
    """The open questions of a hub. On its loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._entries: dict[Identity, _Entry] = {}
        self._woken = asyncio.Event()

    def put(
        self,
        group: visibility.Group,
        checked: visibility.Checked,
        changes: Changes,
        *,
        told: Collection[Subscription] = (),
    ) -> None:
        """Ask about the rest of what was ``checked`` later: what of these changes may be told. Those ``told`` know."""
        identity = group.listener.identity
        entry = self._entries.get(identity)
        if entry is None:
            entry = self._entries[identity] = _Entry(slow=set(checked.slow))
            # What was not asked about yet need not wait.
            entry.due = self._hub.loop.time() + self._pause(entry, checked)
        labels = {subscription.concrete for subscription in checked.later}
        for (alias, label), change in changes.items():
            if label in labels:
                entry.changes.note(alias, label, change.written, change.deleted)
        for subscription in checked.later:
            subscription.is_waiting = True
            entry.subscriptions[subscription] = group.subscriptions[subscription]
            entry.told.discard(subscription)
        entry.told.update(told)
        self._woken.set()

    async def work(self) -> None:
        """Ask, for ever."""
        while True:
            identity, entry = min(self._entries.items(), key=lambda item: item[1].due, default=(None, None))
            pause = None if entry is None else entry.due - self._hub.loop.time()
            if identity is None or entry is None or pause is None or pause > 0:
                self._woken.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                continue
            # What comes while it is asked about makes a new one.
            del self._entries[identity]
            try:
                await self._ask(identity, entry)
            except Exception:
                logger.exception("What may be told could not be asked for; trying again")
                entry.due = self._hub.loop.time() + _LAST_PAUSE
                self._put_back(identity, entry)

    async def _ask(self, identity: Identity, entry: _Entry) -> None:
        here = {item: listener for item, listener in entry.subscriptions.items() if self._hub.holds(item, listener)}
        if not here:
            return
        try:
            checked = await run_patiently(visibility.asked_again, _group(here), entry.changes)
        except Overloaded:
            checked = visibility.Checked(later=list(here), is_away=True)
        except Exception:
            logger.exception("What may be told could not be found out; trying again")
            checked = visibility.Checked(later=list(here), is_away=True)
        for subscription in checked.tell:
            if subscription not in entry.told:
                self._hub.tell(subscription, here[subscription])
        newer = self._entries.get(identity, _Entry())
        for subscription in here.keys() - set(checked.later) - newer.subscriptions.keys():
            subscription.is_waiting = False
        if checked.later:
            entry.subscriptions = {subscription: here[subscription] for subscription in checked.later}
            entry.due = self._hub.loop.time() + self._pause(entry, checked)
            if entry.rounds >= _ROUNDS:
                await self._presume(entry)
            self._put_back(identity, entry)
        if checked.is_away and entry.rounds < _ROUNDS:
            # It is away for the others too.
            await asyncio.sleep(_FIRST_PAUSE)

    def _pause(self, entry: _Entry, checked: visibility.Checked) -> float:
        """How long the rest of the entry waits. A round is over when every kind of question was asked in vain."""
        entry.slow |= checked.slow
        if not checked.is_away and {visibility.kind_of(subscription) for subscription in checked.later} - entry.slow:
            return 0.0
        entry.slow.clear()
        entry.rounds += 1
        last = _LAST_PAUSE_AWAY if checked.is_away else _LAST_PAUSE
        return min(_FIRST_PAUSE * 2.0 ** min(entry.rounds - 1, 10), last)

    async def _presume(self, entry: _Entry) -> None:
        """Tell those who saw the rows when they were last looked at."""
        untold = {item: listener for item, listener in entry.subscriptions.items() if item not in entry.told}
        if not untold:
            return
        try:
            presumed = await run_patiently(visibility.presumed, _group(untold), entry.changes)
        except Exception:
            logger.exception("Who saw what has changed could not be found out; trying again")
            return
        for subscription in presumed:
            self._hub.tell(subscription, untold[subscription])
        entry.told.update(presumed)

    def _put_back(self, identity: Identity, entry: _Entry) -> None:
        """Wait on, together with what came meanwhile."""
        newer = self._entries.get(identity)
        if newer is not None:
            # What changed since then is not told yet.
            entry.told -= newer.subscriptions.keys()
            entry.told |= newer.told
            entry.subscriptions.update(newer.subscriptions)
            entry.changes.absorb(newer.changes)
        self._entries[identity] = entry


def _group(subscriptions: dict[Subscription, Listener]) -> visibility.Group:
    """Those of an entry, which are asked about together."""
    group = visibility.Group(next(iter(subscriptions.values())))
    group.subscriptions = subscriptions
    return group
