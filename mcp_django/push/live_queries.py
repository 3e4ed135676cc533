"""Live queries: subscribers to a query are notified when its answer changes, and only then.

A query is computed again when rows change that it is made of: at once for the first change, and once in LIVE_SECONDS
for those that follow. Subscribers with equal rights share the computation. It takes at most two workers, one of which
is for slow queries, so that neither requests nor quick queries wait for these.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from mcp_django.conf import get_conf
from mcp_django.db.outages import is_outage
from mcp_django.events.controls import EVERYBODY, ControlKind, ControlSet
from mcp_django.exceptions import MCPError
from mcp_django.protocol.errors import Overloaded, TooSlow
from mcp_django.push.identities import Identity
from mcp_django.push.listeners import Listener
from mcp_django.push.live_answers import LiveAnswer, Viewer
from mcp_django.push.prefetch import Prefetch
from mcp_django.push.subscriptions import Subscription
from mcp_django.resources import uris
from mcp_django.resources.errors import InvalidQuery
from mcp_django.sessions.store import forget_answers
from mcp_django.workers import get_workers

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub

logger = logging.getLogger("mcp_django")

#: The digest of an unknown answer: every other digest differs from it.
UNKNOWN = ""

#: The number of queries in one call of a worker, and how long it goes on with them. A query that takes longer is slow.
_QUERIES_PER_CALL = 50
_CALL_SECONDS = 0.25
#: How often a query is computed in vain before its clients are notified to read it themselves.
_TRIES = 4
_LONGEST_PAUSE = 60.0
#: How often we look whether a query has a subscriber with a known answer yet.
_WAIT_SECONDS = 0.1
_BUSY_SECONDS = 0.05


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

    @property
    def known(self) -> dict[Subscription, Listener]:
        """The subscriptions that can be notified: each has an answer to compare with, and a stream."""
        return {one: listener for one, listener in self.subscriptions.items() if one.digest is not None}


@dataclass(frozen=True, slots=True)
class QueryJob:
    """A query that is given to a worker."""

    listener: Listener
    target: uris.Target
    #: The subscriptions of stored sessions that were not notified yet: digest, session and URI.
    stored: Sequence[tuple[str | None, str, str]]
    #: Whether its clients are notified to read it themselves, if this computation fails too.
    is_last_try: bool


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The result of a worker. Without any field set, the principal may not see the query, and is not notified."""

    answer: LiveAnswer | None = None
    #: The principal may see it, but the database gave no answer in time.
    is_too_slow: bool = False
    #: The database is away, so nothing is known.
    is_unknown: bool = False


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
            self._follow(query, [subscription.concrete])
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
        for label in query.labels:
            self._index[label].pop(query, None)
            if not self._index[label]:
                del self._index[label]
        return True

    def receive(self, labels: Iterable[str], controls: ControlSet) -> None:
        """Compute the queries again that depend on changed models or rights."""
        for label in set(labels):
            for query in self._index.get(label, ()):
                self._touch(query)
        users = {f"user:{key}" for key in controls.keys_of(ControlKind.ACCESS)}
        if EVERYBODY in controls or users:
            for query in self._queries.values():
                if EVERYBODY in controls or next(iter(query.subscriptions.values())).principal.key in users:
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
                query.is_slow = query.is_slow or one.first.seconds > _CALL_SECONDS
                # The next answer shows what changed in a new model since the first one.
                query.dirty = self._follow(query, one.first.labels) or query.dirty
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
            try:
                jobs = [_job_of(*item) for item in zip(taken, known, strict=True)]
                outcomes = await get_workers().run(compute, jobs)
            except Overloaded:
                await asyncio.sleep(_BUSY_SECONDS)
                outcomes = []
            except Exception:
                logger.exception("Live queries could not be computed; trying again")
                outcomes = [QueryOutcome(is_unknown=True)] * len(taken)
            for query in taken[len(outcomes) :]:
                query.dirty = True
                lane.put(query)
            for query, subscribers, outcome in zip(taken, known, outcomes, strict=False):
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
            query.tries, query.is_slow = 0, outcome.answer.seconds > _CALL_SECONDS
            # A change of a new model may have been missed before the model was followed.
            query.dirty = self._follow(query, outcome.answer.labels) or query.dirty
            self._notify(query, known, outcome.answer.digest)
        elif outcome.is_too_slow or outcome.is_unknown:
            query.is_slow = query.is_slow or outcome.is_too_slow
            query.tries += 1
            pause = max(pause, min(max(pause, _WAIT_SECONDS) * 2 ** min(query.tries, 10), _LONGEST_PAUSE))
            if outcome.is_too_slow and query.tries >= _TRIES:
                self._notify(query, known, None)
            else:
                query.dirty = True
        query.rests_until = begun + (max(pause, _WAIT_SECONDS) if query.dirty else pause)
        query.scheduled = query.dirty
        if query.dirty:
            self._schedule(query)

    def _notify(self, query: LiveQuery, known: dict[Subscription, Listener], digest: str | None) -> None:
        """Notify the subscribers that know another answer; all of them if the digest is None, which is unknown."""
        for one, listener in known.items():
            if one.digest == digest or one not in query.subscriptions:
                continue
            if self._hub.notify(one, listener):
                one.digest, one.is_stored = digest if digest is not None else UNKNOWN, False
            else:
                query.dirty = True  # Its stream is about to be opened.


