"""The internal state of querysets, and the private methods that Django calls on them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from functools import lru_cache, partial
from inspect import getattr_static
from types import FunctionType
from typing import TYPE_CHECKING, Any, cast

from django import VERSION
from django.db import Error, connections, models
from django.db.models.expressions import Expression
from django.db.models.options import Options
from django.db.models.query import ModelIterable, get_related_populators
from django.db.models.sql import Query
from django.db.models.sql.constants import LOUTER
from django.db.models.sql.datastructures import BaseTable

from mcp_django.core.compat.translated_fields import as_named
from mcp_django.core.types import AnyField

if TYPE_CHECKING:
    _Base = models.QuerySet[Any, Any]
else:
    _Base = object

Rows = models.QuerySet[Any, Any]


def is_sliced_or_combined(queryset: Rows) -> bool:
    """Whether it is sliced, or a union or the like. It can then be neither filtered nor ordered.

    Private: ``Query.is_sliced``, ``Query.combinator``. Seen with: Django 5.2, 6.0, 6.1. Public way: none but to filter
    it and catch the error.
    """
    return bool(queryset.query.is_sliced or queryset.query.combinator)


def has_default_order(queryset: Rows) -> bool:
    """Whether its order is that of the model's Meta, and can be replaced.

    Private: ``Query.default_ordering``, ``Query.order_by``, ``Query.extra_order_by``. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none, since ``QuerySet.ordered`` does not say by what.
    """
    query = queryset.query
    is_own = query.order_by or query.extra_order_by or is_sliced_or_combined(queryset)
    return bool(query.default_ordering and not is_own and query.get_meta().ordering)


def has_plain_rows(queryset: Rows) -> bool:
    """Whether a condition may be added, and each row has its own key.

    Private: ``Query.distinct_fields``, ``QuerySet._fields`` (those of ``values()``). Seen with: Django 5.2, 6.0, 6.1.
    Public way: none.
    """
    plain: Any = queryset
    return not (is_sliced_or_combined(queryset) or plain.query.distinct_fields or plain._fields is not None)


def has_one_table(queryset: Rows) -> bool:
    """Whether it reads one table and adds nothing to its rows, so that an aggregate counts each row once.

    Private: ``Query.alias_map`` and ``Query.alias_refcount``, where a join that is not needed has the count 0;
    ``Query.annotations``, ``distinct``, ``extra``, ``extra_tables``, ``group_by``. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none.
    """
    query = queryset.query
    tables = [alias for alias in query.alias_map if query.alias_refcount[alias]]
    adds = query.annotations or query.distinct or query.extra or query.extra_tables or query.group_by
    return len(tables) <= 1 and not adds


def may_double_rows(queryset: Rows) -> bool:
    """Whether it may give a row more than once, because it joins a relation to many rows.

    Private: ``Join.join_field`` in ``Query.alias_map``; ``Query.distinct``, ``Query.group_by``. Seen with: Django 5.2,
    6.0, 6.1. Public way: none.
    """
    query = queryset.query
    joins = (getattr(join, "join_field", None) for join in query.alias_map.values())
    return not (query.distinct or query.group_by) and any(
        getattr(join, "one_to_many", False) or getattr(join, "many_to_many", False) for join in joins
    )


def picks_rows(queryset: Rows) -> bool:
    """Whether it selects a row by comparing it with others, so that another condition would select other rows.

    Private: ``Query.distinct_fields``, ``WhereNode.contains_over_clause`` (a condition on a window function). Seen
    with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    query = queryset.query
    return bool(query.distinct_fields) or bool(query.where.contains_over_clause)


