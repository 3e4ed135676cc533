"""Date parts by SQLite's own functions: Django's call Python for each row, which takes several times as long.

SQLite knows no time zones. So a moment is shifted by the offset that its zone has then: the offsets between the first
and the last moment of the rows are a CASE in the statement.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from django.conf import settings
from django.db import connections, models
from django.db.models import Func, Max, Min
from django.utils import timezone

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.date_parts import PARTS
from mcp_django.bridge.resources.fields.days import offsets
from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, TIME, Kind
from mcp_django.bridge.resources.fields.unreadable import is_fault_of_value
from mcp_django.core.db.bounds import bounded

#: More offsets than these make a statement that is no faster than Python.
MAX_OFFSETS = 40
#: Looking for the offsets of more years takes long, and finds more than these.
_MAX_YEARS = 100

_THURSDAY = "{at}, '-3 days', 'weekday 4'"

#: The SQL of each part. ``{at}`` is the moment and its shift, as the arguments of a date function.
_SQL: Mapping[str, str] = {
    "year": "CAST(strftime('%%Y', {at}) AS INTEGER)",
    "quarter": "(CAST(strftime('%%m', {at}) AS INTEGER) + 2) / 3",
    "month": "CAST(strftime('%%m', {at}) AS INTEGER)",
    # ISO 8601: a week is of the year in which its Thursday is.
    "week": f"(CAST(strftime('%%j', {_THURSDAY}) AS INTEGER) + 6) / 7",
    "day": "CAST(strftime('%%d', {at}) AS INTEGER)",
    "week_day": "CAST(strftime('%%w', {at}) AS INTEGER) + 1",
    "iso_year": f"CAST(strftime('%%Y', {_THURSDAY}) AS INTEGER)",
    "iso_week_day": "(CAST(strftime('%%w', {at}) AS INTEGER) + 6) %% 7 + 1",
    "hour": "CAST(strftime('%%H', {at}) AS INTEGER)",
    "minute": "CAST(strftime('%%M', {at}) AS INTEGER)",
    "date": "date({at})",
    "trunc_year": "date({at}, 'start of year')",
    "trunc_quarter": (
        "date({at}, 'start of month', '-' || ((CAST(strftime('%%m', {at}) AS INTEGER) - 1) %% 3) || ' months')"
    ),
    "trunc_month": "date({at}, 'start of month')",
    "trunc_week": "date({at}, '-6 days', 'weekday 1')",
    "trunc_hour": "strftime('%%Y-%%m-%%d %%H:00:00', {at})",
}

_FIELDS: Mapping[Kind, models.Field[Any, Any]] = {DATE: models.DateField(), DATETIME: models.DateTimeField()}

#: The offsets that hold from each instant on, as SQLite's text; the first one holds from the beginning.
Shift = Sequence[tuple[str, str]]
_UNSHIFTED: Shift = (("", ""),)


@dataclass(frozen=True, slots=True)
class NativePart:
    """A date part that SQLite computes itself."""

    part: str
    shift: Shift = _UNSHIFTED
    #: How much of the stored text is read: not the microseconds, which SQLite may round up.
    chars: int = len("YYYY-MM-DD HH:MM:SS")

    def of(self, value: Any) -> Any:
        field = _FIELDS.get(PARTS[self.part].kind, models.IntegerField())
        return _Part(value, native=self, output_field=field)


class _Part(Func):
    """The SQL of a part of a stored date, time or moment."""

    arity = 1

    def __init__(self, *expressions: Any, native: NativePart, **extra: Any) -> None:
        super().__init__(*expressions, **extra)
        self.native = native

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        value, params = compiler.compile(self.get_source_expressions()[0])
        at = f"substr({value}, 1, {self.native.chars}){_modifier(value, self.native.shift)}"
        sql = _SQL[self.native.part].replace("{at}", at)
        return f"({sql})", [*params] * sql.count(value)


def _modifier(value: str, shift: Shift) -> str:
    """The argument of a date function that shifts a moment; empty where it stays as it is."""
    if shift == _UNSHIFTED:
        return ""
    cases = [f"WHEN {value} < '{until}' THEN '{by}'" for (_, by), (until, _) in pairwise(shift)]
    last = f"'{shift[-1][1]}'"
    return f", CASE {' '.join(cases)} ELSE {last} END" if cases else f", {last}"


def native_parts(queryset: models.QuerySet[Any], wanted: Sequence[tuple[Column, str]]) -> list[NativePart | None]:
    """Parts of columns of these rows as SQLite computes them; None where Django does. Raises TooSlow.

    Reads the first and the last moment of each column once, if its zone may have had more than one offset.
    """
    connection = connections[queryset.db]
    if connection.vendor != "sqlite":
        return [None] * len(wanted)
    # A value that may be hidden is a subquery, which must not be written once for each offset.
    can = [column.is_plain for column, _ in wanted]
    local = [
        column for (column, part), plain in zip(wanted, can, strict=True)
        if plain and column.kind is DATETIME and part != "trunc_hour"
    ]  # fmt: skip
    shifts = _shifts(queryset, connection, {column.name: column for column in local})
    return [
        _native(column, part, shifts, connection) if plain else None
        for (column, part), plain in zip(wanted, can, strict=True)
    ]


def _native(column: Column, part: str, shifts: Mapping[str, Shift | None], connection: Any) -> NativePart | None:
    if column.kind is not DATETIME:
        return NativePart(part, chars=len("HH:MM:SS")) if column.kind is TIME else NativePart(part)
    if part == "trunc_hour":
        # An hour of UTC: if the stored text is in another zone, Django computes it.
        return NativePart(part) if settings.USE_TZ and connection.timezone_name == "UTC" else None
    shift = shifts[column.name]
    return None if shift is None else NativePart(part, shift)


def _shifts(
    queryset: models.QuerySet[Any], connection: Any, columns: Mapping[str, Column]
) -> Mapping[str, Shift | None]:
    """The shift of each column from the zone of the stored text to the present one; None where it is not known."""
    if not settings.USE_TZ or connection.timezone_name == timezone.get_current_timezone_name():
        return dict.fromkeys(columns, _UNSHIFTED)
    if connection.timezone_name != "UTC":
        # An hour of the stored text may stand for two, where clocks are put back.
        return dict.fromkeys(columns)
    return {name: _shift_of(queryset, column.expression()) for name, column in columns.items()}


def _shift_of(queryset: models.QuerySet[Any], value: Any) -> Shift | None:
    try:
        with bounded(queryset.db):
            ends = queryset.aggregate(_mcp_first=Min(value), _mcp_last=Max(value))
    except Exception as error:
        if is_fault_of_value(error):
            return None  # Text that is no moment, which Django takes for null.
        raise
    return _shift(ends["_mcp_first"], ends["_mcp_last"])


def _shift(first: datetime.datetime | None, last: datetime.datetime | None) -> Shift | None:
    if first is None or last is None:
        return _UNSHIFTED
    if last.year - first.year > _MAX_YEARS:
        return None
    try:
        # Whole years, since ``offsets`` keeps what it found for equal arguments.
        start = datetime.datetime(first.year, 1, 1, tzinfo=datetime.UTC)
        found = offsets(timezone.get_current_timezone(), start, start.replace(year=last.year + 1))
    except (OverflowError, ValueError):
        return None
    if len(found) > MAX_OFFSETS:
        return None
    return tuple(
        (since.replace(tzinfo=None).isoformat(sep=" "), f"{round(offset.total_seconds()):+d} seconds")
        for since, offset in found
    )
