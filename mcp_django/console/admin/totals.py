"""What agents did in the last hour, day or week, added up: by agent, token and tool, and the errors that are alike.

The numbers are kept for a minute in Django's cache, under what names the calls that the viewer may see.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from django.core.cache import cache
from django.db import connections
from django.db.models import Case, Max, Min, Q, QuerySet, Sum, When
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.resources.aggregates.percentiles import Percentile
from mcp_django.console.admin.seen_calls import key_of
from mcp_django.core.db.bounds import bounded
from mcp_django.models import Call
from mcp_django.protocol.errors import TooSlow

logger = logging.getLogger("mcp_django")

#: How long a period is, and what it is called. None is longer than seven days.
PERIODS: Mapping[str, tuple[timedelta, Any]] = {
    "hour": (timedelta(hours=1), _("past hour")),
    "day": (timedelta(days=1), _("past 24 hours")),
    "week": (timedelta(days=7), _("past 7 days")),
}
#: The number of lines of each table.
MOST = 50
KEPT_SECONDS = 60
#: How long a statement may take: a longer period is worth no more.
_SECONDS = 5.0
#: Bytes of text that make a token of a language model, as a rule of thumb.
BYTES_PER_TOKEN = 4
#: Calls whose times are read where the database finds no percentile itself.
MOST_SAMPLED = 20_000
_PERCENT = 95
#: Refusals took no time that is worth a number.
_TIMED = Q(ms__gt=0)
_UNSUCCESSFUL = Q(outcome__in=[Call.Outcome.FAILED, Call.Outcome.REFUSED])


@dataclass(frozen=True)
class Grouping:
    """One of the tables: what its lines are about, and the calls that count."""

    column: str
    #: A column of what people call it, which may differ between lines.
    label: str
    counts: Q


GROUPINGS: Mapping[str, Grouping] = {
    "client": Grouping("client_name", "client_name", Q()),
    "token": Grouping("token_id", "token_name", Q(token_id__isnull=False)),
    "tool": Grouping("name", "name", ~Q(name="")),
}


@dataclass(frozen=True)
class Line:
    """The numbers of one agent, token or tool."""

    value: Any
    label: str
    calls: int
    errors: int
    rows: int
    bytes: int
    p95: float | None

    @property
    def tokens(self) -> int:
        """About how many tokens of a language model its answers took."""
        return self.bytes // BYTES_PER_TOKEN

    @property
    def share(self) -> int:
        """The errors in a hundred calls."""
        return round(100 * self.errors / self.calls) if self.calls else 0


@dataclass(frozen=True)
class Alike:
    """Errors of one tool with one reason and the same names."""

    name: str
    method: str
    reason: str
    detail: str
    count: int
    first: datetime
    last: datetime


@dataclass(frozen=True)
class Totals:
    counted_at: datetime
    tables: Mapping[str, Sequence[Line]] = field(default_factory=dict)
    errors: Sequence[Alike] = ()
    #: Whether the times are those of the newest calls alone.
    is_sampled: bool = False
    #: Whether there are too many calls to add up in time.
    is_too_slow: bool = False


def totals(request: HttpRequest, calls: QuerySet[Call], period: str) -> Totals:
    """The numbers of a period, of those calls that the viewer may see."""
    key = f"mcp_django:totals:{period}:{key_of(request, calls)}"
    found: Totals | None = _kept(key)
    if found is None:
        found = _counted(calls, period)
        _keep(key, found)
    return found


def _counted(calls: QuerySet[Call], period: str) -> Totals:
    counted_at = timezone.now()
    within = calls.order_by().filter(at__gt=counted_at - PERIODS[period][0], kind__in=Call.BY_AGENTS)
    try:
        with bounded(within.db, _SECONDS):
            sample = None if connections[within.db].vendor == "postgresql" else Sample(within)
            tables = {name: _table(within, one, sample) for name, one in GROUPINGS.items()}
            return Totals(counted_at, tables, _alike(within), is_sampled=sample is not None and sample.is_cut)
    except TooSlow:
        return Totals(counted_at, is_too_slow=True)


def _table(calls: QuerySet[Call], of: Grouping, sample: Sample | None) -> Sequence[Line]:
    """The lines of a table, those with the most calls first."""
    # Nulls are ignored. How a filter stands in a template of SQL depends on the version of Django.
    exact = {"p95": _Nearest(Case(When(_TIMED, then="ms")), _PERCENT)} if sample is None else {}
    rows = calls.filter(of.counts).values(of.column).annotate(
        shown=Max(of.label), calls=Sum("count"), errors=Sum("count", filter=_UNSUCCESSFUL),
        read=Sum("rows"), sent=Sum("bytes"), **exact,
    ).order_by("-calls", of.column)[:MOST]  # fmt: skip
    return [
        Line(
            row[of.column], str(row["shown"] or ""), row["calls"], row["errors"] or 0, row["read"], row["sent"],
            row["p95"] if sample is None else sample.p95(of.column, row[of.column]),
        )
        for row in rows
    ]  # fmt: skip


class Sample:
    """The times of the newest calls, for databases without an aggregate for percentiles."""

    def __init__(self, calls: QuerySet[Call]) -> None:
        columns = [one.column for one in GROUPINGS.values()]
        newest = calls.filter(_TIMED).order_by("-at")[: MOST_SAMPLED + 1]
        self._times: dict[tuple[str, Any], list[float]] = defaultdict(list)
        found = list(newest.values_list("ms", *columns))
        self.is_cut = len(found) > MOST_SAMPLED
        for ms, *values in found[:MOST_SAMPLED]:
            for key in zip(columns, values, strict=True):
                self._times[key].append(ms)

    def p95(self, column: str, value: Any) -> float | None:
        """The time within which 95 of a hundred calls were answered, as ``percentile_disc`` finds it."""
        times = sorted(self._times.get((column, value), ()))
        return times[math.ceil(len(times) * _PERCENT / 100) - 1] if times else None


class _Nearest(Percentile):
    """The value below or at which so many of a hundred are, as PostgreSQL finds it."""

    function = "PERCENTILE_DISC"
    template = "%(function)s(%(fraction)s) WITHIN GROUP (ORDER BY %(expressions)s)"


def _alike(calls: QuerySet[Call]) -> Sequence[Alike]:
    """The errors that are alike, the most frequent first."""
    names = ("name", "method", "reason", "detail")
    rows = calls.filter(_UNSUCCESSFUL).values(*names).annotate(
        number=Sum("count"), first=Min("at"), last=Max("at")
    ).order_by("-number", "-last")[:MOST]  # fmt: skip
    return [
        Alike(row["name"], row["method"], row["reason"], row["detail"], row["number"], row["first"], row["last"])
        for row in rows
    ]


# Kept for a minute.


def _kept(key: str) -> Any:
    try:
        return cache.get(key)
    except Exception:
        logger.warning("The cache could not be read", exc_info=True)
        return None


def _keep(key: str, found: Totals) -> None:
    try:
        cache.set(key, found, KEPT_SECONDS)
    except Exception:
        logger.warning("The cache could not be written", exc_info=True)
