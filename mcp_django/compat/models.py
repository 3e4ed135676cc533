"""What declarations of models mean to Django itself."""

from __future__ import annotations

from typing import Any

#: Suffixes of the classes of index that are sorted: hash, GIN, GiST and BRIN indexes answer no order.
_SORTED = frozenset({"idx", "btree"})


def sets_by_base_manager(on_delete: Any) -> bool:
    """Whether the deletion of a row sets what points to it by the related model's base manager, without reading it.

    Private: ``lazy_sub_objs`` of SET_NULL and of what ``SET()`` makes. Seen with: Django 5.2, 6.0, 6.1. Public way:
    none.
    """
    return bool(getattr(on_delete, "lazy_sub_objs", False))


def base_queryset_class(manager: Any) -> Any:
    """The class of a manager's querysets, without making one: a project's ``get_queryset`` may need a request.

    Private: ``BaseManager._queryset_class``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``type(manager.all())``.
    """
    return manager._queryset_class


def is_sorted(index: Any) -> bool:
    """Whether rows can be read from an index in its order.

    Private: ``Index.suffix``. Seen with: Django 5.2, 6.0, 6.1. Public way: the classes of indexes, of which those of
    PostgreSQL cannot be imported without its driver.
    """
    return index.suffix in _SORTED
