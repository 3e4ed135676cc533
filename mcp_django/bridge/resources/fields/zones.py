"""Time zones: when the offset of a zone changes, and which instants a local day has.

A local day is mostly one interval of time. Where clocks are put back over midnight it is two (St. John's, 7 November
2010), and where a day is left out it is none (Apia, 30 December 2011).
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise

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
