"""Rows that are read before a statement changes them."""

from __future__ import annotations

from typing import Any

from django.db import connections, models

from mcp_django.core.compat import queries
from mcp_django.core.compat.connections import quoted


def locked(queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """The rows in no order, as the following statement will see them in the database that it writes to."""
    connection = connections[queryset.db]
    rows = queryset.using(queryset.db).order_by()
    queries.unlock(rows)
    if not connection.in_atomic_block:
        return rows
    if connection.vendor == "mysql":
        # A plain read sees the rows as the transaction found them, but a writing statement those of now.
        return rows.select_for_update()
    if connection.vendor == "sqlite":
        # SQLite refuses writes, without waiting, in a transaction that has read before another one wrote. So this
        # takes the lock first, as the statement itself would take it.
        opts = rows.model._meta
        table, column = quoted(connection, opts.db_table), quoted(connection, opts.pk.column)
        with connection.cursor() as cursor:
            cursor.execute(f"UPDATE {table} SET {column} = {column} WHERE 1 = 0")  # noqa: S608
    return rows
