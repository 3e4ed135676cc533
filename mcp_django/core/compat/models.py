"""How Django itself treats ``on_delete``, managers and indexes of models."""

from __future__ import annotations

from typing import Any

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