def has_every_row(queryset: Rows) -> bool:
    """Whether it gives every row of its table.

    Private: ``Query.where``, ``distinct_fields``, ``extra``, ``is_empty``, ``Join.join_type``, ``join_field`` and
    ``filtered_relation`` in ``Query.alias_map``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    query = queryset.query
    narrowed = query.where or query.distinct_fields or query.extra or query.is_empty()
    return not narrowed and not is_sliced_or_combined(queryset) and all(map(_keeps_rows, query.alias_map.values()))


def _keeps_rows(join: Any) -> bool:
    """Whether a table of a query leaves none of its rows out: an annotation may follow a key that is never null."""
    kind, field = getattr(join, "join_type", None), cast("Any", getattr(join, "join_field", None))
    is_full = bool(isinstance(field, models.ForeignKey) and not field.null and cast("Any", field).db_constraint)
    return kind in (None, LOUTER) or (is_full and getattr(join, "filtered_relation", None) is None)


def names_database(queryset: Rows) -> bool:
    """Whether its database was chosen, by ``using()`` or by its manager.

    Private: ``QuerySet._db``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``QuerySet.db`` asks the router too.
    """
    untyped: Any = queryset
    return untyped._db is not None


def not_reversed(queryset: Rows) -> Rows:
    """The queryset as a later ``order_by`` expects it: ``reverse()`` also turns around each order that is set after it.

    Private: ``Query.standard_ordering``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``reverse()`` undoes itself, but
    nothing tells whether it was called.
    """
    return queryset if queryset.query.standard_ordering else queryset.reverse()


def gives_instances(queryset: Rows) -> bool:
    """Whether its rows are instances of the model. Those of ``values()`` and the like are not.

    Private: ``QuerySet._iterable_class``. Seen with: Django 5.2, 6.0, 6.1. Public way: none but to read a row.
    """
    untyped: Any = queryset
    return issubclass(untyped._iterable_class, ModelIterable)


def is_iterated_by_django(queryset: Rows) -> bool:
    """Whether Django itself makes its rows, each an instance of the model's own class.

    Private: ``QuerySet._iterable_class``. Seen with: Django 5.2, 6.0, 6.1. Public way: none but to read every row.
    """
    untyped: Any = queryset
    return untyped._iterable_class is ModelIterable


def unlock(queryset: Rows) -> None:
    """Undo ``select_for_update``.

    Private: ``Query.select_for_update``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    queryset.query.select_for_update = False


def write_to(queryset: Rows) -> None:
    """Let ``QuerySet.db`` be the database for writes, as it is for Django's own ``update``.

    Private: ``QuerySet._for_write``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``using(db_for_write(model))``
    gives the router no instance as a hint.
    """
    untyped: Any = queryset
    untyped._for_write = True


def forget_rows(queryset: Rows) -> None:
    """Let the queryset read its rows again, after a statement that has changed them.

    Private: ``QuerySet._result_cache``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``all()`` makes another
    queryset.
    """
    untyped: Any = queryset
    untyped._result_cache = None


def without_slice(queryset: Rows) -> tuple[Rows, slice]:
    """The queryset with all of its rows, and the slice that it was.

    Private: ``Query.low_mark``, ``high_mark`` and ``clear_limits``. Seen with: Django 5.2, 6.0, 6.1. Public way: none.
    """
    whole = queryset.all()
    query: Any = whole.query
    limits = slice(query.low_mark, query.high_mark)
    query.clear_limits()
    return whole, limits


def has_been_read(queryset: Rows) -> bool:
    """Whether it holds its rows, and gives these without a statement.

    Private: ``QuerySet._result_cache``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; every way to look asks the
    database for them.
    """
    untyped: Any = queryset
    return untyped._result_cache is not None


def prepare_lookup(field: AnyField, lookup: str, value: Any) -> None:
    """Do what Django does for ``filter(field__lookup=value)``, for the errors that a field may raise then.

    Private: ``Field.cached_col``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``filter``, which the field's manager
    may override.
    """
    untyped: Any = field
    untyped.get_lookup(lookup)(untyped.cached_col, value)


def mark_unreadable(queryset: Rows, mark: object) -> Rows:
    """The queryset, in whose rows ``mark`` stands for each value that its field or the database's adapter cannot read.

    On SQLite the driver leaves the values to the adapter: it converts those of plain columns alone, not of expressions.

    Private: ``Query.get_compiler``, ``SQLCompiler.get_converters`` and ``get_select``. Seen with: Django 5.2, 6.0, 6.1.
    Public way: none; an error of one value ends the reading of all rows.
    """
    marking = queryset.all()
    query: Any = marking.query
    given = query.get_compiler

    def get_compiler(*args: Any, **kwargs: Any) -> Any:
        compiler = given(*args, **kwargs)
        convert = compiler.get_converters
        compiler.get_converters = lambda expressions: {
            position: ([partial(_convert, mark, function) for function in functions], expression)
            for position, (functions, expression) in convert(expressions).items()
        }
        if compiler.connection.vendor == "sqlite":
            select = compiler.get_select
            compiler.get_select = lambda *args, **kwargs: _as_expressions(*select(*args, **kwargs))
        return compiler

    query.get_compiler = get_compiler
    return marking


def _as_expressions(select: Iterable[Any], *rest: Any) -> tuple[Any, ...]:
    return [(item, (f"+{sql}", params), alias) for item, (sql, params), alias in select], *rest


