"""The order of rows: what an agent asks for, or what the project declares, by columns that the rights allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db import models

from mcp_django.resources.columns import Column
from mcp_django.resources.errors import InvalidQuery, unknown_path
from mcp_django.resources.policy import ModelRights

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
        orders = [_order(rights, name) for name in names]
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
        raise InvalidQuery.one("order_by", unknown_path("field to order by", rights, bare, allowed), name)
    return Order(column, descending)


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
