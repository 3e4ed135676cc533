"""Live queries: who watches the answer to a query is told when that is another one, and only then.

A query is computed again when rows that it is made of change: for the first change at once, for those that follow once
in LIVE_SECONDS. All who watch it with equal rights share that. It happens in two workers at most, one of which is left
to queries that take their time, so that neither requests nor other queries have to wait for these.
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
from mcp_django.events.transaction import ACCESS, ACCESS_OF
from mcp_django.protocol.errors import MCPError, Overloaded, TooSlow
from mcp_django.push.listeners import Identity, Listener, Subscription
from mcp_django.push.live_answers import LiveAnswer, Viewer
from mcp_django.push.prefetch import Together
from mcp_django.resources import uris
from mcp_django.resources.filters import InvalidQuestion
from mcp_django.sessions.store import forget_answers
from mcp_django.workers import get_workers

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub

logger = logging.getLogger("mcp_django")

#: The digest that stands for an answer which nobody knows: any other is told.
UNKNOWN = ""

#: Queries that are taken by a worker at once, and how long it goes on with them. One that takes longer is slow.
_QUERIES_PER_CALL = 50
_CALL_SECONDS = 0.25
#: How often a query is asked for an answer in vain before its clients are told to ask for themselves.
_TRIES = 4
_LONGEST_PAUSE = 60.0
#: How often it is asked whether a query is watched in earnest yet.
_WAIT_SECONDS = 0.1
_BUSY_SECONDS = 0.05


@dataclass(slots=True, eq=False)
class LiveQuery:
    """One query, as principals with equal rights watch it."""

    identity: Identity
    target: uris.Target
    subscriptions: dict[Subscription, Listener] = field(default_factory=dict)
    #: Labels of the models that it is made of.
    labels: set[str] = field(default_factory=set)
    #: Something has changed since it was last computed.
    dirty: bool = False
    #: It waits for its time, for a worker, or is being computed.
    scheduled: bool = False
    is_slow: bool = False
    #: When it may be computed again, by the loop's clock.
    rests_until: float = 0.0
    #: How often it gave no answer since it last gave one.
    tries: int = 0

    @property
    def known(self) -> dict[Subscription, Listener]:
        """Those who may be told: each has an answer to compare with, and a stream to be told on."""
        return {one: listener for one, listener in self.subscriptions.items() if one.digest is not None}


@dataclass(frozen=True, slots=True)
class Asked:
    """A query on its way to a worker."""

    listener: Listener
    target: uris.Target
    #: Those of stored sessions who were told nothing yet: digest, session and URI.
    stored: Sequence[tuple[str | None, str, str]]
    #: Whether who watches it is told to ask for themselves, if it gives no answer this time either.
    is_last_try: bool


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a worker found. Nothing of it: the query may not be seen, and nobody is told."""

    answer: LiveAnswer | None = None
    #: It may be seen, and the database gave no answer in time.
    is_too_slow: bool = False
    #: The database is away, and nothing is known.
    is_unknown: bool = False