def _convert(mark: object, function: Callable[..., Any], value: Any, *args: Any) -> Any:
    if value is mark:
        return mark
    try:
        converted = function(value, *args)
    except Error:
        raise  # The function asked the database, which failed.
    except Exception:  # noqa: BLE001 - a field may raise anything
        return mark
    # Django's own functions make null of a text that is no date.
    is_lost = converted is None and value is not None and function.__module__.startswith("django.db.backends.")
    return mark if is_lost else converted


class QuerySetHooks(_Base):
    """A mixin with the methods by which Django clones a queryset, and deletes its rows with one statement.

    Private: ``QuerySet._clone``, ``_chain`` and ``_raw_delete``. Seen with: Django 5.2, 6.0, 6.1. Public way: none for
    clones; ``delete()`` reads the rows first, and Django does not call it for related rows that it deletes.
    """

    #: Attributes that are copied to clones.
    _carried: Sequence[str] = ()

    def _clone(self) -> Any:
        clone = super()._clone()  # type: ignore[misc]
        for name in self._carried:
            setattr(clone, name, getattr(self, name))
        return clone

    def _copied(self) -> Any:
        """A clone like those that the public methods return."""
        return self._chain()  # type: ignore[attr-defined]

    def _raw_delete(self, using: str | None) -> int:
        return self._delete_at_once(using)

    _raw_delete.alters_data = True  # type: ignore[attr-defined]

    def _delete_at_once(self, using: str | None) -> int:
        """Delete the rows with one statement and without signals, and return their number."""
        return super()._raw_delete(using)

    _delete_at_once.alters_data = True  # type: ignore[attr-defined]


def values_list(queryset: Rows, names: Sequence[str]) -> Rows:
    """``queryset.values_list(*names)``, without resolving the names of columns of the model's own table.

    Django resolves every name as a path of relations, which takes longer than SQLite needs to find twenty rows.

    Private: ``Query.set_select``, ``values_select`` and ``selected``, ``get_initial_alias``, ``QuerySet._fields``,
    ``Field.get_col``. Seen with: Django 5.2, 6.0, 6.1. Public way: ``values_list``, which takes longer.
    """
    query, columns = queryset.query, _own_columns(queryset.model._meta)
    plain = not (query.annotations or query.extra or query.group_by or query.combinator)
    # A package may give values in its own way, as django-modeltranslation does: those of a language.
    plain = plain and gives_values_as_django(queryset)
    if not plain or len(columns.keys() & names) < len(names):
        return queryset.values_list(*names)
    rows: Any = queryset.values_list(names[0])
    # All columns replace the first one, in the form in which Query.set_values would leave them.
    alias = rows.query.get_initial_alias()
    chosen = [columns[name] for name in names]
    rows.query.set_select([column if column.alias == alias else column.target.get_col(alias) for column in chosen])
    rows.query.values_select = tuple(names)
    rows.query.selected = {name: index for index, name in enumerate(names)}
    rows._fields = tuple(names)
    return rows  # type: ignore[no-any-return]


def gives_values_as_django(queryset: Rows) -> bool:
    """Whether the queryset's class replaces no method of Django's that ``values_list`` and its rows use.

    Private: ``QuerySet._values``, ``_fetch_all``, ``_iterator`` and ``_iterable_class``. Seen with: Django 5.2, 6.0,
    6.1. Public way: none.
    """
    return _has_values_of_django(type(queryset))


@lru_cache(maxsize=1_000)
def _has_values_of_django(kind: Any) -> bool:
    names = ("values_list", "_values", "_fetch_all", "__iter__", "iterator", "_iterator", "_iterable_class")
    django: Any = models.QuerySet
    return all(getattr_static(kind, name, None) is getattr_static(django, name, None) for name in names)


@lru_cache(maxsize=1_000)
def _own_columns(opts: Options[Any]) -> dict[str, Any]:
    """The columns as expressions. Django caches them too, but not for foreign keys, which are slow to compare."""
    return {field.attname: field.get_col(opts.db_table) for field in opts.local_concrete_fields}


#: The name of the rows in the statement of ``select_from``.
_ROWS = "mcp_rows"


def select_from(rows: Rows, names: Sequence[str]) -> tuple[Rows, dict[str, Any]]:
    """A queryset over the rows of another one, as a subquery in FROM, and these annotations as its columns.

    Private: ``BaseTable``, ``Query.alias_map``, ``alias_refcount`` and ``annotations``, ``get_compiler``. Seen with:
    Django 5.2, 6.0, 6.1. Public way: none; Django makes such a subquery for ``aggregate()`` alone, which has no groups.
    """
    selected = rows.values(*names)
    outer = as_named(rows.model._base_manager.using(rows.db)).order_by()
    query = outer.query
    query.alias_map = {_ROWS: _RowsTable(selected)}
    query.alias_refcount = {_ROWS: 1}
    query.table_map = {}
    annotations = selected.query.annotations
    return outer, {name: _RowsColumn(name, annotations[name].output_field) for name in names}


