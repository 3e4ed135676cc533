"""Fields of django-modeltranslation: a column for each language, and querysets that put one in the place of another.

The package keeps ``title_en`` and ``title_de`` beside ``title``. What is in the column ``title`` depends on who saved
the row last, and the package never reads it. Its querysets rewrite names for the language of the thread: in filters and
orders, in some values and annotations, and not behind a foreign key. So we ask them for no rewriting, and name the
column of the language ourselves.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from inspect import getattr_static
from typing import Any

from django.apps import apps
from django.db import models
from django.db.models import F, Value
from django.db.models.functions import Coalesce, NullIf

from mcp_django.core.types import AnyField


@cache
def _is_used() -> bool:
    return apps.is_installed("modeltranslation")


def language() -> str:
    """The language whose values are read; empty where no field is translated.

    Private: nothing. Seen with: django-modeltranslation 0.20. Public way: this is it.
    """
    if not _is_used():
        return ""
    from modeltranslation.utils import get_language

    return str(get_language())


def as_named(queryset: Any) -> Any:
    """The queryset with names that mean what they are, whatever the language of the thread is.

    Private: the module of ``MultilingualQuerySet``. Seen with: django-modeltranslation 0.20. Public way: this is it,
    ``rewrite(False)``, once the class is known.
    """
    return queryset.rewrite(False) if _rewrites(queryset.__class__) else queryset


def in_language(queryset: Any) -> Any:
    """The queryset as code of the project knows it: the opposite of ``as_named``.

    Private: as there. Seen with: django-modeltranslation 0.20. Public way: ``rewrite(True)``.
    """
    return queryset.rewrite(True) if _rewrites(queryset.__class__) else queryset


@cache
def _rewrites(kind: Any) -> bool:
    return _is_used() and any(cls.__module__ == "modeltranslation.manager" for cls in kind.__mro__)


@dataclass(frozen=True, slots=True)
class Localized:
    """What stands for a translated field in the language of the thread.

    Private: as for ``localized``. Seen with: django-modeltranslation 0.20. Public way: none.
    """

    #: The columns of which the first one with a value is shown: that of the language, then those that it falls back to.
    fields: tuple[AnyField, ...]
    #: What counts as no value, beside null.
    undefined: Any
    #: What is shown where no language has a value.
    last: Any

    @property
    def falls_back(self) -> bool:
        """Whether what is shown may be another value than that of the first column."""
        return len(self.fields) > 1 or self.last is not None

    def value(self, path: str) -> Any:
        """The value that is shown, as an expression. ``path``: that of the first field."""
        prefix, first = path.removesuffix(self.fields[0].attname), self.fields[0]
        found: list[Any] = [F(prefix + one.attname) for one in self.fields]
        if self.undefined is not None and not isinstance(first, models.JSONField):
            nothing = Value(self.undefined, output_field=first)
            found = [NullIf(one, nothing, output_field=first) for one in found]
        if self.last is not None:
            found.append(Value(self.last, output_field=first))
        return _First(*found, output_field=first)


def localized(field: AnyField, is_hidden: Callable[[AnyField], bool]) -> Localized | None:
    """What stands for a field in the language of the thread, without what is hidden. None: the field is not translated.

    Private: ``TranslationFieldDescriptor`` with its ``fallback_languages``, ``fallback_undefined`` and
    ``fallback_value``; ``NONE``, ``resolution_order`` and ``build_localized_fieldname``. Seen with:
    django-modeltranslation 0.20. Public way: an attribute of an instance, which is one row.
    """
    descriptor: Any = getattr_static(field.model, field.name, None) if _is_used() else None
    if type(descriptor).__module__ != "modeltranslation.fields" or not hasattr(descriptor, "fallback_undefined"):
        return None
    from modeltranslation.fields import NONE
    from modeltranslation.utils import build_localized_fieldname, get_language, resolution_order

    languages = resolution_order(get_language(), descriptor.fallback_languages)
    if isinstance(field, models.ForeignKey):
        languages = languages[:1]  # What a row points to has no fallback.
    columns = {one.name: one for one in field.model._meta.concrete_fields}
    fields = [columns[build_localized_fieldname(field.name, one)] for one in languages]
    given = field.get_default()
    return Localized(
        tuple(one for one in fields if not is_hidden(one)),
        given if descriptor.fallback_undefined is NONE else descriptor.fallback_undefined,
        given if descriptor.fallback_value is NONE else descriptor.fallback_value,
    )


class _First(Coalesce):
    """The first value. Decimals have the places of their column, which SQLite gives to plain columns alone."""

    def get_db_converters(self, connection: Any) -> list[Any]:
        found: list[Any] = super().get_db_converters(connection)
        return [*found, _with_places] if isinstance(self.output_field, models.DecimalField) else found


def _with_places(value: Any, expression: Any, connection: Any) -> Any:
    return None if value is None else value.quantize(Decimal(1).scaleb(-expression.output_field.decimal_places))
