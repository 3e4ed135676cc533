"""Telling a database that is away from a hook that fails."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.compat.connections import clear_failure, has_failed

#: As libpq numbers it, and with it each version of psycopg.
_IN_FAILED_TRANSACTION = 3


def is_outage(error: BaseException) -> bool:
    """Whether a database has failed, and not the code that asked it. In the thread, and soon after it happened.

    A project's code may have made another exception of it. What would end a process says nothing of a database.
    """
    if not isinstance(error, Exception):
        return False
    return isinstance(error, (OperationalError, InterfaceError)) or is_database_away()


def is_database_away() -> bool:
    """Whether something has just failed in this thread since a database cannot be reached, or has gone."""
    return any(has_failed(connection) and not _is_usable(connection) for connection in connections.all())


def forget_failure(connection: BaseDatabaseWrapper) -> None:
    """Let what failed on the connection before be no matter to what begins now: a request, or a job of the hub.

    Django forgets it when it connects anew, and until then it would be taken for what has just happened.
    """
    if connection.connection is None:
        clear_failure(connection)


def _is_usable(connection: BaseDatabaseWrapper) -> bool:
    raw = connection.connection
    if raw is None:
        return False
    if connection.vendor == "postgresql" and raw.info.transaction_status == _IN_FAILED_TRANSACTION:
        return True  # It is there, and would answer nothing before the transaction ends.
    return connection.is_usable()
