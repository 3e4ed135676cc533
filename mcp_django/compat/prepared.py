"""Queries whose SQL is written once for each database, and whose parameters are filled in at each call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from django import VERSION
from django.db import connections, models
from django.db.models.expressions import Expression
from django.db.models.query import get_related_populators

from mcp_django.compat.queries import gives_instances
from mcp_django.types import AnyField


class Parameter(Expression):
    """Stands in a queryset for a value of a field, which is given at each call."""

    def __init__(self, place: int, field: AnyField) -> None:
        super().__init__(output_field=field)
        self.place = place

    def as_sql(self, compiler: Any, connection: Any) -> tuple[str, Any]:
        return "%s", [self]


class PreparedQuery:
    """A query that Django compiles once: ``make`` gives its queryset, with a Parameter for each value.

    Django takes ten times as long to write the SQL of such a query as the database takes to answer it.

    Private: ``Query.get_compiler``, ``SQLCompiler.as_sql``, ``select``, ``col_count``, ``klass_info``,
    ``get_converters``, ``apply_converters``; ``get_related_populators``; ``QuerySet._fetch_mode`` of Django 6.1. Seen
    with: Django 5.2, 6.0, 6.1. Public way: the queryset itself, which is compiled at each call.
    """

    def __init__(self, make: Callable[[], models.QuerySet[Any, Any]]) -> None:
        self._make = make
        self._compiled: dict[str, _Compiled] = {}

    def fetch(self, using: str, *values: Any) -> list[Any]:
        """The rows in that database for these values: instances with what ``select_related`` names, or tuples."""
        compiled = self._compiled.get(using)
        if compiled is None:
            compiled = self._compiled[using] = _Compiled(self._make(), using)
        return list(compiled.read(values))


class _Compiled:
    """A query as it is written for one database."""

    def __init__(self, queryset: models.QuerySet[Any, Any], using: str) -> None:
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
            rows = self._compiler.apply_converters(rows, self._converters)
        return map(tuple, rows) if self._info is None else map(self._instance, rows)

    def _instance(self, row: Sequence[Any]) -> Any:
        found = self._info["model"].from_db(self._using, self._names, row[self._columns])
        for populator in self._related:
            populator.populate(row, found)
        return found


def _prepared(param: Any, values: Sequence[Any], connection: Any) -> Any:
    if not isinstance(param, Parameter):
        return param
    return param.output_field.get_db_prep_value(values[param.place], connection, prepared=False)
