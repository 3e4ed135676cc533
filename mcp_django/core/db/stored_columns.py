"""What is stored in the columns of rows, as texts that differ wherever the stored values do.

No field and no driver converts them: a field may read two stored values as one, or each time as another object, and a
driver may fail to load one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.db import models
from django.db.models import F, Func, TextField

from mcp_django.core.db.column_paths import has_key_in


def stored_columns(model: type[models.Model], keys: Iterable[Any], using: str) -> dict[str, Mapping[str, str | None]]:
    """By the primary key of each row, as text: what is stored, by the names of the attributes of its columns."""
    names = [field.attname for field in model._meta.concrete_fields]
    # A package may give other values than those that its manager is asked for.
    rows: Any = models.QuerySet(model, using=using).filter(has_key_in(model, list(keys)))
    found = rows.values_list("pk", *(_Stored(F(name)) for name in names))
    return {str(key): dict(zip(names, values, strict=True)) for key, *values in found}


class _Stored(Func):
    """A column as a text. On a database that we do not know, it is what the driver gives."""

    template = "%(expressions)s"
    output_field = TextField()

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="(%(expressions)s)::text", **context)

    def as_mysql(self, compiler: Any, connection: Any, **context: Any) -> Any:
        return self.as_sql(compiler, connection, template="HEX(CAST(%(expressions)s AS BINARY))", **context)

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:
        column = "%(expressions)s"
        # SQLite writes a number as a text of 15 digits, unless it is told otherwise.
        digits = f"CASE typeof({column}) WHEN 'real' THEN printf('%%%%!.17g', {column}) ELSE {column} END"
        return self.as_sql(compiler, connection, template=f"typeof({column}) || ' ' || hex({digits})", **context)
