"""Counts the rows that somebody else's code writes, by the statements that it sends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.core.compat.connections import quoted
from mcp_django.core.db.bounds import BEFORE_STATEMENT

_VERB = re.compile(r"(\w+)\b\s*(?:(?:INTO|FROM|IGNORE|OR\s+\w+)\s+)*", re.IGNORECASE)
_WRITES = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE"})
_READS = frozenset({"SELECT", "SHOW", "EXPLAIN", "PRAGMA", "SET", "VALUES"})
_SAVEPOINT = re.compile(r"(SAVEPOINT|RELEASE SAVEPOINT|ROLLBACK TO SAVEPOINT)\s+(\S+)", re.IGNORECASE)


class WrittenRows:
    """Counts the rows that are written on a connection: those of one model, and those of all other tables.

    It is an execute wrapper. Rows that a savepoint takes back do not count; a row that is written twice counts twice.
    """

    def __init__(self, connection: BaseDatabaseWrapper, model: type[models.Model]) -> None:
        self._connection = connection
        self._table = quoted(connection, model._meta.db_table)
        self._label = model._meta.label_lower
        #: The rows of the model, and those of other tables.
        self._counts = [0, 0]
        #: Whether a statement was sent that may write an unknown number of rows.
        self._is_unsure = False
        #: Savepoint → the counts when it was made.
        self._savepoints: dict[str, list[int]] = {}
        #: Of an INSERT on SQLite: which count it is for, and the changes of the connection before it.
        self._inserting: tuple[int, int] | None = None

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]
    ) -> Any:
        self._settle()
        changes = self._changes()
        result = execute(sql, params, many, context)
        begin = BEFORE_STATEMENT.match(sql).end()  # type: ignore[union-attr]
        if savepoint := _SAVEPOINT.match(sql, begin):
            self._mark(savepoint[1].upper(), savepoint[2])
            return result
        verb = _VERB.match(sql, begin)
        name = verb[1].upper() if verb is not None else ""
        index = 0 if verb is not None and sql.startswith(self._table, verb.end()) else 1
        if name not in _WRITES:
            self._is_unsure = self._is_unsure or name not in _READS
        elif changes is not None and name in ("INSERT", "REPLACE"):
            self._inserting = index, changes
        else:
            self._counts[index] += max(context["cursor"].rowcount, 0)
        return result

    @property
    def has_any(self) -> bool:
        """Whether a row was written, or may have been."""
        self._settle()
        return self._is_unsure or any(self._counts)

    def describe(self) -> str:
        """As ``3 rows of flights.flight and 1 row of other tables``."""
        self._settle()
        if self._is_unsure:
            return "an unknown number of rows"
        named = zip(self._counts, (self._label, "other tables"), strict=True)
        parts = [f"{count:,} row{'' if count == 1 else 's'} of {table}" for count, table in named if count]
        return " and ".join(parts) or "no row"

    def _mark(self, verb: str, name: str) -> None:
        if verb == "SAVEPOINT":
            self._savepoints[name] = [*self._counts]
        elif verb.startswith("ROLLBACK"):
            self._counts = [*self._savepoints.get(name, (0, 0))]

    def _changes(self) -> int | None:
        """The rows that were written since the connection was opened. Only SQLite knows them."""
        changes: int | None = getattr(self._connection.connection, "total_changes", None)
        return changes

    def _settle(self) -> None:
        """Count the rows of an INSERT on SQLite, which are known once its RETURNING has been read."""
        if self._inserting is not None:
            index, before = self._inserting
            self._inserting = None
            self._counts[index] += (self._changes() or before) - before
