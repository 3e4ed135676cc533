"""The computing of live queries in a worker: for one principal after the other, as long as there is time."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.core.db.outages import is_outage
from mcp_django.core.events.changed_rows import Changes
from mcp_django.exceptions import MCPError
from mcp_django.protocol.errors import TooSlow
from mcp_django.push import live_answers
from mcp_django.push.listeners import Listener
from mcp_django.push.live_answers import LiveAnswer, Viewer
from mcp_django.push.prefetch import Prefetch
from mcp_django.push.sessions.session_rows import forget_answers

logger = logging.getLogger("mcp_django")

#: How long one call of a worker goes on with queries. A query that takes longer is slow.
CALL_SECONDS = 0.25
#: Shared, so that sets that have nothing to be compared with share what comes next.
NO_CHANGES = Changes()


@dataclass(frozen=True, slots=True)
class QueryJob:
    """A query that is given to a worker."""

    listener: Listener
    target: uris.Target
    #: The subscriptions of stored sessions that were not notified yet: digest, session and URI.
    stored: Sequence[tuple[str | None, str, str]]
    #: Whether its clients are notified to read it themselves, if this computation fails too.
    is_last_try: bool
    #: A set: as in LiveQuery.
    before: LiveAnswer | None = None
    changes: Changes = field(default_factory=Changes)
    rights_changed: bool = False


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The result of a worker. Without any field set, the principal may not see the query, and is not notified."""

    answer: LiveAnswer | None = None
    #: A set: its clients are notified, whatever they know.
    notify: bool = False
    #: The principal may see it, but the database gave no answer in time.
    is_too_slow: bool = False
    #: The database is away, so nothing is known.
    is_unknown: bool = False


def compute(jobs: Sequence[QueryJob]) -> list[QueryOutcome]:
    """The outcome of each query, or of the first of them if they take too long together."""
    end = time.monotonic() + CALL_SECONDS
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
        with site.in_context(request):
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
            outcome = QueryOutcome(*_answer(viewer, job))
        except TooSlow:
            logger.warning("A live query took longer than STATEMENT_SECONDS; it is computed again later")
            outcome = QueryOutcome(is_too_slow=True)
        digest = outcome.answer.digest if outcome.answer is not None else None
        if outcome.answer is not None or job.is_last_try:
            # Before the notification: if a stream ends just then, its client is notified on the next stream. The client
            # of a set is notified there in any case: its rows may have been written between the two streams.
            forget_answers((session, uri) for known, session, uri in job.stored if known != digest or job.target.is_set)
    except InvalidQuery:
        return QueryOutcome()
    except BaseException as error:
        if is_outage(error):
            logger.warning("The database failed a live query; it is computed again later", exc_info=True)
            return QueryOutcome(is_unknown=True)
        logger.exception("A live query cannot be computed; no client is notified")
        return QueryOutcome()
    return outcome


def _answer(viewer: Viewer, job: QueryJob) -> tuple[LiveAnswer | None, bool]:
    """The present answer, and whether the clients are notified even if it is the one that they know."""
    if job.before is None:
        return viewer.answer(job.target), False
    return live_answers.after(viewer, job.target, job.before, job.changes, rights_changed=job.rights_changed)
