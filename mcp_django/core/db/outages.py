"""Distinguishes an outage of the database from a hook that fails."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.core.compat.connections import clear_failure, has_failed

#: PQTRANS_INERROR of libpq, which every version of psycopg uses.
_IN_FAILED_TRANSACTION = 3


def is_outage(error: BaseException) -> bool:
    """Whether the database has failed, and not the code that used it. Call it in the same thread, soon afterwards.

    A project's code may have turned the database's exception into another one. An exception that ends a process, such
    as SystemExit, is no outage.
    """
    if not isinstance(error, Exception):
        return False
    return isinstance(error, (OperationalError, InterfaceError)) or is_database_away()


def is_database_away() -> bool:
    """Whether a statement has just failed in this thread because a database cannot be reached."""
    return any(has_failed(connection) and not _is_usable(connection) for connection in connections.all())


def forget_failure(connection: BaseDatabaseWrapper) -> None:
    """Forget earlier failures of the connection, before a request or a job of the hub begins.

    Django forgets a failure only when it connects anew. Until then it would look as if it had just happened.
    """
    if connection.connection is None:
        clear_failure(connection)


def _is_usable(connection: BaseDatabaseWrapper) -> bool:
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "postgresql" and raw.info.transaction_status == _IN_FAILED_TRANSACTION:
        return True  # The database is there. It refuses every statement until the transaction ends.
    return connection.is_usable()
