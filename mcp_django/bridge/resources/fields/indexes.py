"""Which orders of a model an index answers: without one, the first page costs a sort of the whole table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.expressions import OrderBy

from mcp_django.core.compat.models import is_sorted

#: One place of an order or of an index: the name of a column, or an expression; and whether it is descending.
Term = tuple[Any, bool]


def is_indexed(model: type[models.Model], names: Sequence[str]) -> bool:
    """Whether some index of the model begins with the order of these ``names``, such as ``"-departs_at"``.

    Names after the primary key, or after another unique column, decide nothing. The primary key need not be in the
    index, since few rows are equal in all names before it. A path to another table has no index.
    """
    wanted = _deciding(model, names)
    return not wanted or any(_begins_with(index, wanted) for index in _indexes(model))


def index_for(model: type[models.Model], names: Sequence[str]) -> list[str]:
    """The columns of an index that answers an order by columns, as ``models.Index(fields=...)`` takes them."""
    wanted = _deciding(model, names)
    key = (model._meta.pk.name, bool(wanted) and wanted[-1][1])
    return [f"-{name}" if descending else name for name, descending in (*wanted, key)]


def own_columns(model: type[models.Model], ordering: Iterable[Any]) -> list[str]:
    """The part of a declared order that agents get: names of the model's columns, without paths and expressions."""
    names = []
    for item in ordering:
        # Nulls stand where the database puts them.
        plain = OrderBy(item.expression, descending=item.descending) if isinstance(item, OrderBy) else item
        name, descending = _term(model, plain)
        if _field(model, name) is not None:
            names.append(f"-{name}" if descending else name)
    return names


def _deciding(model: type[models.Model], names: Iterable[str]) -> list[Term]:
    """The places of the order that an index must begin with."""
    found: dict[Any, bool] = {}
    for item in names:
        name, descending = _term(model, item)
        field = _field(model, name)
        if field is not None and field.primary_key:
            break
        found.setdefault(name, descending)
        if field is not None and field.unique and not field.null:
            break
    return list(found.items())


def _term(model: type[models.Model], item: Any) -> Term:
    descending = False
    # An index that puts nulls elsewhere than the database does answers no order by the column.
    if isinstance(item, OrderBy) and item.nulls_first is None and item.nulls_last is None:
        descending, item = item.descending, item.expression
    if isinstance(item, models.F):
        item = item.name  # type: ignore[attr-defined]
    if not isinstance(item, str):
        return item, descending
    descending ^= item.startswith("-")
    name = item.removeprefix("-")
    field = _field(model, name)
    return (name if field is None else field.name), descending


def _field(model: type[models.Model], name: Any) -> models.Field[Any, Any] | None:
    """The column of a name; None for a path, an expression, or any other name."""
    if not isinstance(name, str):
        return None
    try:
        field = model._meta.pk if name == "pk" else model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return field if isinstance(field, models.Field) and field.concrete and not field.many_to_many else None


def _indexes(model: type[models.Model]) -> Iterator[list[Term]]:
    """Every index from which rows can be read in its order; for a child model, also those of its parents."""
    concrete = model._meta.concrete_model or model
    for owner in (concrete, *concrete._meta.get_parent_list()):
        opts: Any = owner._meta
        for field in opts.local_concrete_fields:
            if field.db_index or field.unique:
                yield [(field.name, False)]
        for index in opts.indexes:
            if is_sorted(index) and _is_whole(index):
                yield _terms(owner, [*index.fields, *index.expressions])
        for constraint in opts.constraints:
            if isinstance(constraint, models.UniqueConstraint) and _is_whole(constraint):
                yield _terms(owner, [*constraint.fields, *constraint.expressions])
        for names in opts.unique_together:
            yield _terms(owner, names)


def _is_whole(index: Any) -> bool:
    """Whether the index holds every row, and sorts as the database does."""
    return index.condition is None and not index.opclasses


def _terms(model: type[models.Model], items: Iterable[Any]) -> list[Term]:
    return [_term(model, item) for item in items]


def _begins_with(index: Sequence[Term], order: Sequence[Term]) -> bool:
    """An index is read forwards or backwards: all its directions are those of the order, or all are reversed."""
    pairs = list(zip(index, order, strict=False))
    return (
        len(pairs) == len(order)
        and all(mine == theirs for (mine, _), (theirs, _) in pairs)
        and len({mine == theirs for (_, mine), (_, theirs) in pairs}) == 1
    )
