"""Limits the time of our own queries, and makes them read-only, in the way of each database.

The limits are sent with a query and end with it. Nothing stays on the connection, because requests of the project or a
pool may use it too. The queries of hooks, tools and actions are never limited.
"""

from __future__ import annotations

import re
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db import DatabaseError, connections, models
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.conf import get_conf
from mcp_django.core.compat.connections import driver_cursor, driver_errors, is_mariadb, moves_beyond_calendar
from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.protocol.errors import TooSlow

T = TypeVar("T")

#: Executes a statement: Django itself, or the next wrapper around it.
Execute = Callable[[str, Any, bool, Any], Any]

#: What may stand in front of a statement, as a comment that a wrapper of the project has put there.
BEFORE_STATEMENT = re.compile(r"(?:\s|\(|/\*.*?\*/|--[^\n]*\n)*", re.DOTALL)
_QUERY = re.compile(rf"{BEFORE_STATEMENT.pattern}(SELECT|WITH)\b", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that is about to be executed."""

    execute: Execute
    sql: str
    params: Any
    context: Mapping[str, Any]

    @property
    def cursor(self) -> Any:
        """The driver's own cursor."""
        return driver_cursor(self.context)

    def run(self, sql: str | None = None) -> Any:
        """Execute it as it is, or with other SQL."""
        return self.execute(self.sql if sql is None else sql, self.params, False, self.context)


class Bounds(ABC):
    """An execute wrapper that limits the queries on one connection."""

    def __init__(self, connection: BaseDatabaseWrapper, seconds: float, read_only: bool) -> None:
        self.connection = connection
        self.seconds = seconds
        self.read_only = read_only

    def __call__(self, execute: Execute, sql: str, params: Any, many: bool, context: Mapping[str, Any]) -> Any:
        if many or not isinstance(sql, str) or _QUERY.match(sql) is None:
            self.lift()
            return execute(sql, params, many, context)
        return self.run_query(Statement(execute, sql, params, context))

    @abstractmethod
    def run_query(self, statement: Statement) -> Any:
        """Execute a query within the bounds."""

    @abstractmethod
    def has_timed_out(self, error: DatabaseError) -> bool:
        """Whether the error means that a query took too long."""

    def lift(self) -> None:  # noqa: B027
        """Remove the limits that outlive a query."""

    @contextmanager
    def _between(self, raw: Any, before: str, after: str, undo: str) -> Iterator[None]:
        """Statements around a query. If the ``undo`` fails, the connection is closed."""
        try:
            self._send(raw, before)
            yield
            self._send(raw, after)
        except BaseException:
            try:
                self._send(raw, undo)
            except Exception:  # noqa: BLE001 - the first error is raised
                raw.close()
            raise

    def _send(self, raw: Any, sql: str) -> None:
        """Send SQL past the execute wrappers, because ours refuses every statement of a cancelled request."""
        if sql:
            with driver_errors(self.connection), raw.cursor() as cursor:
                cursor.execute(sql)


class SQLiteBounds(Bounds):
    """A progress handler, and ``PRAGMA query_only``.

    A progress handler of the project is lost, because SQLite does not tell which one is set. A query continues while
    its rows are fetched, so both limits stay until the next statement or the end of the block.
    """

    _OPERATIONS = 1_000

    def __init__(self, connection: BaseDatabaseWrapper, seconds: float, read_only: bool) -> None:
        super().__init__(connection, seconds, read_only)
        self._raw: Any = None
        self._closed_for_writing = False
        self._end = 0.0
        self._has_ended = False

    def run_query(self, statement: Statement) -> Any:
        raw = self._raw = statement.cursor.connection
        self._end, self._has_ended = time.monotonic() + self.seconds, False
        if self.seconds:
            raw.set_progress_handler(self._is_over, self._OPERATIONS)
        if self.read_only:
            self._close_for_writing(raw)
        return statement.run()

    def _close_for_writing(self, raw: Any) -> None:
        with driver_errors(self.connection):
            # A project may have set query_only itself.
            if raw.execute("PRAGMA query_only").fetchone() == (0,):
                raw.execute("PRAGMA query_only = ON")
                self._closed_for_writing = True

    def lift(self) -> None:
        raw, self._raw = self._raw, None
        if raw is None or raw is not self.connection.connection:
            return
        if self.seconds:
            raw.set_progress_handler(None, 0)
        if self._closed_for_writing:
            self._closed_for_writing = False
            raw.execute("PRAGMA query_only = OFF")

    def _is_over(self) -> bool:
        self._has_ended = time.monotonic() >= self._end
        return self._has_ended

    def has_timed_out(self, error: DatabaseError) -> bool:
        return self._has_ended


class PostgreSQLBounds(Bounds):
    """Settings of a transaction, in one message with the query: the server runs such a message in one transaction.

    In a transaction of the project the limit holds too, and a savepoint protects the earlier work from a failure of
    the query. Whether such a transaction may write is left to the project. A shorter limit of the project stays in
    force. A driver that sends one statement at a time (``server_side_binding``, psycopg2) needs three messages.
    """

    _LIMIT = (
        "set_config('statement_timeout', CASE WHEN current_setting('statement_timeout')::interval "
        "BETWEEN '1ms' AND '{0}ms' THEN current_setting('statement_timeout') ELSE '{0}' END, true)"
    )
    _READ_ONLY = "set_config('transaction_read_only', 'on', true)"
    _KEEP = "set_config('mcp_django.statement_timeout', current_setting('statement_timeout'), true)"
    _RESTORE = "set_config('statement_timeout', current_setting('mcp_django.statement_timeout'), true)"
    #: query_canceled: the query took too long, or somebody cancelled it.
    _CANCELLED = "57014"
    #: States of a connection (libpq, PQtransactionStatus).
    _IDLE, _FAILED = 0, 3

    def __init__(self, connection: BaseDatabaseWrapper, seconds: float, read_only: bool) -> None:
        super().__init__(connection, seconds, read_only)
        self._limit = [self._LIMIT.format(_milliseconds(seconds))] if seconds else []
        self._began = 0.0

    def run_query(self, statement: Statement) -> Any:
        cursor, raw = statement.cursor, statement.cursor.connection
        # Whatever has made such a cursor has imported it.
        psycopg: Any = sys.modules.get("psycopg")
        sends_several = psycopg is not None and isinstance(cursor, psycopg.ClientCursor)
        self._began = time.monotonic()
        # The driver's state counts, because a transaction may also have been begun by plain SQL.
        status = raw.info.transaction_status
        if status == self._IDLE and raw.autocommit:
            settings = ", ".join([*self._limit, *([self._READ_ONLY] if self.read_only else [])])
            if not sends_several:
                with self._between(raw, f"BEGIN; SELECT {settings}", "COMMIT", "ROLLBACK"):
                    return statement.run()
            result = statement.run(f"SELECT {settings}; {statement.sql}")
            cursor.nextset()
            return result
        if status == self._FAILED or not self._limit:
            return statement.run()
        before = f"SAVEPOINT mcp_django; SELECT {', '.join([self._KEEP, *self._limit])}"
        after = f"SELECT {self._RESTORE}; RELEASE SAVEPOINT mcp_django"
        undo = "ROLLBACK TO SAVEPOINT mcp_django; RELEASE SAVEPOINT mcp_django"
        if not sends_several:
            with self._between(raw, before, after, undo):
                return statement.run()
        with self._between(raw, "", "", undo):
            result = statement.run(f"{before}; {statement.sql}\n; {after}")
        cursor.nextset()
        cursor.nextset()
        return result

    def has_timed_out(self, error: DatabaseError) -> bool:
        cause = error.__cause__
        if (getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)) != self._CANCELLED:
            return False
        # The text is in the server's language, so the time counts too. A shorter limit of the project ends a query
        # before our time is over, and then only the text tells.
        is_late = bool(self.seconds) and time.monotonic() - self._began >= self.seconds
        return is_late or "statement timeout" in str(cause)


