"""The instants of local days, compared with what Python says of each instant."""

from __future__ import annotations

import datetime
from zoneinfo import ZoneInfo

from hypothesis import given
from hypothesis import strategies as st

from mcp_django.bridge.resources.fields.days import Interval, instants_of_days, offsets

UTC = datetime.UTC
HOUR = datetime.timedelta(hours=1)

#: Zones whose clocks are put back over midnight, leave out a midnight or a day, or are odd in other ways.
ZONES = [
    "UTC", "America/New_York", "America/St_Johns", "America/Sao_Paulo", "Pacific/Apia", "Asia/Kathmandu",
    "Australia/Lord_Howe", "Africa/Casablanca", "Europe/Dublin", "Atlantic/Azores",
]  # fmt: skip


def instant(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text).astimezone(UTC)


def holds(intervals: list[Interval], moment: datetime.datetime) -> bool:
    return any(begin <= moment < end for begin, end in intervals)


@given(
    st.sampled_from(ZONES),
    st.dates(datetime.date(1970, 1, 1), datetime.date(2037, 12, 31)),
    st.integers(0, 40),
    st.integers(-40 * 60, 40 * 24 * 60 * 2),
)
def test_an_instant_is_in_the_intervals_if_its_local_date_is_one_of_the_days(
    name: str, first: datetime.date, days: int, minutes: int
) -> None:
    zone, last = ZoneInfo(name), first + datetime.timedelta(days=days)
    moment = datetime.datetime.combine(first, datetime.time(), UTC) + datetime.timedelta(minutes=minutes)

    intervals = instants_of_days(zone, first, last)

    assert holds(intervals, moment) == (first <= moment.astimezone(zone).date() <= last)


DAYS: list[tuple[str, str, list[tuple[str, str]]]] = [
    ("America/St_Johns", "2010-11-07", [
        ("2010-11-07T00:00-02:30", "2010-11-07T00:01-02:30"), ("2010-11-07T00:00-03:30", "2010-11-08T00:00-03:30"),
    ]),
    ("Pacific/Apia", "2011-12-30", []),
    ("America/Sao_Paulo", "2018-11-04", [("2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00")]),
    ("America/New_York", "2013-03-10", [("2013-03-10T00:00-05:00", "2013-03-11T00:00-04:00")]),
    ("UTC", "2013-03-10", [("2013-03-10T00:00+00:00", "2013-03-11T00:00+00:00")]),
]  # fmt: skip


def test_a_day_of_two_intervals_of_none_and_of_one() -> None:
    for zone, day, intervals in DAYS:
        date = datetime.date.fromisoformat(day)
        expected = [(instant(start), instant(end)) for start, end in intervals]
        assert instants_of_days(ZoneInfo(zone), date, date) == expected, zone


def test_a_zone_of_a_fixed_offset_has_one() -> None:
    zone = datetime.timezone(5 * HOUR)
    start = datetime.datetime(1990, 1, 1, tzinfo=UTC)

    assert offsets(zone, start, datetime.datetime(2090, 1, 1, tzinfo=UTC)) == [(start, 5 * HOUR)]