class Lane:
    """Queries that wait for a worker: those of one principal in turn with those of others."""

    def __init__(self) -> None:
        #: By the key of the principal, of whose streams each may have headers of its own.
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
        # An answer that it knows already may be older than its place here.
        query.dirty = query.dirty or subscription.digest is not None
        if is_new or query.dirty:
            self._wake(query)

    def remove(self, subscription: Subscription, listener: Listener) -> bool:
        """Whether it was there."""
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

    def hear(self, labels: Iterable[str], controls: Collection[str]) -> None:
        """Rows of models have changed, or rights: what is made of them is computed again."""
        for label in set(labels):
            for query in self._index.get(label, ()):
                self._touch(query)
        users = {f"user:{control.removeprefix(ACCESS_OF)}" for control in controls if control.startswith(ACCESS_OF)}
        if ACCESS in controls or users:
            for query in self._queries.values():
                if ACCESS in controls or next(iter(query.subscriptions.values())).principal.key in users:
                    self._touch(query)

    def works(self) -> list[Any]:
        """The coroutines that compute, for ever."""
        return [self._work(self._quick), self._work(self._slow)]

    def _follow(self, query: LiveQuery, labels: Collection[str]) -> bool:
        """Compute it again when rows of these models change too. Whether one of them is new to it."""
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
        """Give it to a worker, once there is somebody to compare its answer with."""
        if not query.subscriptions:
            return
        known = query.known
        if not known:
            self._hub.loop.call_later(_WAIT_SECONDS, self._offer, query)
            return
        for one in known:
            if one.first is not None:
                query.is_slow = query.is_slow or one.first.seconds > _CALL_SECONDS
                # What changed in a model between that answer and now is found by the next one.
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
            for query, who in zip(taken, known, strict=True):
                # Whose first answer is still being asked for, that may come to be one from before this change.
                query.dirty = len(who) < len(query.subscriptions)
            begun = self._hub.loop.time()
            try:
                asked = [_asked(query, who) for query, who in zip(taken, known, strict=True)]
                outcomes = await get_workers().run(compute, asked)
            except Overloaded:
                await asyncio.sleep(_BUSY_SECONDS)
                outcomes = []
            except Exception:
                logger.exception("Live queries could not be computed; trying again")
                outcomes = [Outcome(is_unknown=True)] * len(taken)
            for query in taken[len(outcomes) :]:
                query.dirty = True
                lane.put(query)
            for query, who, outcome in zip(taken, known, outcomes, strict=False):
                self._finish(query, who, outcome, begun)
            if lane is self._slow:
                # Half of the time the worker is free for others, on a server that has few.
                await asyncio.sleep(self._hub.loop.time() - begun)

    def _finish(self, query: LiveQuery, known: dict[Subscription, Listener], outcome: Outcome, begun: float) -> None:
        if not query.subscriptions:
            return  # Nobody watches it any more, and what it is made of is followed no more.
        pause = get_conf().LIVE_SECONDS
        if outcome.answer is not None:
            query.tries, query.is_slow = 0, outcome.answer.seconds > _CALL_SECONDS
            # What changed in a model before it was followed may have been missed.
            query.dirty = self._follow(query, outcome.answer.labels) or query.dirty
            self._tell(query, known, outcome.answer.digest)
        elif outcome.is_too_slow or outcome.is_unknown:
            query.is_slow = query.is_slow or outcome.is_too_slow
            query.tries += 1
            pause = max(pause, min(max(pause, _WAIT_SECONDS) * 2 ** min(query.tries, 10), _LONGEST_PAUSE))
            if outcome.is_too_slow and query.tries >= _TRIES:
                self._tell(query, known, None)
            else:
                query.dirty = True
        query.rests_until = begun + (max(pause, _WAIT_SECONDS) if query.dirty else pause)
        query.scheduled = query.dirty
        if query.dirty:
            self._schedule(query)

    def _tell(self, query: LiveQuery, known: dict[Subscription, Listener], digest: str | None) -> None:
        """Tell those who know of another answer. None: nobody knows which it is, so all of them."""
        for one, listener in known.items():
            if one.digest == digest or one not in query.subscriptions:
                continue
            if self._hub.tell(one, listener):
                one.digest, one.is_stored = digest if digest is not None else UNKNOWN, False
            else:
                query.dirty = True  # Its stream is about to be opened.


def _asked(query: LiveQuery, known: dict[Subscription, Listener]) -> Asked:
    stored = [
        (one.digest, listener.session_key, one.uri)
        for one, listener in known.items()
        if one.is_stored and listener.session_key is not None
    ]
    listener = next(iter(query.subscriptions.values()))
    return Asked(listener, query.target, stored, is_last_try=query.tries + 1 >= _TRIES)


# In a worker.


def compute(asked: Sequence[Asked]) -> list[Outcome]:
    """The outcome of each query, or of the first of them if they take too long together."""
    end = time.monotonic() + _CALL_SECONDS
    outcomes: list[Outcome] = []
    together = Together([one.listener for one in asked])
    for _, group in groupby(asked, key=lambda one: one.listener.identity):
        queries = list(group)
        found = list(_for_principal(queries, end, together))
        outcomes += found
        if len(found) < len(queries) or found[-1].is_unknown or time.monotonic() >= end:
            break
    return outcomes


def _for_principal(asked: Sequence[Asked], end: float, together: Together) -> Iterator[Outcome]:
    """The outcomes of one principal's queries, as far as there is time: of the first of them always."""
    site = asked[0].listener.site
    found: list[Outcome] = []
    try:
        request = together.request_of(asked[0].listener)
        with site.call_context(request):
            viewer = Viewer(site, request)
            for one in asked:
                found.append(_outcome(viewer, one))
                if found[-1].is_unknown or time.monotonic() >= end:
                    break
    except MCPError:
        found += [Outcome()] * (len(asked) - len(found))  # The credentials no longer hold; the sweep ends the stream.
    except BaseException as error:
        if is_outage(error):
            found.append(Outcome(is_unknown=True))
        else:
            logger.exception("Live queries cannot be computed; nobody is told")
            found += [Outcome()] * (len(asked) - len(found))
    yield from found[: len(asked)]


def _outcome(viewer: Viewer, asked: Asked) -> Outcome:
    try:
        if not viewer.sees(asked.target):
            return Outcome()
        try:
            outcome = Outcome(viewer.answer(asked.target))
        except TooSlow:
            logger.warning("A live query took longer than STATEMENT_SECONDS; it is computed again later")
            outcome = Outcome(is_too_slow=True)
        digest = outcome.answer.digest if outcome.answer is not None else None
        if outcome.answer is not None or asked.is_last_try:
            # Before they are told: should their streams end just then, it is told once more on the next ones.
            forget_answers((session, uri) for known, session, uri in asked.stored if known != digest)
    except InvalidQuestion:
        return Outcome()
    except BaseException as error:
        if is_outage(error):
            logger.warning("The database failed a live query; it is computed again later", exc_info=True)
            return Outcome(is_unknown=True)
        logger.exception("A live query cannot be computed; nobody is told")
        return Outcome()
    return outcome
