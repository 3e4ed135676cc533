"""What a value of a column is as JSON, as whoever reads of a change may see it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.core.exceptions import FieldDoesNotExist
from django.core.files import File
from django.db import models

from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.core.types import AnyField

if TYPE_CHECKING:
    from mcp_django.bridge.resources.fields.columns import Column


_AS_TEXT = object()


def shown(column: Column, value: Any, *, unreadable: Any = _AS_TEXT) -> Any:
    """A value as JSON, null where it would reveal a row that the agent cannot see.

    ``unreadable`` is shown for what is no value of the field, as code of the project may put there before it is saved;
    otherwise its text.
    """
    if isinstance(value, File):
        return value.name or None
    value = amount_of(value)
    if value is None or (column.related is not None and column.hides_key and not is_visible(column, value)):
        return None
    try:
        return column.kind.write(value)
    except (ArithmeticError, AttributeError, TypeError, ValueError):
        return str(value)[:200] if unreadable is _AS_TEXT else unreadable


def is_visible(column: Column, value: Any) -> bool:
    """Whether the row that a foreign key names may be seen."""
    related, target = column.related, getattr(column.field, "target_field", column.field)
    if related is None:
        return True
    found = related.rows().filter(models.Q((target.attname, value))).values_list("pk", flat=True)[:1]
    return bool(visible_rows.visible_keys(related, list(found)))


def amount_of(value: Any) -> Any:
    """The amount of a value of django-money, whose currency is another column; any other value as it is."""
    return value.amount if type(value).__module__.startswith(("djmoney.", "moneyed.")) else value


def model_field(model: type[models.Model], name: str) -> AnyField | None:
    """The field of the model that a field of its form fills; None for one of the form alone."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    return field if isinstance(field, models.Field) else None
