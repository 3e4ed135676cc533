"""Parts of dates and times that rows are grouped by."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import models
from django.db.models import functions

from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, INTEGER, TIME, Kind


@dataclass(frozen=True, slots=True)
class DatePart:
    """A part of a date or time that rows are grouped by."""

    #: From the expression of the value to that of its part.
    of: Callable[[Any], Any]
    #: The kinds of column that have it.
    kinds: tuple[Kind, ...]
    #: The kind of the part itself.
    kind: Kind = INTEGER


def _first_day(truncate: Any) -> DatePart:
    """A longer time, as the date of its first day."""
    return DatePart(partial(truncate, output_field=models.DateField()), (DATE, DATETIME), DATE)


def _first_day_of_week(value: Any) -> Any:
    # MariaDB and MySQL would keep the time of day of a date-time.
    return functions.Cast(functions.TruncWeek(value, output_field=models.DateField()), models.DateField())


#: A part that is also a lookup means the same as in a filter. All but ``trunc_hour`` are in the current time zone.
PARTS: Mapping[str, DatePart] = {
    "year": DatePart(functions.ExtractYear, (DATE, DATETIME)),
    "quarter": DatePart(functions.ExtractQuarter, (DATE, DATETIME)),
    "month": DatePart(functions.ExtractMonth, (DATE, DATETIME)),
    "week": DatePart(functions.ExtractWeek, (DATE, DATETIME)),
    "day": DatePart(functions.ExtractDay, (DATE, DATETIME)),
    "week_day": DatePart(functions.ExtractWeekDay, (DATE, DATETIME)),
    "iso_year": DatePart(functions.ExtractIsoYear, (DATE, DATETIME)),
    "iso_week_day": DatePart(functions.ExtractIsoWeekDay, (DATE, DATETIME)),
    "hour": DatePart(functions.ExtractHour, (DATETIME, TIME)),
    "minute": DatePart(functions.ExtractMinute, (DATETIME, TIME)),
    "date": DatePart(functions.TruncDate, (DATETIME,), DATE),
    "trunc_year": _first_day(functions.TruncYear),
    "trunc_quarter": _first_day(functions.TruncQuarter),
    "trunc_month": _first_day(functions.TruncMonth),
    "trunc_week": DatePart(_first_day_of_week, (DATE, DATETIME), DATE),
    # An instant: where clocks are put back, two hours of the same name stay two.
    "trunc_hour": DatePart(partial(functions.TruncHour, tzinfo=datetime.UTC), (DATETIME,), DATETIME),
}

#: What the numbers of week days mean, which no name says.
WEEK_DAYS = "week_day: 1 is Sunday, 7 is Saturday; iso_week_day: 1 is Monday, 7 is Sunday."
