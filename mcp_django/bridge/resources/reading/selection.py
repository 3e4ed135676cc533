"""What a query reads of each row, and in which order: names that an agent gives, or that the project declares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db import models

from mcp_django.bridge.resources.fields import columns
from mcp_django.bridge.resources.fields.columns import Column, Output, RelatedCount, RelatedRows
from mcp_django.bridge.resources.fields.errors import InvalidQuery, Mistakes, unknown_path
from mcp_django.bridge.resources.fields.kinds import split_path
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.conf import get_conf
from mcp_django.core.compat.queries import values_list
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import has_key_in


def outputs(rights: ModelRights, names: Sequence[str] | None) -> list[Output]:
    """The requested values, or all columns; the primary key always first. Raises InvalidQuery."""
    if not names:
        return [*rights.columns.values(), *rights.listed]
    chosen: dict[str, Output] = {rights.primary_key.name: rights.primary_key}
    mistakes = Mistakes()
    for name in dict.fromkeys(names):
        with mistakes:
            if name != "pk":
                chosen.setdefault(name, _output(rights, name))
    mistakes.raise_any()
    chosen = _in_tables(chosen)
    if len({path for output in chosen.values() for path in _relations_of(output)}) > columns.MAX_RELATIONS:
        raise InvalidQuery.one("fields", f"follow more than {columns.MAX_RELATIONS} relations.")
    return list(chosen.values())


def record_outputs(rights: ModelRights) -> list[Column | RelatedRows]:
    """What a record holds where an agent names no fields: all columns, and the keys of many-to-many fields."""
    links = [relation for relation in rights.relations.values() if relation.forward and relation.field.many_to_many]
    return [*rights.columns.values(), *(RelatedRows(one.name, one, (one.related.primary_key,)) for one in links)]


def _in_tables(chosen: Mapping[str, Output]) -> dict[str, Output]:
    """The outputs, with one table in the place of several fields of the rows that a relation leads to."""
    related = [output for output in chosen.values() if isinstance(output, RelatedRows)]
    columns: dict[str, dict[str, Column]] = {}
    for one in related:
        columns.setdefault(one.relation.name, {}).update({column.name: column for column in one.columns})
    tables = {
        one.relation.name: RelatedRows(one.relation.name, one.relation, tuple(columns[one.relation.name].values()))
        for one in related
        # What is computed may have the name of the relation.
        if len(columns[one.relation.name]) > 1 and isinstance(chosen.get(one.relation.name, one), RelatedRows)
    }
    found: dict[str, Output] = {}
    for name, output in chosen.items():
        table = tables.get(output.relation.name) if isinstance(output, RelatedRows) else None
        found.setdefault(name if table is None else table.name, table or output)
    return found


def _relations_of(output: Output) -> Iterator[str]:
    """The paths of the relations that must be followed to read it."""
    if isinstance(output, RelatedCount):
        yield output.name
    elif isinstance(output, RelatedRows):
        # They take a query of their own, which follows relations too.
        yield output.relation.name
        for column in output.columns:
            yield from (f"{output.relation.name}__{path}" for path in _relations_of(column))
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
            return RelatedRows(name, relation, (inner,))
    raise InvalidQuery.one("fields", unknown_path("field", rights, name, readable(rights)), name)


def names_of(outputs: Sequence[Output], orders: Sequence[Order] = ()) -> list[str]:
    """The columns to select. The primary key stands in for computed values."""
    names = []
    for index, output in enumerate(outputs):
        if isinstance(output, RelatedCount) or (isinstance(output, Column) and output.is_plain):
            names.append(output.path)
        else:
            names.append(f"_mcp_{index}" if isinstance(output, Column) else "pk")
    # Django treats a name that occurs twice as an expression, which takes it as long as all the others.
    return [*names, *(order.column.path for order in orders if order.column.path not in names)]


def values_of(queryset: models.QuerySet[Any], outputs: Sequence[Output], names: Sequence[str]) -> Any:
    """The values of ``names_of``, row by row."""
    expressions = {
        name: output.expression()
        for name, output in zip(names, outputs, strict=False)
        if isinstance(output, RelatedCount) or (isinstance(output, Column) and name != output.path)
    }
    return values_list(queryset.annotate(**expressions) if expressions else queryset, names)


def readable(rights: ModelRights) -> list[str]:
    """Names that ``fields`` may hold, without those of related models."""
    return [*rights.columns, *rights.computed, *rights.relations, *(f"{name}__count" for name in rights.relations)]


#: Fields that an order may name.
MAX_ORDERS = 5


@dataclass(frozen=True, slots=True)
class Order:
    """One column of an order."""

    column: Column | RelatedCount
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
        orders: list[Order] = []
        mistakes = Mistakes()
        for name in names:
            with mistakes:
                orders += _related_order(rights, name) or [_order(rights, name)]
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


def readable_order(rights: ModelRights) -> list[str]:
    """The paths of the model's own order, less what the rights hide: an order by a hidden column tells its values."""
    return [one.path for one in order(rights, None)]


