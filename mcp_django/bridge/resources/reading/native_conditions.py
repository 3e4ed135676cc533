"""Conditions on parts of dates, as ``departs_at__hour__lt``, with the parts as SQLite computes them itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from django.db import connections, models
from django.db.models import F, Q, lookups

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.date_parts import PARTS
from mcp_django.bridge.resources.fields.kinds import split_path
from mcp_django.bridge.resources.fields.native_parts import NativePart, native_parts
from mcp_django.bridge.resources.policy.policy import ModelRights

#: How a part may be compared. See ``kinds.PART_COMPARISONS``.
_COMPARISONS: Mapping[str, Any] = {
    "": lookups.Exact,
    "gt": lookups.GreaterThan,
    "gte": lookups.GreaterThanOrEqual,
    "lt": lookups.LessThan,
    "lte": lookups.LessThanOrEqual,
    "in": lookups.In,
    "range": lookups.Range,
}

#: The column and the part that a name of the ORM begins with.
_Compared = tuple[str, str]


def natively(rights: ModelRights, rows: models.QuerySet[Any], conditions: Sequence[Q]) -> list[Q]:
    """The conditions on these rows. SQLite itself computes parts of the model's own columns. Raises TooSlow.

    On other databases they stay as they are. The first and the last moment of a column may be read, once.
    """
    if connections[rows.db].vendor != "sqlite":
        return list(conditions)
    wanted = {item: column for condition in conditions for item, column in _parts_in(condition, rights)}
    if not wanted:
        return list(conditions)
    found = native_parts(rows, [(column, part) for (_, part), column in wanted.items()])
    parts = {item: part for item, part in zip(wanted, found, strict=True) if part is not None}
    return [_rewritten(condition, parts) for condition in conditions]


def _parts_in(condition: Q, rights: ModelRights) -> Iterator[tuple[_Compared, Column]]:
    for child in condition.children:
        if isinstance(child, Q):
            yield from _parts_in(child, rights)
        elif isinstance(child, tuple):
            name, part, comparison = _split(child[0])
            column = rights.own_column(name) if part in PARTS and comparison in _COMPARISONS else None
            # Behind a foreign key stands the name of the key that it points to, which may be that of a part.
            if column is not None and not column.field.is_relation and column.kind in PARTS[part].kinds:
                yield (name, part), column


def _split(name: str) -> tuple[str, str, str]:
    column, rest = split_path(name)
    part, comparison = split_path(rest)
    return column, part, comparison


def _rewritten(condition: Q, parts: Mapping[_Compared, NativePart]) -> Q:
    children = [_rewritten_child(child, parts) for child in condition.children]
    return Q(*children, _connector=condition.connector, _negated=condition.negated)


def _rewritten_child(child: Any, parts: Mapping[_Compared, NativePart]) -> Any:
    if isinstance(child, Q):
        return _rewritten(child, parts)
    if not isinstance(child, tuple):
        return child
    column, part, comparison = _split(child[0])
    native = parts.get((column, part))
    if native is None:
        return child
    # A null meets no condition, so it meets the negation of each.
    return Q(_COMPARISONS[comparison](native.of(F(column)), child[1])) & Q((f"{column}__isnull", False))
