"""Retries of checks that could not be made in time.

Clients are notified of a committed change at least once, however slow the database is. So a check that failed is made
again, with growing pauses and in one worker at most, while the events of everybody else go on. If it keeps failing, the
clients that could see the row when it was last checked are notified: they may know that it changed, or that it left
their view.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.running.workers import run_patiently
from mcp_django.protocol.errors import Overloaded
from mcp_django.push import visibility
from mcp_django.push.identities import Identity
from mcp_django.push.listeners import Listener
from mcp_django.push.subscriptions import Subscription

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub

logger = logging.getLogger("mcp_django")

_FIRST_PAUSE, _LAST_PAUSE = 1.0, 60.0
#: The longest pause while the database is away: it may be back soon.
_LAST_PAUSE_AWAY = 5.0
#: How often a check fails before the clients that could see the row last are notified.
_ROUNDS = 5


@dataclass(slots=True, eq=False)
class _Retry:
    """The checks that principals with equal rights wait for."""

    subscriptions: dict[Subscription, Listener] = field(default_factory=dict)
    changes: Changes = field(default_factory=Changes)
    #: Subscriptions that were notified already. Their checks are made all the same, to remember what is visible.
    notified: set[Subscription] = field(default_factory=set)
    #: The kinds of checks that took too long in this round, and the number of rounds that failed.
    slow: set[visibility.Kind] = field(default_factory=set)
    rounds: int = 0
    #: On the loop's clock.
    due: float = 0.0


class Retries:
    """The failed checks of a hub. On its loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._waiting: dict[Identity, _Retry] = {}
        self._woken = asyncio.Event()

    def put(
        self,
        group: visibility.EqualRights,
        checked: visibility.Checked,
        changes: Changes,
        *,
        notified: Collection[Subscription] = (),
    ) -> None:
        """Check the rest of what was ``checked`` later. Those in ``notified`` know of the changes already."""
        identity = group.listener.identity
        retry = self._waiting.get(identity)
        if retry is None:
            retry = self._waiting[identity] = _Retry(slow=set(checked.slow))
            # A kind of check that was not tried yet need not wait.
            retry.due = self._hub.loop.time() + self._pause(retry, checked)
        labels = {label for subscription in checked.later for label in subscription.labels}
        for (alias, label), change in changes.items():
            if label in labels:
                retry.changes.note(alias, label, change.written, change.deleted)
        for subscription in checked.later:
            subscription.is_waiting = True
            retry.subscriptions[subscription] = group.subscriptions[subscription]
            retry.notified.discard(subscription)
        retry.notified.update(notified)
        self._woken.set()

    async def work(self) -> None:
        """Make the checks that are due, for ever."""
        while True:
            identity, retry = min(self._waiting.items(), key=lambda item: item[1].due, default=(None, None))
            pause = None if retry is None else retry.due - self._hub.loop.time()
            if identity is None or retry is None or pause is None or pause > 0:
                self._woken.clear()
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await self._woken.wait()
                continue
            # Changes that come during the check make a new retry.
            del self._waiting[identity]
            try:
                await self._ask(identity, retry)
            except Exception:
                logger.exception("The check before a push could not be repeated; trying again")
                retry.due = self._hub.loop.time() + _LAST_PAUSE
                self._put_back(identity, retry)

    async def _ask(self, identity: Identity, retry: _Retry) -> None:
        here = {item: listener for item, listener in retry.subscriptions.items() if item.is_followed}
        if not here:
            return
        try:
            checked = await run_patiently(visibility.check_again, _group(here), retry.changes)
        except Overloaded:
            checked = visibility.Checked(later=list(here), is_away=True)
        except Exception:
            logger.exception("The repeated check before a push failed; trying again")
            checked = visibility.Checked(later=list(here), is_away=True)
        for subscription in checked.notify:
            if subscription not in retry.notified:
                self._hub.notify(subscription, here[subscription])
        newer = self._waiting.get(identity, _Retry())
        for subscription in here.keys() - set(checked.later) - newer.subscriptions.keys():
            subscription.is_waiting = False
        if checked.later:
            retry.subscriptions = {subscription: here[subscription] for subscription in checked.later}
            retry.due = self._hub.loop.time() + self._pause(retry, checked)
            if retry.rounds >= _ROUNDS:
                await self._presume(retry)
            self._put_back(identity, retry)
        if checked.is_away and retry.rounds < _ROUNDS:
            # The database is probably away for the other retries too.
            await asyncio.sleep(_FIRST_PAUSE)

    def _pause(self, retry: _Retry, checked: visibility.Checked) -> float:
        """How long the rest of the retry waits. A round is over when every kind of check has failed."""
        retry.slow |= checked.slow
        if not checked.is_away and {visibility.kind_of(subscription) for subscription in checked.later} - retry.slow:
            return 0.0
        retry.slow.clear()
        retry.rounds += 1
        last = _LAST_PAUSE_AWAY if checked.is_away else _LAST_PAUSE
        return min(_FIRST_PAUSE * 2.0 ** min(retry.rounds - 1, 10), last)

    async def _presume(self, retry: _Retry) -> None:
        """Notify the subscriptions whose rows were visible when they were last checked."""
        unnotified = {item: listener for item, listener in retry.subscriptions.items() if item not in retry.notified}
        if not unnotified:
            return
        try:
            presumed = await run_patiently(visibility.presume, _group(unnotified), retry.changes)
        except Exception:
            logger.exception("The rights to a changed model could not be checked; trying again")
            return
        for subscription in presumed:
            self._hub.notify(subscription, unnotified[subscription])
        retry.notified.update(presumed)

    def _put_back(self, identity: Identity, retry: _Retry) -> None:
        """Wait again, together with what came meanwhile."""
        newer = self._waiting.get(identity)
        if newer is not None:
            # Subscriptions that changed since then were not notified of that yet.
            retry.notified -= newer.subscriptions.keys()
            retry.notified |= newer.notified
            retry.subscriptions.update(newer.subscriptions)
            retry.changes.absorb(newer.changes)
        self._waiting[identity] = retry


def _group(subscriptions: dict[Subscription, Listener]) -> visibility.EqualRights:
    """The subscriptions of a retry, which are checked together."""
    group = visibility.EqualRights(next(iter(subscriptions.values())))
    group.subscriptions = subscriptions
    return group