class MySQLBounds(Bounds):
    """A limit in the statement itself, and a read-only transaction around it.

    Whether a transaction of the project may write is left to the project. On MariaDB a shorter limit of the project
    stays in force. MySQL limits only a plain SELECT.
    """

    _LIMIT = "max_statement_time=IF(@@max_statement_time BETWEEN 0.000001 AND {0}, @@max_statement_time, {0})"
    _HINT = " /*+ MAX_EXECUTION_TIME({0}) */"
    #: ER_STATEMENT_TIMEOUT of MariaDB, ER_QUERY_TIMEOUT of MySQL.
    _TIMEOUTS = (1969, 3024)

    def __init__(self, connection: BaseDatabaseWrapper, seconds: float, read_only: bool) -> None:
        super().__init__(connection, seconds, read_only)
        # This may ask the server on a new connection, so it must be done before a query runs.
        self._is_mariadb = is_mariadb(connection)

    def run_query(self, statement: Statement) -> Any:
        limited = self._limited(statement.sql) if self.seconds else statement.sql
        if not self.read_only or self.connection.in_atomic_block or not self.connection.autocommit:
            return statement.run(limited)
        with self._between(statement.cursor.connection, "START TRANSACTION READ ONLY", "COMMIT", "ROLLBACK"):
            return statement.run(limited)

    def _limited(self, sql: str) -> str:
        if self._is_mariadb:
            return f"SET STATEMENT {self._LIMIT.format(f'{self.seconds:f}')} FOR {sql}"
        query = _QUERY.match(sql)
        if query is None or query[1].upper() != "SELECT":
            return sql
        hint = self._HINT.format(_milliseconds(self.seconds))
        return sql[: query.end()] + hint + sql[query.end() :]

    def has_timed_out(self, error: DatabaseError) -> bool:
        return bool(error.args) and error.args[0] in self._TIMEOUTS


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


