"""Rows that code of the project gives as values: an agent gets their keys, and never their texts.

``__str__`` of a model may hold any column of its row and of others, whatever the policy hides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import models

from mcp_django.bridge.resources.fields.columns import MAX_RELATED
from mcp_django.bridge.resources.fields.kinds import MAX_JSON_DEPTH
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.core.compat.queries import gives_instances

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights

#: The key of a row as a text; None for a row that the principal may not see.
KeyOf = Callable[[models.Model], str | None]


def key_of(rights: Rights, row: models.Model) -> str | None:
    """What stands for a row. Its database is the one that is asked."""
    of_model = rights.of_model(type(row))
    return key_text(of_model, row) if of_model is not None and is_visible(of_model, row) else None


def key_text(rights: ModelRights, row: models.Model) -> str:
    return str(rights.primary_key.kind.write(row.pk))


def is_visible(rights: ModelRights, row: models.Model) -> bool:
    """Whether the principal may see the row by itself."""
    if row.pk is None or not rights.has_rows:
        return False
    key = rights.primary_key.kind.write(row.pk)
    return not rights.scoped or bool(visible_rows.visible_keys(rights, [key], using=row._state.db))


def without_rows(value: Any, key_of: KeyOf, depth: int = 0) -> Any:
    """The value with keys in the place of rows, also within lists, mappings and querysets, of which 20 rows are given.

    A row that the principal may not see is null, and is missing from lists. Nothing is left of what lies deeper than
    any value is written.
    """
    if isinstance(value, models.Model):
        return key_of(value)
    if isinstance(value, models.Manager):
        value = value.all()
    if isinstance(value, models.QuerySet) and gives_instances(value):
        value = list(value[:MAX_RELATED])
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return value
    if depth > MAX_JSON_DEPTH:
        return None
    if isinstance(value, Mapping):
        pairs = list(_replaced(value, key_of, depth))
        found = {name: without_rows(item, key_of, depth + 1) for name, item in pairs}
        return value if _are_same([*found, *found.values()], [*value, *value.values()]) else found
    items = list(value)
    kept = [(item, without_rows(item, key_of, depth + 1)) for item in items]
    listed = [one for item, one in kept if one is not None or not isinstance(item, models.Model)]
    return value if _are_same(listed, items) else listed


def as_text(value: Any, key_of: KeyOf) -> Any:
    """What is written of a value that is of no type of JSON: its text, or of rows their keys."""
    found = without_rows(value, key_of)
    return found if found is None or isinstance(found, list) else str(found)


def _replaced(value: Mapping[Any, Any], key_of: KeyOf, depth: int) -> Iterator[tuple[Any, Any]]:
    """The members of a mapping without those whose name is a row that the principal may not see."""
    for name, item in value.items():
        key = without_rows(name, key_of, depth + 1)
        if key is not None or name is None:
            yield key, item


def _are_same(found: Sequence[Any], given: Sequence[Any]) -> bool:
    """Whether no part was replaced. Parts are not compared: what they hold may be of any class."""
    return len(found) == len(given) and all(one is other for one, other in zip(found, given, strict=True))