def in_order(rights: ModelRights, keys: Sequence[Any]) -> list[str]:
    """Those of the keys that are the principal's to see, as text, in an order that tells nothing of hidden columns."""
    seen = visible_rows.visible_keys(rights, keys)
    rows = rights.rows().filter(has_key_in(rights.model, seen)).order_by(*readable_order(rights))
    return [str(key) for key in fetch(rows.values_list("pk", flat=True))]


def is_order_hidden(rights: ModelRights) -> bool:
    """Whether ``Meta.ordering`` may have what the principal must not read, as where it leads to another model's."""
    for item in rights.model._meta.ordering or ():
        found = _declared_order(rights, item)
        if found is None or item not in (found.path, "pk", "-pk"):
            return True
    return False


def _related_order(rights: ModelRights, name: str) -> list[Order]:
    """The order of the rows that a foreign key leads to, as Django orders by one; empty where that is none."""
    bare = name.removeprefix("-")
    column = rights.column(bare)
    if column is None or column.related is None or bare.endswith("_id"):
        return []
    found = [_declared_order(column.related, item) for item in column.related.model._meta.ordering or ()]
    orders = []
    for one in found:
        inner = None if one is None else rights.column(f"{bare}__{one.column.name}")
        if one is None or inner is None or not inner.can_order:
            return []  # A part of an order would be another one.
        orders.append(Order(inner, one.descending != name.startswith("-")))
    return orders


def _order(rights: ModelRights, name: str) -> Order:
    bare = name.removeprefix("-")
    descending = name.startswith("-")
    column = rights.column(bare)
    if column is None and bare in rights.computed:
        computed = rights.computed[bare]
        column, descending = computed.order, descending != computed.descending
    head, rest = split_path(bare)
    if column is None and rest == "count" and head in rights.relations:
        return Order(RelatedCount(bare, rights.relations[head]), descending)
    if column is None or not column.can_order:
        raise InvalidQuery.one("order_by", _not_orderable(rights, bare), name)
    return Order(column, descending)


def _not_orderable(rights: ModelRights, name: str) -> str:
    """The error text for a name that rows are not ordered by."""
    head, _ = split_path(name)
    if head in rights.relations and name.count("__") <= get_conf().MAX_RELATION_DEPTH:
        return f"each row has many of these. Rows can be ordered only by their number: {head}__count."
    column, related = rights.column(name), rights.beyond(head)
    if column is not None and related is not None and column.via == ():
        found = next((path for inner in related.orderable if _can_order(rights, path := f"{head}__{inner}")), None)
        if found is not None:
            return f"rows are not ordered by {head}. Did you mean {found}?"
    if column is not None and column.converted_by:
        return f"{column.converted_by}, and rows cannot be ordered by it."
    counts = [f"{relation}__count" for relation in rights.relations]
    computed = (name for name, computed in rights.computed.items() if computed.order)
    allowed = [*rights.orderable, *computed, *counts]
    return unknown_path("field to order by", rights, name, allowed, is_known=partial(_can_order, rights))


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
