"""Conditions on one column, whatever the fields of related models are called.

Django reads ``rule_id__gt`` on into the related model, and finds its field ``gt`` before the lookup. A path that ends
in a column of no relation is followed by lookups alone: ``rule__id__gt``, for which Django writes the same SQL.
"""

from __future__ import annotations

from typing import Any

from django.db import models
from django.db.models import Q

from mcp_django.core.compat.translated_fields import as_named
from mcp_django.core.types import AnyField


def column_path(field: AnyField) -> str:
    """The path of a field's own column, behind which a name is nothing but a lookup.

    Of a foreign key it is that of the key which it ends in: ``rule__id``, or ``user__person__id`` where that key is a
    foreign key too.
    """
    names = [field.name]
    while isinstance(field, models.ForeignKey):
        field = field.target_field
        names.append(field.name)
    return "__".join(names)


def is_in(field: AnyField, values: Any) -> Q:
    """``Q(field__in=values)``. ``values``: a list, or a queryset of one column."""
    return Q((f"{column_path(field)}__in", values))


def has_key_in(model: type[models.Model], keys: Any) -> Q:
    """``Q(pk__in=keys)`` for the rows of a model."""
    return is_in(model._meta.pk, keys)


def rows_of_keys(queryset: models.QuerySet[Any], keys: Any) -> models.QuerySet[Any]:
    """The rows with these keys in the model and database of a queryset, each once, without what the queryset adds."""
    rows: models.QuerySet[Any] = queryset.model._base_manager.using(queryset.db)
    found: models.QuerySet[Any] = as_named(rows).filter(has_key_in(queryset.model, keys))
    return found
