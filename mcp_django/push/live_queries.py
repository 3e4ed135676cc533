"""Live queries: subscribers to a page or a table are notified when its answer changes, and only then.

Subscribers to a set, which is a query without a page, are notified of each row that meets it: see ``live_answers``.

A query is computed again when rows that it is made of change: at once for the first change, and once in LIVE_SECONDS
for those that follow. Subscribers with equal rights share the computation. It takes at most two workers, one of which
is for slow queries, so that neither requests nor quick queries wait for these.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mcp_django.bridge.resources import uris
from mcp_django.conf import get_conf
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import EVERYBODY, ControlKind, ControlSet
from mcp_django.core.running.workers import get_workers
from mcp_django.protocol.errors import Overloaded
from mcp_django.push.identities import Identity
from mcp_django.push.listeners import Listener
from mcp_django.push.live_answers import LiveAnswer
from mcp_django.push.live_jobs import CALL_SECONDS, NO_CHANGES, QueryJob, QueryOutcome, compute
from mcp_django.push.subscriptions import Subscription

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub

logger = logging.getLogger("mcp_django")

#: The digest of an unknown answer: every other digest differs from it.
UNKNOWN = ""

#: The number of queries in one call of a worker.
_QUERIES_PER_CALL = 50
#: How often a query is computed in vain before its clients are notified to read it themselves.
_TRIES = 4
_LONGEST_PAUSE = 60.0
#: How often we look whether a query has a subscriber with a known answer yet.
_WAIT_SECONDS = 0.1
_BUSY_SECONDS = 0.05
#: Stands for the label of every model: which models a set is made of is known after the first look at it.
_EVERY_MODEL = "*"


@dataclass(slots=True, eq=False)
class LiveQuery:
    """One query, for all of its subscribers with equal rights."""

    identity: Identity
    target: uris.Target
    subscriptions: dict[Subscription, Listener] = field(default_factory=dict)
    #: The labels of the models that it is made of.
    labels: set[str] = field(default_factory=set)
    #: Something has changed since it was last computed.
    dirty: bool = False
    #: It waits for its pause to end or for a worker, or is being computed.
    scheduled: bool = False
    is_slow: bool = False
    #: When it may be computed again, by the loop's clock.
    rests_until: float = 0.0
    #: The number of failures since its last answer.
    tries: int = 0
    #: A set: its last answer, and the changes since then that it was not compared with.
    before: LiveAnswer | None = None
    changes: Changes = field(default_factory=lambda: NO_CHANGES)
    #: A set: other rows than those of the changes may be in it now.
    rights_changed: bool = False

    @property
    def known(self) -> dict[Subscription, Listener]:
        """The subscriptions that can be notified: each has an answer to compare with, and a stream."""
        return {one: listener for one, listener in self.subscriptions.items() if one.digest is not None}


class Lane:
    """Queries that wait for a worker. Principals take turns."""

    def __init__(self) -> None:
        #: Key of a principal → its queries. Each of its streams may have an identity of its own.
        self._waiting: dict[str, list[LiveQuery]] = {}
        self._woken = asyncio.Event()

    def put(self, query: LiveQuery) -> None:
        self._waiting.setdefault(query.identity.principal_key, []).append(query)
        self._woken.set()

    async def take(self, count: int) -> list[LiveQuery]:
        """At least one query, and ``count`` at most."""
        while not self._waiting:
            self._woken.clear()
            await self._woken.wait()
        taken: list[LiveQuery] = []
        while self._waiting and len(taken) < count:
            principal_key = next(iter(self._waiting))
            mine = self._waiting.pop(principal_key)
            room = count - len(taken)
            taken += mine[:room]
            if mine[room:]:
                self._waiting[principal_key] = mine[room:]
        return taken


class LiveQueries:
    """The live queries of a hub. On its loop."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._queries: dict[tuple[Identity, uris.Target], LiveQuery] = {}
        #: Label → the queries that a change of the model may concern.
        self._index: dict[str, dict[LiveQuery, None]] = defaultdict(dict)
        self._quick, self._slow = Lane(), Lane()

    def add(self, subscription: Subscription, listener: Listener) -> None:
        if subscription.target is None:
            return
        key = (listener.identity, subscription.target)
        query = self._queries.get(key)
        is_new = query is None
        if query is None:
            query = self._queries[key] = LiveQuery(*key)
            self._follow(query, [subscription.concrete, *([_EVERY_MODEL] if query.target.is_set else [])])
        query.subscriptions[subscription] = listener
        # An answer that is known already may be from before the query was followed here.
        query.dirty = query.dirty or subscription.digest is not None
        if is_new or query.dirty:
            self._wake(query)

    def remove(self, subscription: Subscription, listener: Listener) -> bool:
        """Remove a subscription. Whether it was there."""
        if subscription.target is None:
            return False
        key = (listener.identity, subscription.target)
        query = self._queries.get(key)
        if query is None or query.subscriptions.pop(subscription, None) is None:
            return False
        if query.subscriptions:
            return True
        del self._queries[key]
        for label in list(query.labels):
            self._unfollow(query, label)
        return True

    @property
    def labels(self) -> set[str]:
        """The labels of all models that queries are made of."""
        return set(self._index) - {_EVERY_MODEL}

    def receive(self, changes: Changes, controls: ControlSet) -> None:
        """Compute the queries again that depend on changed models or rights."""
        labels = {label for _, label in changes} | {_EVERY_MODEL} if changes else ()
        changed = {query: None for label in labels for query in self._index.get(label, ())}
        _add_changes([query for query in changed if query.target.is_set], changes)
        for query in changed:
            self._touch(query)
        users = {f"user:{key}" for key in controls.keys_of(ControlKind.ACCESS)}
        if EVERYBODY in controls or users:
            for query in self._queries.values():
                if EVERYBODY in controls or next(iter(query.subscriptions.values())).principal.key in users:
                    query.rights_changed = True
                    self._touch(query)

    def works(self) -> list[Any]:
        """The coroutines that compute, for ever."""
        return [self._work(self._quick), self._work(self._slow)]

    def _follow(self, query: LiveQuery, labels: Collection[str]) -> bool:
        """Compute the query when rows of these models change, too. Whether one of the models is new to it."""
        added = set(labels) - query.labels
        query.labels |= added
        for label in added:
            self._index[label][query] = None
        return bool(added)

    def _unfollow(self, query: LiveQuery, label: str) -> None:
        query.labels.discard(label)
        self._index[label].pop(query, None)
        if not self._index[label]:
            del self._index[label]

    def _compare_with(self, query: LiveQuery, answer: LiveAnswer) -> None:
        """Compare a set with this answer from now on."""
        query.before = answer
        if _EVERY_MODEL in query.labels:
            self._unfollow(query, _EVERY_MODEL)

    def _touch(self, query: LiveQuery) -> None:
        query.dirty = True
        self._wake(query)

    def _wake(self, query: LiveQuery) -> None:
        if not query.scheduled:
            query.scheduled = True
            self._schedule(query)

    def _schedule(self, query: LiveQuery) -> None:
        self._hub.loop.call_at(max(query.rests_until, self._hub.loop.time()), self._offer, query)

    def _offer(self, query: LiveQuery) -> None:
        """Give the query to a worker, once there is an answer to compare with."""
        if not query.subscriptions:
            return
        known = query.known
        if not known:
            self._hub.loop.call_later(_WAIT_SECONDS, self._offer, query)
            return
        for one in known:
            if one.first is not None:
                query.is_slow = query.is_slow or one.first.seconds > CALL_SECONDS
                # The next answer shows what changed in a new model since the first one.
                query.dirty = self._follow(query, one.first.labels) or query.dirty
                if query.target.is_set:
                    self._compare_with(query, query.before or one.first)
                one.first = None
        if query.dirty:
            (self._slow if query.is_slow else self._quick).put(query)
        else:
            query.scheduled = False

    async def _work(self, lane: Lane) -> None:
        while True:
            taken = [query for query in await lane.take(_QUERIES_PER_CALL) if query.subscriptions]
            if not taken:
                continue
            known = [query.known for query in taken]
            for query, subscribers in zip(taken, known, strict=True):
                # A first answer that is still being computed may be from before this change.
                query.dirty = len(subscribers) < len(query.subscriptions)
            begun = self._hub.loop.time()
            jobs = [_job_of(*item) for item in zip(taken, known, strict=True)]
            try:
                outcomes = await get_workers().run(compute, jobs)
            except Overloaded:
                await asyncio.sleep(_BUSY_SECONDS)
                outcomes = []
            except Exception:
                logger.exception("Live queries could not be computed; trying again")
                outcomes = [QueryOutcome(is_unknown=True)] * len(taken)
            for query, job in list(zip(taken, jobs, strict=True))[len(outcomes) :]:
                _give_back(query, job)
                query.dirty = True
                lane.put(query)
            for query, job, subscribers, outcome in zip(taken, jobs, known, outcomes, strict=False):
                if outcome.answer is None:
                    _give_back(query, job)
                self._finish(query, subscribers, outcome, begun)
            if lane is self._slow:
                # Half of the time the worker is left to others: a server may have few.
                await asyncio.sleep(self._hub.loop.time() - begun)

    def _finish(
        self, query: LiveQuery, known: dict[Subscription, Listener], outcome: QueryOutcome, begun: float
    ) -> None:
        if not query.subscriptions:
            return  # Its last subscriber has gone, and the query is not followed any more.
        pause = get_conf().LIVE_SECONDS
        if outcome.answer is not None:
            query.tries, query.is_slow = 0, outcome.answer.seconds > CALL_SECONDS
            # A change of a new model may have been missed before the model was followed.
            if self._follow(query, outcome.answer.labels):
                query.dirty = query.rights_changed = True
            self._notify(query, known, outcome.answer.digest, in_any_case=outcome.notify)
            if query.target.is_set:
                self._compare_with(query, outcome.answer)
                for one in known:
                    one.is_stored = False
        elif outcome.is_too_slow or outcome.is_unknown:
            query.is_slow = query.is_slow or outcome.is_too_slow
            query.tries += 1
            pause = max(pause, min(max(pause, _WAIT_SECONDS) * 2 ** min(query.tries, 10), _LONGEST_PAUSE))
            if outcome.is_too_slow and query.tries >= _TRIES:
                self._notify(query, known, None)
                query.before = None
            else:
                query.dirty = True
        query.rests_until = begun + (max(pause, _WAIT_SECONDS) if query.dirty else pause)
        query.scheduled = query.dirty
        if query.dirty:
            self._schedule(query)

    def _notify(
        self, query: LiveQuery, known: dict[Subscription, Listener], digest: str | None, *, in_any_case: bool = False
    ) -> None:
        """Notify the subscribers that know another answer; all of them if the digest is None, which is unknown."""
        for one, listener in known.items():
            if in_any_case:
                one.digest = UNKNOWN
            if one.digest == digest or one not in query.subscriptions:
                continue
            if self._hub.notify(one, listener):
                one.digest, one.is_stored = digest if digest is not None else UNKNOWN, False
            else:
                query.dirty = True  # Its stream is about to be opened.


