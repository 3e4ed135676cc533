"""What a query reads of each row, and in which order: names that an agent gives, or that the project declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import models

from mcp_django.conf import get_conf
from mcp_django.resources import columns
from mcp_django.resources.columns import Column, Output, RelatedCount, RelatedList
from mcp_django.resources.errors import InvalidQuery, Mistakes, unknown_path
from mcp_django.resources.kinds import split_path
from mcp_django.resources.policy import ModelRights


def outputs(rights: ModelRights, names: Sequence[str] | None) -> list[Output]:
    """The requested values, or all columns; the primary key always first. Raises InvalidQuery."""
    if not names:
        return list(rights.columns.values())
    chosen: dict[str, Output] = {rights.primary_key.name: rights.primary_key}
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes:
            if name != "pk":
                chosen.setdefault(name, _output(rights, name))
    mistakes.raise_any()
    if len({path for output in chosen.values() for path in _relations_of(output)}) > columns.MAX_RELATIONS:
        raise InvalidQuery.one("fields", f"follow more than {columns.MAX_RELATIONS} relations.")
    return list(chosen.values())


def record_outputs(rights: ModelRights) -> list[Column | RelatedList]:
    """What a record holds where an agent names no fields: all columns, and the keys of many-to-many fields."""
    links = [relation for relation in rights.relations.values() if relation.forward and relation.field.many_to_many]
    return [*rights.columns.values(), *(RelatedList(one.name, one, one.related.primary_key) for one in links)]


def _relations_of(output: Output) -> Iterator[str]:
    """The paths of the relations that must be followed to read it."""
    if isinstance(output, RelatedCount | RelatedList):
        # Each list takes a query of its own, for each row.
        yield output.name
    elif isinstance(output, Column):
        yield from ("__".join(step.name for step in output.via[: count + 1]) for count in range(len(output.via)))


def _output(rights: ModelRights, name: str) -> Output:
    column = rights.column(name)
    if column is not None and not (column.via and column.kind.linked):
        return column
    if name in rights.computed:
        return rights.computed[name]
    head, rest = split_path(name)
    relation = rights.relations.get(head)
    if relation is not None:
        if rest == "count":
            return RelatedCount(name, relation)
        inner = relation.related.column(rest or "pk", get_conf().MAX_RELATION_DEPTH - 1)
        if inner is not None and not inner.kind.linked:
            return RelatedList(name, relation, inner)
    raise InvalidQuery.one("fields", unknown_path("field", rights, name, readable(rights)), name)


def readable(rights: ModelRights) -> list[str]:
    """Names that ``fields`` may hold, without those of related models."""
    return [*rights.columns, *rights.computed, *rights.relations, *(f"{name}__count" for name in rights.relations)]


#: Fields that an order may name.
MAX_ORDERS = 5


@dataclass(frozen=True, slots=True)
class Order:
    """One column of an order."""

    column: Column
    descending: bool

    @property
    def path(self) -> str:
        return f"-{self.column.path}" if self.descending else self.column.path

    @property
    def name(self) -> str:
        return f"-{self.column.name}" if self.descending else self.column.name


def order(rights: ModelRights, names: Sequence[str] | None) -> list[Order]:
    """The order of rows, which always ends with the primary key. Raises InvalidQuery for a name of the agent's.

    Without names the model's own order holds, less what the rights hide: a cursor carries the values of its columns.
    """
    if names:
        if len(names) > MAX_ORDERS:
            raise InvalidQuery.one("order_by", f"at most {MAX_ORDERS} fields.", len(names))
        orders, mistakes = [], Mistakes()
        for name in names:
            with mistakes:
                orders.append(_order(rights, name))
        mistakes.raise_any()
    else:
        orders = [found for item in rights.ordering if (found := _declared_order(rights, item)) is not None]
    unique: dict[str, Order] = {}
    for item in orders:
        unique.setdefault(item.column.name, item)
    key = rights.primary_key
    kept: list[Order] = []
    for item in unique.values():
        kept.append(item)
        if item.column.name == key.name:
            return kept
    return [*kept, Order(key, descending=bool(kept) and kept[-1].descending)]


def _order(rights: ModelRights, name: str) -> Order:
    bare = name.removeprefix("-")
    descending = name.startswith("-")
    column = rights.column(bare)
    if column is None and bare in rights.computed:
        computed = rights.computed[bare]
        column, descending = computed.order, descending != computed.descending
    if column is None or not column.can_order:
        allowed = [*rights.orderable, *(name for name, computed in rights.computed.items() if computed.order)]
        message = unknown_path("field to order by", rights, bare, allowed, is_known=partial(_can_order, rights))
        raise InvalidQuery.one("order_by", message, name)
    return Order(column, descending)


def _can_order(rights: ModelRights, path: str) -> bool:
    column = rights.column(path)
    return column is not None and column.can_order


def _declared_order(rights: ModelRights, item: Any) -> Order | None:
    """A column of Meta.ordering or ModelAdmin.ordering: a name, or an expression such as ``F("name").desc()``."""
    descending = False
    if isinstance(item, models.expressions.OrderBy):
        descending, item = item.descending, item.expression
    if isinstance(item, models.F):
        item = item.name  # type: ignore[attr-defined]
    if not isinstance(item, str):
        return None
    descending ^= item.startswith("-")
    name = item.removeprefix("-")
    if name.endswith("_id") and name not in rights.orderable:
        name = name.removesuffix("_id")
    column = rights.column(name)
    return None if column is None or not column.can_order else Order(column, descending)