#: Vendor of a connection → its bounds.
BOUNDS: Mapping[str, type[Bounds]] = {"sqlite": SQLiteBounds, "postgresql": PostgreSQLBounds, "mysql": MySQLBounds}


def fetch(queryset: models.QuerySet[Any]) -> list[Any]:
    """All rows of a queryset. Raises TooSlow."""
    return read(queryset.db, lambda: list(queryset))


def read(alias: str, ask: Callable[[], T]) -> T:
    """What a function reads from a database within the bounds. The function may be called twice. Raises TooSlow."""
    try:
        with bounded(alias):
            return ask()
    except DatabaseError as error:
        if not moves_beyond_calendar(connections[alias], error):
            raise
    with bounded(alias):
        return ask()


@contextmanager
def bounded(alias: str, seconds: float | None = None) -> Iterator[None]:
    """Limit our own queries to a database within the block: each ends in time, and none writes. Raises TooSlow.

    ``seconds`` is a shorter time than STATEMENT_SECONDS, for a query whose answer is worth no more.
    Do not use it around ``iterator()``, whose rows are read after its statement has ended, nor around hooks.
    """
    conf = get_conf()
    connection = connections[alias]
    kind = BOUNDS.get(connection.vendor)
    if kind is None or not (seconds or conf.STATEMENT_SECONDS or conf.READ_ONLY_TRANSACTIONS):
        yield
        return
    limit = min(filter(None, (seconds, conf.STATEMENT_SECONDS)), default=0.0)
    bounds = kind(connection, limit, conf.READ_ONLY_TRANSACTIONS)
    try:
        with connection.execute_wrapper(bounds):
            yield
    except DatabaseError as error:
        # The query of a cancelled request is stopped too. That is a cancellation, and no query that was too slow.
        if bounds.has_timed_out(error) and not was_interrupted():
            raise TooSlow from error
        raise
    finally:
        bounds.lift()
