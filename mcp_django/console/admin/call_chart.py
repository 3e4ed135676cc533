"""The chart of the first page: what agents did in each hour or on each day of a period, of one tool and one agent."""

from __future__ import annotations

import datetime
import json
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from threading import Lock
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, QuerySet, Sum, Value
from django.db.models.functions import Concat
from django.http import QueryDict
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.bridge.resources.fields.days import Days, moment_comparison
from mcp_django.core.db.bounds import bounded
from mcp_django.models import Call
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.names import printable

#: The periods that may be chosen, and how many days each has. That of one day is shown by hours.
PERIODS: Mapping[str, tuple[Promise, int]] = {
    "day": (_("24 hours"), 1), "week": (_("7 days"), 7), "month": (_("30 days"), 30),
}  # fmt: skip
_PERIOD = "week"
#: After this time, the recorder has written every line of what is over.
_LATE = datetime.timedelta(hours=1)
_HOUR, _DAY = datetime.timedelta(hours=1), datetime.timedelta(days=1)
#: How many of the newest calls give their tools and agents as choices, and how many choices there are at most.
_NEWEST, _OFFERED = 1_000, 30
#: How long counting may take.
_SECONDS = 5.0


@dataclass(frozen=True)
class Span:
    """What agents did on one local day, or in one hour."""

    #: A date, or the moment at which the hour begins.
    since: datetime.date
    calls: int = 0
    failed: int = 0
    refused: int = 0
    agents: int = 0
    rows: int = 0

    @property
    def unsuccessful(self) -> int:
        return self.failed + self.refused

    @property
    def done(self) -> int:
        return self.calls - self.unsuccessful


@dataclass(frozen=True)
class Of:
    """Whose calls are counted: those of one tool or prompt, and of one agent, which is a user's client."""

    tool: str = ""
    #: The id of the user, and what the client calls itself.
    agent: tuple[str, str] | None = None

    @classmethod
    def chosen(cls, given: QueryDict) -> Of:
        """What the URL says. A name that cannot be stored is nobody's."""
        try:
            user_id, client = from_json(given.get("agent", ""))
            agent = (str(user_id), str(client))
        except (ValueError, TypeError):
            agent = None
        tool = given.get("tool", "")
        return cls("" if "\0" in tool else tool, None if agent is None or "\0" in "".join(agent) else agent)

    @property
    def condition(self) -> Q:
        found = Q(kind__in=Call.BY_AGENTS)
        if self.tool:
            found &= Q(name=self.tool)
        if self.agent is not None:
            found &= Q(user_id=self.agent[0], client_name=self.agent[1])
        return found


@dataclass(frozen=True)
class Choice:
    value: str
    label: Any
    is_chosen: bool


