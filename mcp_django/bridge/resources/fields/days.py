"""Days as conditions on a column of date-times: ranges that an index answers, in the time zone that is active.

A local day is mostly one interval of time. Where clocks are put back over midnight it is two (St. John's, 7 November
2010), and where a day is left out it is none (Apia, 30 December 2011). Where USE_TZ is False, date-times are local
times without a zone, and each day is from one midnight to the next.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

#: From an instant (included) to an instant (not included), both in UTC.
Interval = tuple[datetime.datetime, datetime.datetime]

#: Zones are asked this often for their offset. None has changed it twice within three days since 1900.
_STEP = datetime.timedelta(days=1)
#: Further apart than local and universal time ever are.
_DAY_AND_MORE = datetime.timedelta(hours=30)
_SECOND = datetime.timedelta(seconds=1)


@lru_cache(maxsize=1_000)
def offsets(
    zone: datetime.tzinfo, start: datetime.datetime, end: datetime.datetime
) -> Sequence[tuple[datetime.datetime, datetime.timedelta]]:
    """Each offset from UTC that a zone has between two instants, with the instant from which it holds, in UTC.

    The first one holds from ``start``. Takes about a microsecond for each day between. Raises OverflowError within a
    day of the ends of the calendar.
    """
    first = start.astimezone(datetime.UTC)
    found = [(first, _offset(zone, first))]
    if isinstance(zone, datetime.timezone):
        return found
    for before, after in pairwise(_instants(first, end.astimezone(datetime.UTC))):
        if (offset := _offset(zone, after)) != found[-1][1]:
            found.append((_change(zone, before, after), offset))
    return found


def _instants(start: datetime.datetime, end: datetime.datetime) -> Iterator[datetime.datetime]:
    while start < end:
        yield start
        start += _STEP
    yield end


def _offset(zone: datetime.tzinfo, instant: datetime.datetime) -> datetime.timedelta:
    offset = instant.astimezone(zone).utcoffset()
    return datetime.timedelta() if offset is None else offset


def _change(zone: datetime.tzinfo, before: datetime.datetime, after: datetime.datetime) -> datetime.datetime:
    """The first second at which the zone has the offset that it has at ``after``."""
    wanted = _offset(zone, after)
    low, high = 0, round((after - before) / _SECOND)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, before + middle * _SECOND) == wanted:
            high = middle
        else:
            low = middle
    return before + high * _SECOND


def instants_of_days(zone: datetime.tzinfo, first: datetime.date, last: datetime.date) -> list[Interval]:
    """The instants whose local date is one of these days, in order.

    Raises OverflowError within days of the ends of the calendar.
    """
    midnight = datetime.time(tzinfo=datetime.UTC)
    low = datetime.datetime.combine(first, midnight)
    high = datetime.datetime.combine(last, midnight) + _STEP
    found: list[Interval] = []
    changes = [*offsets(zone, low - _DAY_AND_MORE, high + _DAY_AND_MORE), (high + _DAY_AND_MORE, _SECOND)]
    for (since, offset), (until, _) in pairwise(changes):
        begin, end = max(since, low - offset), min(until, high - offset)
        if found and found[-1][1] == begin < end:
            found[-1] = (found[-1][0], end)
        elif begin < end:
            found.append((begin, end))
    return found


_DAY = datetime.timedelta(days=1)
#: No change of clocks repeats or skips more days than these.
_NEAR = 2 * _DAY

#: From an instant (included) to an instant (not included). None: without an end on that side.
Range = tuple[datetime.datetime | None, datetime.datetime | None]


@dataclass(frozen=True, slots=True)
class Days:
    """Local days from the first to the last one, both included."""

    first: datetime.date
    last: datetime.date

    @classmethod
    def today(cls) -> Days:
        day = timezone.localdate() if settings.USE_TZ else datetime.date.today()
        return cls(day, day)

    @classmethod
    def of_year(cls, year: int) -> Days:
        return cls(datetime.date(year, 1, 1), datetime.date(year, 12, 31))

    @classmethod
    def of_iso_year(cls, year: int) -> Days:
        return cls(datetime.date.fromisocalendar(year, 1, 1), datetime.date.fromisocalendar(year + 1, 1, 1) - _DAY)

    @classmethod
    def of_month(cls, year: int, month: int) -> Days:
        first = datetime.date(year, month, 1)
        return cls(first, (first + 31 * _DAY).replace(day=1) - _DAY)

    def ranges(self) -> list[Range]:
        """The ranges of a column that hold these days: mostly one, none where the zone leaves the days out.

        Raises OverflowError within days of the ends of the calendar, as do the other methods.
        """
        if self.last - self.first > 2 * _NEAR:
            # Changes of clocks between the ends decide nothing, and finding those of thousands of years takes long.
            *early, (start, _) = self.since()
            (_, end), *late = self.until()
            return [*early, (start, end), *late]
        if not settings.USE_TZ:
            return [(_midnight(self.first), _midnight(self.last + _DAY))] if self.first <= self.last else []
        return list(instants_of_days(timezone.get_current_timezone(), self.first, self.last))

    def since(self) -> list[Range]:
        """The ranges of these days and of all later ones."""
        *_, (_, start) = Days(self.first - _NEAR, self.first - _DAY).ranges()
        early = [item for item in Days(self.first, self.first + _NEAR).ranges() if _precedes(item[0], start)]
        return [*early, (start, None)]

    def until(self) -> list[Range]:
        """The ranges of these days and of all earlier ones."""
        (end, _), *_ = Days(self.last + _DAY, self.last + _NEAR).ranges()
        late = [item for item in Days(self.last - _NEAR, self.last).ranges() if _precedes(end, item[1])]
        return [(None, end), *late]

    def after(self) -> list[Range]:
        return Days(self.last + _DAY, self.last + _DAY).since()

    def before(self) -> list[Range]:
        return Days(self.first - _DAY, self.first - _DAY).until()

    def start(self) -> datetime.datetime | None:
        """Their first instant; where the zone leaves the first day out, the next instant that there is."""
        return self.since()[0][0]

    def end(self) -> datetime.datetime | None:
        """The instant after their last one."""
        return self.until()[-1][1]


def _precedes(one: datetime.datetime | None, other: datetime.datetime | None) -> bool:
    return one is not None and other is not None and one < other


def _midnight(day: datetime.date) -> datetime.datetime:
    return datetime.datetime.combine(day, datetime.time())


#: Lookups that ask for the local date of a row → the days of a value.
_PARTS: Mapping[str, Callable[[Any], Days]] = {
    "date": lambda day: Days(day, day),
    "year": Days.of_year,
    "iso_year": Days.of_iso_year,
}

#: How they compare it.
_RANGES_OF_PARTS: Mapping[str, Callable[[Days], list[Range]]] = {
    "": Days.ranges, "gt": Days.after, "gte": Days.since, "lt": Days.before, "lte": Days.until,
}  # fmt: skip

#: How a date-time is compared with a day: the instants themselves, with the start or the end of the day.
_COMPARED: Mapping[str, Callable[[Days], Range]] = {
    "gt": lambda days: (days.end(), None),
    "gte": lambda days: (days.start(), None),
    "lt": lambda days: (None, days.start()),
    "lte": lambda days: (None, days.end()),
}


def comparison(path: str, lookup: str, value: Any) -> Q:
    """``Q(path__lookup=value)`` for a column that is no date-time, or for a value that is no day."""
    return Q((f"{path}__{lookup}", value))


def moment_comparison(path: str, lookup: str, value: Any) -> Q:
    """``Q(path__lookup=value)`` for a column of date-times, where days are ranges of it.

    A null is in no range, so that ``~`` finds it, as with the lookup itself.
    """
    try:
        ranges = _ranges(lookup, value)
    except OverflowError:
        ranges = None  # At the ends of the calendar.
    if ranges is None:
        return comparison(path, lookup, value)
    moments = [item for item in value if not isinstance(item, Days)] if lookup == "in" else []
    return _within(path, ranges, moments)


def _ranges(lookup: str, value: Any) -> Sequence[Range] | None:
    """The ranges of a lookup; None if it asks for no day."""
    part, _, compared = lookup.partition("__")
    if part in _PARTS and compared == "in":
        return _joined(item for one in value for item in _PARTS[part](one).ranges())
    if part in _PARTS and compared == "range":
        low, high = map(_PARTS[part], value)
        return Days(low.first, high.last).ranges()
    if part in _PARTS:
        return _RANGES_OF_PARTS[compared](_PARTS[part](value))
    if lookup == "in":
        days = [item for item in value if isinstance(item, Days)]
        return _joined(item for one in days for item in one.ranges()) if days else None
    if lookup == "range":
        return _between(*value)
    if not isinstance(value, Days):
        return None
    return value.ranges() if lookup == "exact" else [_COMPARED[lookup](value)]


def _between(low: Any, high: Any) -> Sequence[Range] | None:
    """``__range`` with at least one day as a half-open range of instants; None if both ends are date-times."""
    if isinstance(low, Days) and isinstance(high, Days):
        return Days(low.first, high.last).ranges()
    if isinstance(low, Days):
        is_last = high.replace(tzinfo=None) == datetime.datetime.max
        return [(low.start(), None if is_last else high + datetime.datetime.resolution)]
    return [(low, high.end())] if isinstance(high, Days) else None


def _joined(ranges: Iterable[Any]) -> list[Range]:
    """The ranges in order, those that follow each other as one."""
    found: list[Range] = []
    for begin, end in sorted(set(ranges)):
        if found and found[-1][1] == begin:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def _within(path: str, ranges: Sequence[Range], moments: Sequence[datetime.datetime] = ()) -> Q:
    """A condition that the column is in one of the ranges, or one of the moments."""
    parts = [_in_range(path, begin, end) for begin, end in ranges]
    if moments or not parts:
        parts.append(Q((f"{path}__in", list(moments))))
    return Q(*parts, _connector=Q.OR)


def _in_range(path: str, begin: datetime.datetime | None, end: datetime.datetime | None) -> Q:
    bounds = {"gte": begin, "lt": end}
    return Q(*((f"{path}__{lookup}", bound) for lookup, bound in bounds.items() if bound is not None))