def _job_of(query: LiveQuery, known: dict[Subscription, Listener]) -> QueryJob:
    stored = [
        (one.digest, listener.session_key, one.uri)
        for one, listener in known.items()
        if one.is_stored and listener.session_key is not None
    ]
    listener = next(iter(query.subscriptions.values()))
    return QueryJob(listener, query.target, stored, is_last_try=query.tries + 1 >= _TRIES)


# In a worker.


def compute(jobs: Sequence[QueryJob]) -> list[QueryOutcome]:
    """The outcome of each query, or of the first of them if they take too long together."""
    end = time.monotonic() + _CALL_SECONDS
    outcomes: list[QueryOutcome] = []
    prefetch = Prefetch([one.listener for one in jobs])
    for _, group in groupby(jobs, key=lambda one: one.listener.identity):
        queries = list(group)
        found = list(_for_principal(queries, end, prefetch))
        outcomes += found
        if len(found) < len(queries) or found[-1].is_unknown or time.monotonic() >= end:
            break
    return outcomes


def _for_principal(jobs: Sequence[QueryJob], end: float, prefetch: Prefetch) -> Iterator[QueryOutcome]:
    """The outcomes of one principal's queries, as far as there is time: of the first of them always."""
    site = jobs[0].listener.site
    found: list[QueryOutcome] = []
    try:
        request = prefetch.request_of(jobs[0].listener)
        with site.call_context(request):
            viewer = Viewer(site, request)
            for one in jobs:
                found.append(_outcome(viewer, one))
                if found[-1].is_unknown or time.monotonic() >= end:
                    break
    except MCPError:
        # The credentials no longer hold; the sweep ends the stream.
        found += [QueryOutcome()] * (len(jobs) - len(found))
    except BaseException as error:
        if is_outage(error):
            found.append(QueryOutcome(is_unknown=True))
        else:
            logger.exception("Live queries cannot be computed; no client is notified")
            found += [QueryOutcome()] * (len(jobs) - len(found))
    yield from found[: len(jobs)]


def _outcome(viewer: Viewer, job: QueryJob) -> QueryOutcome:
    try:
        if not viewer.sees(job.target):
            return QueryOutcome()
        try:
            outcome = QueryOutcome(viewer.answer(job.target))
        except TooSlow:
            logger.warning("A live query took longer than STATEMENT_SECONDS; it is computed again later")
            outcome = QueryOutcome(is_too_slow=True)
        digest = outcome.answer.digest if outcome.answer is not None else None
        if outcome.answer is not None or job.is_last_try:
            # Before the notification: if a stream ends just then, its client is notified on the next stream.
            forget_answers((session, uri) for known, session, uri in job.stored if known != digest)
    except InvalidQuery:
        return QueryOutcome()
    except BaseException as error:
        if is_outage(error):
            logger.warning("The database failed a live query; it is computed again later", exc_info=True)
            return QueryOutcome(is_unknown=True)
        logger.exception("A live query cannot be computed; no client is notified")
        return QueryOutcome()
    return outcome
