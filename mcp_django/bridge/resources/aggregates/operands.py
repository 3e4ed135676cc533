"""What a measure computes with: the values of a column, or the differences of two (``diff:arrived_at-departed_at``).

Only the rights turn a name into a column, so that a value of a hidden related row is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import partial
from typing import Any

from django.db import models
from django.db.models import ExpressionWrapper, Func
from django.db.models.functions import Cast

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.errors import InvalidQuery, unknown_path
from mcp_django.bridge.resources.fields.field_kinds import partners
from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, DECIMAL, DURATION, INTEGER, NUMBER, Kind
from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.core.types import AnyField

NUMBERS = frozenset({INTEGER, NUMBER, DECIMAL})

#: In front of the two columns of a difference.
DIFF = "diff:"


@dataclass(frozen=True, slots=True)
class Operand:
    """The values that a measure computes with."""

    #: As the agent wrote it: ``distance``, ``diff:arrival_delay-departure_delay``.
    name: str
    kind: Kind
    #: A field that holds such values.
    field: AnyField
    #: The column, or the two of a difference.
    columns: tuple[Column, ...]

    @property
    def is_key(self) -> bool:
        return any(map(is_key, self.columns))

    def expression(self) -> Any:
        """The value of a row."""
        if len(self.columns) == 1:
            return self.columns[0].expression()
        return _difference(self)


def currencies_of(columns: Iterable[Column]) -> Iterator[str]:
    """The paths of the fields with the currencies of amounts, where an amount may have one of several."""
    for column in columns:
        field: Any = column.field
        beside = partners(field.model).get(field.name)
        if beside is None:
            continue
        choices = field.model._meta.get_field(beside).choices
        if choices is None or len(choices) > 1:
            yield f"{column.name.removesuffix(field.name)}{beside}"


def of_column(column: Column) -> Operand:
    return Operand(column.name, column.kind, column.field, (column,))


def is_key(column: Column) -> bool:
    return column.related is not None or column.field.primary_key


def kind_of(column: Column | Operand, more_places: int = 0) -> Kind:
    """The kind of a column's values after a computation: decimals have the same places on every database."""
    places = getattr(column_of(column.field), "decimal_places", None)
    if column.kind is not DECIMAL or places is None:
        return column.kind
    return replace(DECIMAL, write=partial(_write_decimal, places + more_places))


def _write_decimal(places: int, value: Decimal | float) -> str:
    number = value if isinstance(value, Decimal) else Decimal(str(value))
    return format(number.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN, Context(prec=400 + places)), "f")


def whole(value: Any) -> Any:
    """An integer that may be negative: a difference of unsigned columns is unsigned on MariaDB and MySQL."""
    return Cast(value, models.BigIntegerField())


class _Seconds(Func):
    """The seconds of a duration, as a float."""

    arity = 1
    # The other databases store a duration as microseconds.
    template = "(%(expressions)s / 1000000e0)"

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="EXTRACT(EPOCH FROM %(expressions)s)::float8", **context)


def _difference(operand: Operand) -> Any:
    one, other = (
        whole(column.expression()) if column.kind is INTEGER else column.expression() for column in operand.columns
    )
    kind = operand.columns[0].kind
    if kind is DURATION:
        one, other = (_Seconds(value, output_field=models.FloatField()) for value in (one, other))
    elif kind not in NUMBERS:
        between = ExpressionWrapper(one - other, output_field=models.DurationField())
        return _Seconds(between, output_field=models.FloatField())
    return ExpressionWrapper(one - other, output_field=operand.field)


#: From the text of an error to the error about the argument that is wrong.
Refuse = Callable[[str], InvalidQuery]


def operand_of(rights: ModelRights, path: str, what: str, allowed: Sequence[str], refuse: Refuse) -> Operand:
    """What the operand of a measure means. Raises what ``refuse`` makes."""
    if not path.startswith(DIFF):
        return of_column(_column(rights, path, what, allowed, refuse))
    names = path.removeprefix(DIFF).split("-")
    if len(names) != 2 or not all(names):
        raise refuse("a difference is of two fields, as avg:diff:a-b.")
    own = [column.name for column in rights.columns.values() if _can_subtract(column)]
    one, other = (_column(rights, name, "field for diff", own, refuse) for name in names)
    return _of_difference(path, (one, other), refuse)


def _can_subtract(column: Column) -> bool:
    return column.kind in NUMBERS | {DATE, DATETIME, DURATION} and not is_key(column)


def _of_difference(name: str, columns: tuple[Column, Column], refuse: Refuse) -> Operand:
    """A difference of numbers is a number of their kinds. Any other difference is in seconds."""
    kinds = {column.kind for column in columns}
    if not all(map(_can_subtract, columns)) or not (kinds <= NUMBERS or len(kinds) == 1):
        if why := next(filter(None, (column.converted_by for column in columns)), ""):
            raise refuse(f"{why}: diff takes none.")
        types = " and ".join("keys" if is_key(column) else f"{column.kind.name} values" for column in columns)
        message = "both must be numbers, or both dates, both datetimes or both durations (in seconds)"
        raise refuse(f"diff takes no {types}: {message}.")
    if kinds == {INTEGER}:
        return Operand(name, INTEGER, models.BigIntegerField(), columns)
    if kinds <= {INTEGER, DECIMAL}:
        places = [getattr(column_of(column.field), "decimal_places", 0) for column in columns]
        field = models.DecimalField(max_digits=100, decimal_places=max(places))
        return Operand(name, DECIMAL, field, columns)
    return Operand(name, NUMBER, models.FloatField(), columns)


def _column(rights: ModelRights, path: str, what: str, allowed: Sequence[str], refuse: Refuse) -> Column:
    column = rights.column(path)
    if column is None:
        raise refuse(no_column(what, rights, path, allowed))
    return column


def no_column(what: str, rights: ModelRights, path: str, allowed: Sequence[str], parts: Sequence[str] = ()) -> str:
    """Why groups and measures cannot use a path. ``parts``: see ``errors.meant_path``."""
    relation = rights.relations.get(path.partition("__")[0])
    if relation is None:
        return unknown_path(what, rights, path, allowed, parts=parts)
    label = relation.related.label
    instead = "Name its rows in filter, one call after the other"
    instead += f", or ask {label} itself." if relation.related.is_listed else "."
    if relation.grouping and relation.related.is_listed:
        instead = f"Ask {label} itself, {relation.grouping}."
    return f"{relation.name} leads to many rows of {label}, so that a row would count more than once. {instead}"
