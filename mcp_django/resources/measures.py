"""Columns of an aggregate: the fields and dates that rows are grouped by, and the measures of each group.

Only the rights turn a name into a field, so that a hidden related row is in the group of null, and no measure
counts its values.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from typing import Any

from django.db import models
from django.db.models import Avg, Case, Count, Max, Min, StdDev, Sum, When, functions
from django.db.models.lookups import GreaterThanOrEqual, IsNull

from mcp_django.resources.columns import Column
from mcp_django.resources.errors import InvalidQuery, unknown_path
from mcp_django.resources.kinds import BOOLEAN, DATE, DATETIME, DECIMAL, DURATION, INTEGER, NUMBER, TEXT, TIME, Kind
from mcp_django.resources.parsing import column_of
from mcp_django.resources.policy import ModelRights
from mcp_django.unknown_names import unknown_name

#: Whatever a project's column may hold, and whatever a filter may send, summed up.
_WIDE = models.DecimalField(max_digits=100, decimal_places=30)

#: How much finer the mean of decimals is than they are.
_MORE_PLACES = 4

_NUMBERS = frozenset({INTEGER, NUMBER, DECIMAL})


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
    # Of a moment, MariaDB and MySQL would keep the time of day.
    return functions.Cast(functions.TruncWeek(value, output_field=models.DateField()), models.DateField())


#: Those that are lookups too mean what they mean in a filter: all but ``trunc_hour`` are in the project's time zone.
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


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A column of the table that holds the group of each row."""

    #: As the agent wrote it: ``status``, ``carrier__name``, ``departs_at__month``.
    name: str
    column: Column
    part: DatePart | None = None

    @property
    def kind(self) -> Kind:
        return _kind_of(self.column) if self.part is None else self.part.kind

    @property
    def nullable(self) -> bool:
        return self.column.nullable

    def expression(self) -> Any:
        value = self.column.expression()
        return value if self.part is None else self.part.of(value)


class _Float:
    """An aggregate that MariaDB and MySQL would cut at four digits after the point, where the values are integers."""

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="%(function)s(%(distinct)s%(expressions)s + 0e0)", **context)  # type: ignore[attr-defined]


class _Mean(_Float, Avg):
    pass


class _Deviation(_Float, StdDev):
    """The standard deviation of all values of a group; SQLite's, which Python computes, fails on nulls."""

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        value = self.get_source_expressions()[0]
        # Made anew, since Django wraps the filter when it is given, from 6.0 on.
        return type(self)(value, filter=IsNull(value, False)).as_sql(compiler, connection, **context)


def _sum(value: Any, column: Column) -> Any:
    # It may be compared with more than the column itself can hold.
    return Sum(value, output_field=models.BigIntegerField() if column.kind is INTEGER else _wide(column))


def _avg(value: Any, column: Column) -> Any:
    return _Mean(value) if column.kind is INTEGER else Avg(value, output_field=_wide(column))


def _extreme(function: Any, value: Any, column: Column) -> Any:
    return function(value, output_field=_wide(column) or column_of(column.field))


def _wide(column: Column) -> Any:
    return _WIDE if column.kind is DECIMAL else None


def _kind_of(column: Column, more_places: int = 0) -> Kind:
    """The kind of a column's values as they come out of a computation: decimals with as many places on any database."""
    places = getattr(column_of(column.field), "decimal_places", None)
    if column.kind is not DECIMAL or places is None:
        return column.kind
    return replace(DECIMAL, write=partial(_write_decimal, places + more_places))


def _write_decimal(places: int, value: Decimal) -> str:
    rounded = value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, Context(prec=100 + places))
    return format(rounded, "f")