class _RowsTable(BaseTable):
    """Rows of a queryset in the place of a table."""

    def __init__(self, rows: Rows) -> None:
        super().__init__(_ROWS, _ROWS)
        self.rows = rows.query

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        sql, params = self.rows.get_compiler(connection=connection).as_sql()
        return f"({sql}) {connection.ops.quote_name(_ROWS)}", list(params)


class _RowsColumn(Expression):
    """A column of ``_RowsTable``."""

    def __init__(self, name: str, output_field: Any) -> None:
        super().__init__(output_field=output_field)
        self.name = name

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        quote = connection.ops.quote_name
        return f"{quote(_ROWS)}.{quote(self.name)}", []


class PreparedQuery:
    """A query that Django compiles once for each database, and that is asked for other values at each call.

    ``make`` gives its queryset. For each of the fields it gets an expression, which stands for the value.
    Django takes ten times as long to write the SQL of such a query as the database takes to answer it.

    Private: ``connections.create_connection``; ``Query.get_compiler``; ``SQLCompiler.as_sql``, ``select``,
    ``col_count``, ``klass_info``, ``get_converters``, ``apply_converters``; ``get_related_populators``;
    ``QuerySet._fetch_mode`` of Django 6.1. Seen with: Django 5.2, 6.0, 6.1. Public way: the queryset itself, which is
    compiled at each call.
    """

    def __init__(self, make: Callable[..., models.QuerySet[Any, Any]], *fields: AnyField, answers: int = 1_000) -> None:
        self._make = make
        self._fields = fields
        #: How many answers of a database are remembered, with what Django's converters made of them.
        self._answers = answers
        self._compiled: dict[str, _Compiled] = {}

    def fetch(self, using: str, *values: Any) -> list[Any]:
        """The rows in that database for these values: instances with what ``select_related`` names, or tuples."""
        compiled = self._compiled.get(using)
        if compiled is None:
            asked = self._make(*(_Parameter(place, field) for place, field in enumerate(self._fields)))
            compiled = self._compiled[using] = _Compiled(asked, using, self._answers)
        return list(compiled.read(values))


class PreparedList:
    """As PreparedQuery, for many values of one field: ``make`` is handed the expressions that stand for some of them.

    Private: as for PreparedQuery. Seen with: Django 5.2, 6.0, 6.1. Public way: the queryset itself, which is compiled
    at each call.
    """

    #: How many values a statement has. No database refuses so many parameters.
    sizes = (10, 50, 250)

    def __init__(self, make: Callable[[list[Any]], models.QuerySet[Any, Any]], field: AnyField) -> None:
        self._queries = [
            # The same values seldom come together again: no answer is remembered.
            (size, PreparedQuery(lambda *values: make(list(values)), *[field] * size, answers=0))
            for size in self.sizes
        ]

    def fetch(self, using: str, values: Collection[Any]) -> Iterator[Any]:
        """The rows in that database for these values, as ``PreparedQuery.fetch`` gives them."""
        waiting = list(values)
        while waiting:
            size, query = next((one for one in self._queries if one[0] >= len(waiting)), self._queries[-1])
            some, waiting = waiting[:size], waiting[size:]
            # Where there are fewer values than the statement has, the last one is repeated: it adds no row.
            yield from query.fetch(using, *some, *[some[-1]] * (size - len(some)))


def first_rows(queryset: Rows, names: Sequence[str], order: Sequence[str], count: int) -> PreparedQuery | None:
    """The query for these columns of the first ``count`` rows in an order; None where Django must write it anew.

    It is for a queryset of the whole table, with a class that reads as Django's does. ``names`` and ``order`` are
    columns of that table. What a caller may read of it must be decided before.

    Private: ``Query.select_for_update``. Seen with: Django 5.2, 6.0, 6.1. Public way: the queryset itself, which is
    compiled at each call.
    """
    is_whole = has_every_row(queryset) and has_one_table(queryset) and has_plain_rows(queryset)
    kind = type(queryset)
    if not (is_whole and _reads_as_django(kind) and type(queryset.query) is Query):
        return None
    columns = _own_columns(queryset.model._meta)
    if queryset.query.select_for_update or not columns.keys() >= {*names, *(one.removeprefix("-") for one in order)}:
        return None
    model: Any = queryset.model
    return _first_rows(model, tuple(names), tuple(order), count)


