"""How Django itself treats ``on_delete``, managers and indexes of models."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import models

from mcp_django.core.types import AnyField

#: Suffixes of the index classes that are sorted. Hash, GIN, GiST and BRIN indexes cannot be read in an order.
_SORTED = frozenset({"idx", "btree"})


def sets_by_base_manager(on_delete: Any) -> bool:
    """Whether the deletion of a row updates the rows that point to it by their base manager, without reading them.

    Private: ``lazy_sub_objs`` of SET_NULL and of the functions that ``SET()`` makes. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none.
    """
    return bool(getattr(on_delete, "lazy_sub_objs", False))


def base_queryset_class(manager: Any) -> Any:
    """The class of a manager's querysets. No queryset is made, because a project's ``get_queryset`` may need a request.

    Private: ``BaseManager._queryset_class``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``type(manager.all())``.
    """
    return manager._queryset_class


def is_sorted(index: Any) -> bool:
    """Whether an index can give the rows in its order.

    Private: ``Index.suffix``. Seen with: Django 5.2, 6.0, 6.1. Public way: the classes of indexes, but those of
    PostgreSQL cannot be imported without its driver.
    """
    return index.suffix in _SORTED


def choose_columns(row: models.Model, choose: Callable[[str, Any, AnyField, Any], bool]) -> None:
    """Let ``row.save()`` write only those columns of a row that is there, of which ``choose`` says that they differ.

    ``choose`` is asked with the name of the database, the primary key, the field and its value. All columns are written
    where a package has its own way to do so: django-concurrency counts versions, django-modeltranslation adds columns.

    Private: ``Model._do_update``, ``QuerySet._update``. Seen with: Django 5.2, 6.0, 6.1. Public way:
    ``save(update_fields=…)``, which the project's own ``save`` and the receivers of its signals would see.
    """
    if type(row)._do_update is models.Model._do_update:
        vars(row)["_do_update"] = _ChosenColumns(row, choose)


def write_all_columns(row: models.Model) -> None:
    """Undo ``choose_columns``.

    Private: see there. Seen with: Django 5.2, 6.0, 6.1. Public way: see there.
    """
    vars(row).pop("_do_update", None)


class _ChosenColumns:
    """The UPDATE of one row, without the columns that are not to be written."""

    def __init__(self, row: models.Model, choose: Callable[[str, Any, AnyField, Any], bool]) -> None:
        self._row = row
        self._choose = choose

    def __call__(self, rows: Any, using: str, key: Any, values: Any, *rest: Any, **options: Any) -> Any:
        is_django = type(rows)._update is models.QuerySet._update  # type: ignore[attr-defined]
        chosen = [each for each in values if self._choose(using, key, each[0], each[2])] if is_django else values
        return models.Model._do_update(self._row, rows, using, key, chosen, *rest, **options)

    def __reduce__(self) -> Any:
        # A copy of the row, as one for a queue, is written whole.
        return partial, (models.Model._do_update, self._row)
