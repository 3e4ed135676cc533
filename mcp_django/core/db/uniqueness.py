"""Which fields of a model must be unique, alone or together, as its fields and options declare it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models.constants import LOOKUP_SEP


class Unique(NamedTuple):
    """Fields whose values decide together whether a row of a table may stand beside the others."""

    #: The model whose table it is: a parent of the model that is asked about, or the model itself.
    owner: type[models.Model]
    names: frozenset[str]


def unique_fields(model: type[models.Model]) -> set[Unique]:
    """What must be unique in a row of the model: by fields, dates, ``unique_together`` and constraints.

    The fields of a constraint are also those of its condition and of its expressions.
    """
    owners: list[Any] = [model, *model._meta.get_parent_list()]
    found = (Unique(owner._meta.concrete_model, _known(owner, names)) for owner in owners for names in _of(owner))
    return {one for one in found if one.names}


def _of(owner: Any) -> Iterator[Iterable[str]]:
    """The names that stand together, of one class."""
    opts = owner._meta
    for field in opts.local_fields:
        if field.unique:
            yield [field.name]
        dates = (field.unique_for_date, field.unique_for_month, field.unique_for_year)
        yield from ([field.name, date] for date in dates if date)
    yield from opts.unique_together
    for constraint in opts.constraints:
        if not isinstance(constraint, models.CheckConstraint):
            yield _of_constraint(constraint)


def _of_constraint(constraint: Any) -> Iterator[str]:
    yield from getattr(constraint, "fields", ())
    for expression in getattr(constraint, "expressions", ()):
        # One that excludes rows has pairs of what is compared and an operator.
        compared = expression[0] if isinstance(expression, tuple | list) else expression
        yield from [compared] if isinstance(compared, str) else _names_in(compared)
    yield from _names_in(getattr(constraint, "condition", None))


def _names_in(expression: Any) -> Iterator[str]:
    """The names of the fields that an expression or a condition reads."""
    if isinstance(expression, models.F):
        yield expression.name  # type: ignore[attr-defined]
    elif isinstance(expression, models.Q):
        for child in expression.children:
            lookup, value = child if isinstance(child, tuple) else (None, child)
            yield from [] if lookup is None else [lookup]
            yield from _names_in(value)
    elif hasattr(expression, "get_source_expressions"):
        for source in expression.get_source_expressions():
            yield from _names_in(source)


def _known(model: Any, names: Iterable[str]) -> frozenset[str]:
    """The names of the fields that the names begin with; of one that the database computes, those that it reads."""
    found: set[str] = set()
    for name in names:
        head = name.partition(LOOKUP_SEP)[0]
        try:
            field = model._meta.pk if head == "pk" else model._meta.get_field(head)
        except FieldDoesNotExist:
            continue
        is_computed = getattr(field, "generated", False)
        found |= _known(model, _names_in(field.expression)) if is_computed else {field.name}
    return frozenset(found)