def _mean_kind(column: Column) -> Kind:
    return NUMBER if column.kind is INTEGER else _kind_of(column, _MORE_PLACES)


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function that aggregates the values of a column. Nulls are ignored."""

    #: From the expression of a value, and its column, to the aggregate.
    of: Callable[[Any, Column], Any]
    kind: Callable[[Column], Kind]
    #: The kinds of column that have it; None: each whose values can be compared.
    kinds: frozenset[Kind] | None = None
    nullable: bool = True
    #: Whether it computes with numbers, which keys are not.
    is_arithmetic: bool = False
    #: Whether the result is the value of one row.
    is_value_of_a_row: bool = False

    def takes(self, column: Column) -> bool:
        if self.is_arithmetic and _is_key(column):
            return False
        return column.kind.orderable if self.kinds is None else column.kind in self.kinds


def _is_key(column: Column) -> bool:
    return column.related is not None or column.field.primary_key


_AMOUNTS = _NUMBERS | {DURATION}
_ORDERED = _AMOUNTS | {DATE, DATETIME, TIME, TEXT}

FUNCTIONS: Mapping[str, AggregateFunction] = {
    "count": AggregateFunction(lambda value, column: Count(value), lambda column: INTEGER, nullable=False),
    "count_distinct": AggregateFunction(
        lambda value, column: Count(value, distinct=True), lambda column: INTEGER, nullable=False
    ),
    "sum": AggregateFunction(_sum, _kind_of, _AMOUNTS, is_arithmetic=True),
    "avg": AggregateFunction(_avg, _mean_kind, _AMOUNTS, is_arithmetic=True),
    "min": AggregateFunction(partial(_extreme, Min), _kind_of, _ORDERED, is_value_of_a_row=True),
    "max": AggregateFunction(partial(_extreme, Max), _kind_of, _ORDERED, is_value_of_a_row=True),
    "stddev": AggregateFunction(
        lambda value, column: _Deviation(value, output_field=models.FloatField()), lambda column: NUMBER, _NUMBERS,
        is_arithmetic=True,
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the table that holds a measure of each group: the number of its rows, or an aggregate of a column."""

    #: As the agent wrote it: ``count``, ``avg:distance``.
    name: str
    function: AggregateFunction | None = None
    column: Column | None = None

    @property
    def kind(self) -> Kind:
        return INTEGER if self.function is None or self.column is None else self.function.kind(self.column)

    @property
    def nullable(self) -> bool:
        return self.function is not None and self.function.nullable

    @property
    def is_value_of_a_row(self) -> bool:
        return self.function is not None and self.function.is_value_of_a_row

    def expression(self, smallest: int = 1) -> Any:
        """The aggregate; null where fewer than ``smallest`` rows of the group have a value."""
        if self.function is None or self.column is None:
            return Count("*")
        value = self.column.expression()
        computed = self.function.of(value, self.column)
        if smallest <= 1:
            return computed
        return Case(When(GreaterThanOrEqual(Count(value), smallest), then=computed), default=None)

    def read(self, lookup: str, value: Any) -> Any:
        """The value that the measure is compared with, as the ORM takes it. Raises ValidationError."""
        if lookup == "isnull":
            return BOOLEAN.read(models.BooleanField(), value)
        field = models.BigIntegerField() if self.column is None or self.kind is INTEGER else self.column.field
        return self.kind.read(field, value)


def group_of(rights: ModelRights, name: str) -> GroupColumn:
    """What a name of ``group_by`` means. Raises InvalidQuery."""
    column, part = rights.column_and_lookup(name)
    if column is None:
        text = _no_column("field to group by", rights, name, _groupable(rights), group_names(rights))
        raise InvalidQuery.one("group_by", text, name)
    if not column.kind.orderable:
        message = f"{column.name} holds values of the type {column.kind.name}, which make no groups."
        raise InvalidQuery.one("group_by", f"{message} {_allowed(_groupable(rights))}", name)
    if not part:
        return GroupColumn(name, column)
    parts = [key for key, item in PARTS.items() if column.kind in item.kinds]
    if part not in parts:
        what = f"part of {column.name}"
        text = unknown_name(what, part, parts) if column.related is None else unknown_path("field", rights, name, ())
        raise InvalidQuery.one("group_by", text, name)
    return GroupColumn(name, column, PARTS[part])


def _no_column(what: str, rights: ModelRights, path: str, allowed: Sequence[str], parts: Sequence[str] = ()) -> str:
    """Why groups and measures cannot use a path. ``parts`` of own fields may be meant by their last names."""
    relation = rights.relations.get(path.partition("__")[0])
    if relation is None:
        return unknown_path(what, rights, path, allowed, parts=parts)
    label = relation.related.label
    instead = "Name its rows in filter, one call after the other"
    instead += f", or ask {label} itself." if relation.related.is_listed else "."
    if relation.grouping and relation.related.is_listed:
        instead = f"Ask {label} itself, {relation.grouping}."
    return f"{relation.name} leads to many rows of {label}, so that a row would count more than once. {instead}"


def measure_of(rights: ModelRights, name: str, where: str) -> Measure:
    """What a measure means that stands in the argument ``where``. Raises InvalidQuery."""
    if name == "count":
        return Measure(name)
    key, _, path = name.partition(":")
    function = FUNCTIONS.get(key)
    if function is None or not path:
        allowed = ["count", *(f"{item}:field" for item in FUNCTIONS)]
        raise InvalidQuery.one(where, unknown_name("measure", name, allowed), name)
    column = rights.column(path)
    own = [item.name for item in rights.columns.values() if function.takes(item)]
    if column is None:
        raise InvalidQuery.one(where, _no_column(f"field for {key}", rights, path, own), name)
    if not function.takes(column):
        what = "keys" if function.is_arithmetic and _is_key(column) else f"{column.kind.name} values"
        raise InvalidQuery.one(where, f"{key} takes no {what}. {_allowed(own)}", name)
    return Measure(name, function, column)


def group_names(rights: ModelRights) -> list[str]:
    """What the model's own rows may be grouped by: its fields, then parts of its dates and times."""
    columns = [column for column in rights.columns.values() if column.kind.orderable]
    parts = [
        f"{column.name}__{part}" for column in columns for part, item in PARTS.items() if column.kind in item.kinds
    ]
    return [*_groupable(rights), *parts]


def measure_names(rights: ModelRights) -> list[str]:
    """What may be measured of the model's own fields."""
    columns = rights.columns.values()
    taken = [f"{key}:{column.name}" for key, item in FUNCTIONS.items() for column in columns if item.takes(column)]
    return ["count", *taken]


def _groupable(rights: ModelRights) -> list[str]:
    return [name for name, column in rights.columns.items() if column.kind.orderable]


def _allowed(names: Sequence[str]) -> str:
    return f"Allowed: {', '.join(names) or 'none'}."