def _add_changes(queries: Iterable[LiveQuery], changes: Changes) -> None:
    """Let sets be compared with changes too. Those that wait for the same changes share them."""
    merged: dict[int, tuple[Changes, Changes]] = {}
    for query in queries:
        before = query.changes
        if id(before) not in merged:
            # ``before`` is kept, so that no other object gets its id meanwhile.
            merged[id(before)] = (before, _merged(before, changes))
        query.changes = merged[id(before)][1]


def _merged(before: Changes, changes: Changes) -> Changes:
    """Both together. Neither is changed, since others share them."""
    if not (before and changes):
        return before or changes
    found = Changes()
    found.absorb(before)
    found.absorb(changes)
    return found


def _give_back(query: LiveQuery, job: QueryJob) -> None:
    """Let the set be compared again with what it could not be compared with."""
    query.changes = _merged(job.changes, query.changes)
    query.rights_changed = query.rights_changed or job.rights_changed


def _job_of(query: LiveQuery, known: dict[Subscription, Listener]) -> QueryJob:
    stored = [
        (one.digest, listener.session_key, one.uri)
        for one, listener in known.items()
        if one.is_stored and listener.session_key is not None
    ]
    listener = next(iter(query.subscriptions.values()))
    job = QueryJob(
        listener,
        query.target,
        stored,
        is_last_try=query.tries + 1 >= _TRIES,
        before=query.before,
        changes=query.changes,
        rights_changed=query.rights_changed,
    )
    query.changes, query.rights_changed = NO_CHANGES, False
    return job
