"""Groups of an aggregate: rows are grouped by a field, a part of a date, or a range of numbers.

Only the rights turn a name into a field, so that a hidden related row is in the group of null.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models
from django.db.models import Value, functions

from mcp_django.bridge.resources.aggregates.operands import NUMBERS, is_key, kind_of, no_column, whole
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.date_parts import PARTS
from mcp_django.bridge.resources.fields.errors import InvalidQuery, unknown_path
from mcp_django.bridge.resources.fields.kinds import INTEGER, Kind
from mcp_django.bridge.resources.fields.native_parts import NativePart, native_parts
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.protocol.unknown_names import unknown_name

#: Ranges of numbers: ``distance__bucket_500``.
_BUCKET = re.compile(r"bucket_([1-9][0-9]{0,8})")
#: What errors and suggestions show.
_BUCKET_EXAMPLE = "bucket_10"


@dataclass(frozen=True, slots=True)
class GroupColumn:
    """A column of the table that holds the group of each row."""

    #: As the agent wrote it: ``status``, ``carrier__name``, ``departs_at__month``, ``distance__bucket_500``.
    name: str
    column: Column
    #: A key of ``PARTS``.
    part: str = ""
    #: The width of a range of numbers.
    width: int = 0

    @property
    def kind(self) -> Kind:
        if self.part:
            return PARTS[self.part].kind
        return INTEGER if self.width else kind_of(self.column)

    @property
    def nullable(self) -> bool:
        return self.column.nullable

    def expression(self, native: NativePart | None = None) -> Any:
        """The group of a row; ``native``: the part as the database computes it itself."""
        value = self.column.expression()
        if self.part:
            return (native or PARTS[self.part]).of(value)
        return _bucket(value, self.column, self.width) if self.width else value


def week_notes(groups: Sequence[GroupColumn]) -> list[str]:
    """What is said of weeks that are grouped without the year that they belong to."""
    names = {group.name for group in groups}
    bare = [group.name.removesuffix("__week") for group in groups if group.part == "week"]
    return [
        f"{name}__week: weeks of several years may be one group, and a week at the turn of a year belongs to one of "
        f"them. Group by {name}__iso_year too, or by {name}__trunc_week."
        for name in bare
        if f"{name}__iso_year" not in names
    ]


def group_expressions(groups: Sequence[GroupColumn], queryset: models.QuerySet[Any]) -> list[Any]:
    """The groups of the rows of a queryset, as expressions. Raises TooSlow."""
    parts = [(group.column, group.part) for group in groups if group.part]
    native = iter(native_parts(queryset, parts))
    return [group.expression(next(native) if group.part else None) for group in groups]


def _bucket(value: Any, column: Column, width: int) -> Any:
    """The least number of the range that holds a value: a multiple of the width."""
    number = whole(value if column.kind is INTEGER else functions.Floor(value))
    size = Value(width, models.BigIntegerField())
    # The first remainder has the sign of the number.
    return number - ((number % size) + size) % size


def group_of(rights: ModelRights, name: str) -> GroupColumn:
    """What a name of ``group_by`` means. Raises InvalidQuery."""
    column, part = rights.column_and_lookup(name)
    if column is None:
        text = no_column("field to group by", rights, name, _groupable(rights), group_names(rights))
        raise InvalidQuery.one("group_by", text, name)
    if not column.kind.orderable:
        why = column.converted_by or f"{column.name} holds values of the type {column.kind.name}"
        message = f"{why}, which rows cannot be grouped by."
        raise InvalidQuery.one("group_by", f"{message} Allowed: {', '.join(_groupable(rights)) or 'none'}.", name)
    bucket = _BUCKET.fullmatch(part)
    if bucket is not None and _has_buckets(column):
        return GroupColumn(name, column, width=int(bucket[1]))
    if not part or part in _parts(column):
        return GroupColumn(name, column, part)
    if column.related is not None:
        raise InvalidQuery.one("group_by", unknown_path("field", rights, name, ()), name)
    ranges = f" Ranges of numbers are {column.name}__{_BUCKET_EXAMPLE}." if _has_buckets(column) else ""
    raise InvalidQuery.one("group_by", unknown_name(f"part of {column.name}", part, _parts(column)) + ranges, name)


def _parts(column: Column) -> list[str]:
    return [part for part, item in PARTS.items() if column.kind in item.kinds]


def _has_buckets(column: Column) -> bool:
    return column.kind in NUMBERS and not is_key(column)


def group_names(rights: ModelRights) -> list[str]:
    """What the model's own rows may be grouped by: its fields, then parts of its dates and times, and ranges."""
    columns = [column for column in rights.columns.values() if column.kind.orderable]
    parts = [f"{column.name}__{part}" for column in columns for part in _parts(column)]
    ranges = [f"{column.name}__{_BUCKET_EXAMPLE}" for column in columns if _has_buckets(column)]
    return [*_groupable(rights), *parts, *ranges]


def _groupable(rights: ModelRights) -> list[str]:
    return [name for name, column in rights.columns.items() if column.kind.orderable]