class Chart:
    """What the page shows for the parameters ``period``, ``tool`` and ``agent`` of its URL.

    ``calls`` are those that the viewer may see, and ``key`` names them.
    """

    def __init__(self, given: QueryDict, calls: QuerySet[Call], key: str) -> None:
        chosen = given.get("period", "")
        self._period = chosen if chosen in PERIODS else _PERIOD
        self._of = Of.chosen(given)
        self._calls, self._key = calls, key
        #: Whether there were too many calls to count them in time.
        self.is_too_slow = False

    @property
    def is_by_hours(self) -> bool:
        return PERIODS[self._period][1] == 1

    @property
    def is_narrowed(self) -> bool:
        return self._of != Of()

    @cached_property
    def spans(self) -> Sequence[Span]:
        """The hours or days of the period, the oldest first."""
        return self._counted(_hours() if self.is_by_hours else _days(PERIODS[self._period][1]), self._of)

    @cached_property
    def today(self) -> Span:
        """What all agents did today, whatever is chosen."""
        if self.is_by_hours or self.is_narrowed:
            return self._counted(_days(1), Of())[0]
        return self.spans[-1]

    def _counted(self, since: Sequence[datetime.date], of: Of) -> Sequence[Span]:
        try:
            with bounded(self._calls.db, _SECONDS):
                return counted(self._calls, self._key, since, of)
        except TooSlow:
            self.is_too_slow = True
            return [Span(one) for one in since]

    @property
    def most(self) -> int:
        return max(span.calls for span in self.spans)

    @property
    def labelled(self) -> Sequence[Span]:
        """Those whose moments stand below the chart: more would not fit a phone."""
        return [self.spans[0], self.spans[len(self.spans) // 2], self.spans[-1]]

    @property
    def periods(self) -> Iterator[Choice]:
        return (Choice(name, label, name == self._period) for name, (label, _days) in PERIODS.items())

    @property
    def tools(self) -> Sequence[Choice]:
        names = [name for name, *_ in self._newest if name]
        return list(_choices(((name, name) for name in names), self._of.tool))

    @property
    def agents(self) -> Sequence[Choice]:
        named = (
            (_agent_value(user, client), _agent_label(name or user, client))
            for _, user, name, client in self._newest
            if user or client
        )
        chosen = "" if self._of.agent is None else _agent_value(*self._of.agent)
        return list(_choices(named, chosen))

    @cached_property
    def _newest(self) -> Sequence[tuple[str, str, str, str]]:
        newest = self._calls.filter(kind__in=Call.BY_AGENTS).order_by("-at", "-pk")
        return list(newest.values_list("name", "user_id", "user_name", "client_name")[:_NEWEST])


def _agent_value(user_id: str, client: str) -> str:
    return json.dumps([user_id, client])


def _agent_label(user: str, client: str) -> str:
    return printable(gettext("%(agent)s of %(user)s") % {"agent": client, "user": user} if client else user)


def _choices(found: Iterator[tuple[str, str]], chosen: str) -> Iterator[Choice]:
    """The most common values, in the order of their labels, and the one that is chosen."""
    # A user may have been renamed: the more common name is shown.
    labels = dict(pair for pair, _count in reversed(Counter(found).most_common(_OFFERED)))
    if chosen:
        labels.setdefault(chosen, printable(chosen))
    for value, label in sorted(labels.items(), key=itemgetter(1)):
        yield Choice(value, label, value == chosen)


# Counting.

#: Spans of all tools and agents that are over, by whose calls are counted, time zone and span: counting one reads all
#: of its lines.
_finished: OrderedDict[tuple[str, str, datetime.date], Span] = OrderedDict()
_finished_lock = Lock()
_MAX_FINISHED = 1_000


def forget() -> None:
    """Count everything anew."""
    with _finished_lock:
        _finished.clear()


def _days(number: int) -> Sequence[datetime.date]:
    """The last local days, the oldest first."""
    today = Days.today().first
    return [today - back * _DAY for back in reversed(range(number))]


def _hours() -> Sequence[datetime.datetime]:
    """The beginnings of the last 24 hours, in the local time of each, the oldest first."""
    this = timezone.now().replace(minute=0, second=0, microsecond=0)
    hours = [this - back * _HOUR for back in reversed(range(24))]
    return [timezone.localtime(hour) for hour in hours] if settings.USE_TZ else hours


def counted(calls: QuerySet[Call], key: str, spans: Sequence[datetime.date], of: Of) -> Sequence[Span]:
    """These days or hours of the calls that ``key`` names. Those that are over are counted once in a process.

    What is narrowed is counted each time, since a URL may name any tool and any agent.
    """
    zone, now = timezone.get_current_timezone_name(), timezone.now()
    with _finished_lock:
        known = {} if of != Of() else {one: _finished.get((key, zone, one)) for one in spans}
    found = dict(_counted(calls, [one for one in spans if known.get(one) is None], of))
    with _finished_lock:
        for since, span in found.items() if known else ():
            end = _end(since)
            # The last lines of a span may be written after its end.
            if end is not None and now - end > _LATE:
                _finished[key, zone, since] = span
        while len(_finished) > _MAX_FINISHED:
            _finished.popitem(last=False)
    return [known.get(since) or found[since] for since in spans]


def _end(since: datetime.date) -> datetime.datetime | None:
    return since + _HOUR if isinstance(since, datetime.datetime) else Days(since, since).end()


def _counted(calls: QuerySet[Call], spans: Sequence[datetime.date], of: Of) -> Iterator[tuple[datetime.date, Span]]:
    """Count these days or hours with one statement. Each of its parts finds its lines by the index of the time."""
    if not spans:
        return
    first, *others = [_of_span(calls, number, since, of) for number, since in enumerate(spans)]
    for row in first.union(*others, all=True).order_by() if others else first:
        since = spans[row["number"]]
        yield since, Span(since, *(row[name] or 0 for name in ("calls", "failed", "refused", "agents", "rows_read")))


def _of_span(calls: QuerySet[Call], number: int, since: datetime.date, of: Of) -> Any:
    is_hour = isinstance(since, datetime.datetime)
    within = Q(at__gte=since, at__lt=_end(since)) if is_hour else moment_comparison("at", "date", since)
    counted: Any = (
        calls.filter(within, of.condition)
        .values(number=Value(number))
        .annotate(
            calls=Sum("count"),
            failed=Sum("count", filter=Q(outcome=Call.Outcome.FAILED)),
            refused=Sum("count", filter=Q(outcome=Call.Outcome.REFUSED)),
            agents=Count(Concat("user_id", Value(" "), "client_name"), distinct=True),
            rows_read=Sum("rows"),
        )
    )
    return counted