@lru_cache(maxsize=256)
def _first_rows(model: type[models.Model], names: tuple[str, ...], order: tuple[str, ...], count: int) -> PreparedQuery:
    rows: Rows = models.QuerySet(model).order_by(*order)
    # Rows of a project are not kept in memory.
    return PreparedQuery(lambda: values_list(rows, names)[:count], answers=0)


@lru_cache(maxsize=1_000)
def _reads_as_django(kind: Any) -> bool:
    """Whether a class replaces no method of Django's own."""
    own = ((name, value) for name, value in vars(models.QuerySet).items() if isinstance(value, FunctionType | property))
    return all(getattr_static(kind, name) is value for name, value in own)


class _Parameter(Expression):
    """Stands in a queryset for a value of a field, which is given at each call."""

    def __init__(self, place: int, field: AnyField) -> None:
        super().__init__(output_field=field)
        self.place = place

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", [self]


_Raw = tuple[tuple[Any, ...], ...]


class _Compiled:
    """A query as it is written for one database."""

    def __init__(self, queryset: models.QuerySet[Any, Any], using: str, answers: int) -> None:
        self._using = using
        # A connection of its own, since that of this thread may be closed while others use what was compiled.
        own = connections.create_connection(using)
        try:
            compiler = queryset.query.get_compiler(connection=own)
            self._sql, self._params = compiler.as_sql()
            self._converters = compiler.get_converters([item[0] for item in compiler.select[: compiler.col_count]])
        finally:
            own.close()
        self._compiler: Any = compiler
        is_remembered = answers and all(_converts_alike(column) for _, column in self._converters.values())
        self._converted = lru_cache(maxsize=answers)(self._convert_marked) if is_remembered else None
        self._info: Any = compiler.klass_info if gives_instances(queryset) else None
        if self._info is not None:
            chosen = self._info["select_fields"]
            self._columns = slice(chosen[0], chosen[-1] + 1)
            self._names = [item[0].target.attname for item in compiler.select[self._columns]]
            populators, untyped = cast("Any", get_related_populators), cast("Any", queryset)
            modes = () if VERSION < (6, 1) else (untyped._fetch_mode,)
            self._related = populators(self._info, compiler.select, using, *modes)

    def read(self, values: Sequence[Any]) -> Iterator[Any]:
        connection = connections[self._using]
        params = [_prepared(one, values, connection) for one in self._params]
        with connection.cursor() as cursor:
            cursor.execute(self._sql, params)
            rows: Any = cursor.fetchall()
        if self._converters:
            rows = self._values(tuple(map(tuple, rows)))
        return map(tuple, rows) if self._info is None else map(self._instance, rows)

    def _values(self, raw: _Raw) -> Iterable[Sequence[Any]]:
        """The values of rows. Usually they are the same as before, and so is what Django makes of them."""
        if self._converted is None:
            return self._convert(raw)
        try:
            rows, mutable = self._converted(raw)
        except TypeError:  # A driver gave a value that has no hash.
            return self._convert(raw)
        if not mutable:
            return rows
        return [[deepcopy(one) if place in mutable else one for place, one in enumerate(row)] for row in rows]

    def _convert(self, raw: _Raw) -> Iterable[Sequence[Any]]:
        return self._compiler.apply_converters(raw, self._converters)  # type: ignore[no-any-return]

    def _convert_marked(self, raw: _Raw) -> tuple[_Raw, frozenset[int]]:
        """The values of rows, and the places of those that their owner may change."""
        rows = tuple(map(tuple, self._convert(raw)))
        mutable = (place for row in rows for place, one in enumerate(row) if isinstance(one, (list, dict)))
        return rows, frozenset(mutable)

    def _instance(self, row: Sequence[Any]) -> Any:
        found = self._info["model"].from_db(self._using, self._names, row[self._columns])
        for populator in self._related:
            populator.populate(row, found)
        return found


def _converts_alike(column: Any) -> bool:
    """Whether Django always makes the same of the same value, and nothing that can be changed except JSON.

    A field of the project's own may read another language or key each time, and JSON may have a decoder.
    """
    field = column.output_field
    return type(field).__module__.startswith("django.db.models.") and getattr(field, "decoder", None) is None


def _prepared(param: Any, values: Sequence[Any], connection: Any) -> Any:
    if not isinstance(param, _Parameter):
        return param
    return param.output_field.get_db_prep_value(values[param.place], connection, prepared=False)
