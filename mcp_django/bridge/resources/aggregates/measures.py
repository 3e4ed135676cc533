"""Measures of groups: the number of rows, and functions of a column's values, of all rows or of those that meet a
condition (``count``, ``avg:distance``, ``share@late``, ``p90@late:arrival_delay``)."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from django.db import models
from django.db.models import Avg, Case, Count, Max, Min, Q, StdDev, Sum, Value, When
from django.db.models.functions import Cast, Coalesce
from django.db.models.lookups import GreaterThanOrEqual, IsNull

from mcp_django.bridge.resources.aggregates import operands
from mcp_django.bridge.resources.aggregates.operands import DIFF, NUMBERS, Operand, kind_of, operand_of
from mcp_django.bridge.resources.aggregates.percentiles import Percentile
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.kinds import (
    BOOLEAN,
    DATE,
    DATETIME,
    DECIMAL,
    DURATION,
    INTEGER,
    NUMBER,
    TEXT,
    TIME,
    Kind,
)
from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.protocol.unknown_names import unknown_name

#: Holds the sum of any column of a project, and any value that a filter may send.
_WIDE = models.DecimalField(max_digits=100, decimal_places=30)

#: How much finer a mean is than the values: digits after the point.
_MORE_PLACES = 4
#: The same for a mean of floats, which have no fixed number of digits.
_FLOAT_PLACES = 6

#: Names of conditions. None makes a measure ambiguous, as one with ``__`` would.
CONDITION_NAME = re.compile(r"(?!.*__)[a-z][a-z0-9_]{0,29}")


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
        # A new instance, since from 6.0 on Django wraps the filter in ``__init__``.
        return type(self)(value, filter=IsNull(value, False)).as_sql(compiler, connection, **context)


class _Null(Cast):
    """Null of a type, which PostgreSQL asks for where no row can meet a condition."""

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> tuple[str, Any]:
        return "NULL", []

    as_mysql = as_sqlite


def _sum(value: Any, operand: Operand) -> Any:
    # It may be compared with more than the column itself can hold.
    return Sum(value, output_field=models.BigIntegerField() if operand.kind is INTEGER else _wide(operand))


def _avg(value: Any, operand: Operand) -> Any:
    return _Mean(value) if operand.kind is INTEGER else Avg(value, output_field=_wide(operand))


def _share(value: Any, operand: Operand) -> Any:
    return _Mean(Coalesce(value, Value(0)))


def _extreme(function: Any, value: Any, operand: Operand) -> Any:
    return function(value, output_field=_wide(operand) or column_of(operand.field))


def _wide(operand: Operand) -> Any:
    return _WIDE if operand.kind is DECIMAL else None


def _rounded(places: int, value: float) -> float:
    """A number with so many digits after the point, or as many significant ones where it is small."""
    if not value or not math.isfinite(value):
        return value
    return round(value, max(places, places - 1 - math.floor(math.log10(abs(value)))))


def _rounded_kind(places: int) -> Kind:
    return replace(NUMBER, write=partial(_rounded, places), json_types=frozenset())


_MEAN_OF_INTEGERS, _MEAN_OF_FLOATS = _rounded_kind(_MORE_PLACES), _rounded_kind(_FLOAT_PLACES)


def _mean_kind(operand: Operand) -> Kind:
    if operand.kind is NUMBER:
        return _MEAN_OF_FLOATS
    return _MEAN_OF_INTEGERS if operand.kind is INTEGER else kind_of(operand, _MORE_PLACES)


def _deviation_kind(operand: Operand) -> Kind:
    return _MEAN_OF_INTEGERS if operand.kind is INTEGER else _MEAN_OF_FLOATS


@dataclass(frozen=True, slots=True)
class AggregateFunction:
    """A function that aggregates the values of a column. Nulls are ignored."""

    #: From the expression of a value, and the operand, to the aggregate.
    of: Callable[[Any, Operand], Any]
    kind: Callable[[Operand], Kind]
    #: The kinds of column that have it; None: each whose values can be compared.
    kinds: frozenset[Kind] | None = None
    nullable: bool = True
    #: Whether it computes with numbers, which keys are not.
    is_arithmetic: bool = False
    #: Whether the result is the value of one row.
    is_value_of_a_row: bool = False
    #: Of a percentile: how many of a hundred values are below.
    percent: int = 0

    def takes(self, operand: Operand) -> bool:
        if self.is_arithmetic and operand.is_key:
            return False
        return operand.kind.orderable if self.kinds is None else operand.kind in self.kinds


_AMOUNTS = NUMBERS | {DURATION}
_ORDERED = _AMOUNTS | {DATE, DATETIME, TIME, TEXT}


def _percentile(percent: int) -> AggregateFunction:
    return AggregateFunction(
        lambda value, operand: Percentile(value, percent, is_duration=operand.kind is DURATION), _mean_kind, _AMOUNTS,
        is_arithmetic=True, is_value_of_a_row=True, percent=percent,
    )  # fmt: skip


FUNCTIONS: Mapping[str, AggregateFunction] = {
    "count": AggregateFunction(lambda value, operand: Count(value), lambda operand: INTEGER, nullable=False),
    "count_distinct": AggregateFunction(
        lambda value, operand: Count(value, distinct=True), lambda operand: INTEGER, nullable=False
    ),
    "sum": AggregateFunction(_sum, kind_of, _AMOUNTS, is_arithmetic=True),
    "avg": AggregateFunction(_avg, _mean_kind, _AMOUNTS, is_arithmetic=True),
    "min": AggregateFunction(partial(_extreme, Min), kind_of, _ORDERED, is_value_of_a_row=True),
    "max": AggregateFunction(partial(_extreme, Max), kind_of, _ORDERED, is_value_of_a_row=True),
    "stddev": AggregateFunction(
        lambda value, operand: _Deviation(value, output_field=models.FloatField()), _deviation_kind, NUMBERS,
        is_arithmetic=True,
    ),
    "median": _percentile(50),
    # Any from p1 to p99: this one is shown.
    "p90": _percentile(90),
}  # fmt: skip

_PERCENTILE = re.compile(r"p([1-9][0-9]?)")

#: The rows themselves, as values that are all the same.
ROWS = Operand("", INTEGER, models.IntegerField(), ())
_OF_ROWS: Mapping[str, AggregateFunction] = {
    "count": FUNCTIONS["count"],
    "share": AggregateFunction(_share, lambda operand: _MEAN_OF_FLOATS),
}


@dataclass(frozen=True, slots=True)
class Measure:
    """A column of the table that holds a measure of each group."""

    #: As the agent wrote it: ``count``, ``avg:distance``, ``share@late``.
    name: str
    function: AggregateFunction
    operand: Operand = ROWS
    #: The name of the condition that a row must meet, if there is one, and the condition itself.
    within: str = ""
    condition: Q | None = None

    @property
    def kind(self) -> Kind:
        return self.function.kind(self.operand)

    @property
    def nullable(self) -> bool:
        return self.function.nullable

    @property
    def leaves_out(self) -> bool:
        """Whether it computes with numbers that some rows may not have."""
        return self.function.is_arithmetic and any(column.nullable for column in self.operand.columns)

    def value(self) -> Any:
        """What is aggregated: null where a row does not meet the condition."""
        every = self._every_value()
        if self.condition is None:
            return every
        return Case(When(self.condition, then=every), default=_Null(Value(None), column_of(self.operand.field)))

    def _every_value(self) -> Any:
        return self.operand.expression() if self.operand.columns else Value(1)

    def expression(self, smallest: int = 1) -> Any:
        """The aggregate; null where fewer than ``smallest`` rows of the group have a value.

        With a condition, also null where fewer rows have a value and do not meet it: the rest would reveal them.
        """
        if self.operand is ROWS and self.condition is None:
            return Count("*")
        value = self.value()
        found = self.function.of(value, self.operand)
        if smallest <= 1:
            return found
        if self.condition is not None:
            others = Count(self._every_value()) - Count(value)
            found = Case(When(GreaterThanOrEqual(others, smallest), then=found), default=None)
        return Case(When(GreaterThanOrEqual(Count(value), smallest), then=found), default=None)

    def read(self, lookup: str, value: Any) -> Any:
        """The value that the measure is compared with, as the ORM takes it. Raises ValidationError."""
        if lookup == "isnull":
            return BOOLEAN.read(models.BooleanField(), value)
        field = models.BigIntegerField() if self.kind is INTEGER else self.operand.field
        return self.kind.read_for(lookup, field, value)


def measure_of(rights: ModelRights, name: str, where: str, conditions: Mapping[str, Q]) -> Measure:
    """What a measure means that stands in the argument ``where``. Raises InvalidQuery."""
    head, _, path = name.partition(":")
    key, at, within = head.partition("@")
    refuse = partial(InvalidQuery.one, where, received=name)
    function = _function(key) if path else _OF_ROWS.get(key)
    if function is None or (key == "share" and not at):
        allowed = ["count", *(f"{item}:field" for item in FUNCTIONS), "share@condition"]
        # A difference is measured by a function, as the values of a column are.
        raise refuse(unknown_name("measure", name, allowed, f"avg:{name}" if name.startswith(DIFF) else ""))
    if at and within not in conditions:
        how = (
            f" Define it: {_definition(rights, within)}" if not conditions and CONDITION_NAME.fullmatch(within) else ""
        )
        raise refuse(f"no condition {within!r}.{how}" if how else unknown_name("condition", within, list(conditions)))
    condition = conditions[within] if at else None
    if not path:
        return Measure(name, function, within=within, condition=condition)
    own = [column.name for column in rights.columns.values() if function.takes(operands.of_column(column))]
    operand = operand_of(rights, path, f"field for {key}", own, refuse)
    if not function.takes(operand):
        if why := next(filter(None, (column.converted_by for column in operand.columns)), ""):
            raise refuse(f"{why}: {key} takes none. Allowed: {', '.join(own) or 'none'}.")
        what = "keys" if function.is_arithmetic and operand.is_key else f"{operand.kind.name} values"
        raise refuse(f"{key} takes no {what}. Allowed: {', '.join(own) or 'none'}.")
    return Measure(name, function, operand, within, condition)


def _definition(rights: ModelRights, name: str) -> str:
    """How a condition is defined, with a field of the model: ``"conditions": {"late": {"arrival_delay__gt": 60}}``."""
    columns = [column for column in rights.filterable.values() if not column.field.primary_key and not column.related]
    number = next((f"{column.name}__gt" for column in columns if column.kind in NUMBERS), "")
    other = next((column.name for column in columns if "exact" in column.kind.lookups), "field")
    condition: dict[str, Any] = {number: 60} if number else {other: "…"}
    return f'"conditions": {json.dumps({name: condition}, ensure_ascii=False)}'


def _function(key: str) -> AggregateFunction | None:
    match = _PERCENTILE.fullmatch(key)
    return _percentile(int(match[1])) if match else FUNCTIONS.get(key)


def paths_of(name: str) -> Iterator[str]:
    """The paths in the name of a measure of a field, with or without a comparison behind it."""
    path = name.partition(":")[2]
    yield from path.removeprefix(DIFF).split("-") if path.startswith(DIFF) else [path]


def measure_names(rights: ModelRights) -> list[str]:
    """What may be measured of the model's own fields."""
    columns = [operands.of_column(column) for column in rights.columns.values()]
    taken = [f"{key}:{column.name}" for key, item in FUNCTIONS.items() for column in columns if item.takes(column)]
    return ["count", *taken]
