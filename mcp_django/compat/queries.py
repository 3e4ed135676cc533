"""What a queryset is made of, and what Django's own methods do with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from django.db import models
from django.db.models.query import ModelIterable

if TYPE_CHECKING:
    _Base = models.QuerySet[Any, Any]
else:
    _Base = object

Rows = models.QuerySet[Any, Any]


def is_sliced_or_combined(queryset: Rows) -> bool:
    """Whether it is cut by ``[:n]``, or a union or the like: it can be neither filtered nor ordered.

    Private: ``Query.is_sliced``, ``Query.combinator``. Seen with: Django 5.2, 6.0, 6.1. Public way: none but to filter
    it, and see that it fails.
    """
    return bool(queryset.query.is_sliced or queryset.query.combinator)


def has_plain_rows(queryset: Rows) -> bool:
    """Whether a condition may be added, and each row has a key of its own.

    Private: ``Query.distinct_fields``, ``QuerySet._fields`` (those of ``values()``). Seen with: Django 5.2, 6.0, 6.1.
    Public way: none.
    """
    plain: Any = queryset
    return not (is_sliced_or_combined(queryset) or plain.query.distinct_fields or plain._fields is not None)


def has_one_table(queryset: Rows) -> bool:
    """Whether it reads one table and adds nothing to its rows, so that an aggregate counts each of them once.

    Private: ``Query.alias_map`` and ``Query.alias_refcount``, in which a join that was not needed in the end is counted
    0; ``Query.annotations``, ``distinct``, ``extra``, ``group_by``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    query = queryset.query
    tables = [alias for alias in query.alias_map if query.alias_refcount[alias]]
    return len(tables) <= 1 and not (query.annotations or query.distinct or query.extra or query.group_by)


def may_double_rows(queryset: Rows) -> bool:
    """Whether it may hold a row more than once, since it joins the many rows that a row has.

    Private: ``Join.join_field`` in ``Query.alias_map``; ``Query.distinct``, ``Query.group_by``. Seen with: Django 5.2,
    6.0, 6.1. Public way: none.
    """
    query = queryset.query
    joins = (getattr(join, "join_field", None) for join in query.alias_map.values())
    return not (query.distinct or query.group_by) and any(
        getattr(join, "one_to_many", False) or getattr(join, "many_to_many", False) for join in joins
    )


def picks_rows(queryset: Rows) -> bool:
    """Whether a row is in it or not by the others of its group: a condition more would let others in.

    Private: ``Query.distinct_fields``, ``WhereNode.contains_over_clause`` (a condition on a window function). Seen
    with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    query = queryset.query
    return bool(query.distinct_fields) or bool(query.where.contains_over_clause)


def has_every_row(queryset: Rows) -> bool:
    """Whether it holds every row of its table.

    Private: ``Query.where``, ``extra``, ``is_empty``, ``Join.join_type`` in ``Query.alias_map``. Seen with: Django 5.2,
    6.0, 6.1. Public way: none.
    """
    query = queryset.query
    narrowed = query.where or query.distinct or query.extra or query.is_empty() or is_sliced_or_combined(queryset)
    return not narrowed and all(
        join.join_type is None for join in query.alias_map.values() if hasattr(join, "join_type")
    )


def names_database(queryset: Rows) -> bool:
    """Whether it was told which database to read, by ``using()`` or by its manager.

    Private: ``QuerySet._db``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``QuerySet.db`` asks the router too.
    """
    untyped: Any = queryset
    return untyped._db is not None


def gives_instances(queryset: Rows) -> bool:
    """Whether its rows are instances of the model, and not what ``values()`` and the like make of them.

    Private: ``QuerySet._iterable_class``. Seen with: Django 5.2, 6.0, 6.1. Public way: none but to read a row.
    """
    untyped: Any = queryset
    return issubclass(untyped._iterable_class, ModelIterable)


def statement(queryset: Rows, using: str) -> tuple[str, tuple[Any, ...]]:
    """The SQL of a queryset with its parameters, as a cursor of that database takes them.

    Private: ``Query.get_compiler``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``str(queryset.query)`` is not
    quoted.
    """
    sql, params = queryset.query.get_compiler(using).as_sql()
    return sql, tuple(params)


def unlock(queryset: Rows) -> None:
    """Take away what ``select_for_update`` has set.

    Private: ``Query.select_for_update``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    queryset.query.select_for_update = False


def write_to(queryset: Rows) -> None:
    """Let ``QuerySet.db`` name the database that is written to, as it does for Django's own ``update``.

    Private: ``QuerySet._for_write``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``using(db_for_write(model))``
    gives the router no instance as a hint.
    """
    untyped: Any = queryset
    untyped._for_write = True


def forget_rows(queryset: Rows) -> None:
    """Let the queryset read its rows anew, after a statement that has changed them.

    Private: ``QuerySet._result_cache``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``all()`` is another one.
    """
    untyped: Any = queryset
    untyped._result_cache = None


class QuerySetHooks(_Base):
    """Methods of a queryset by which Django clones it, and deletes rows by one statement. To be mixed in.

    Private: ``QuerySet._clone``, ``_chain`` and ``_raw_delete``. Seen with: Django 5.2, 6.0, 6.1. Public way: none for
    clones; ``delete()`` reads the rows first, and is not what the deletion of other rows, or of their relations, calls.
    """

    #: Attributes that clones take over.
    _carried: Sequence[str] = ()

    def _clone(self) -> Any:
        clone = super()._clone()  # type: ignore[misc]
        for name in self._carried:
            setattr(clone, name, getattr(self, name))
        return clone

    def _copied(self) -> Any:
        """A clone, as the public methods make it."""
        return self._chain()  # type: ignore[attr-defined]

    def _raw_delete(self, using: str | None) -> int:
        return self._delete_at_once(using)

    _raw_delete.alters_data = True  # type: ignore[attr-defined]

    def _delete_at_once(self, using: str | None) -> int:
        """Delete the rows by one statement, without signals; how many there were."""
        return super()._raw_delete(using)

    _delete_at_once.alters_data = True  # type: ignore[attr-defined]
