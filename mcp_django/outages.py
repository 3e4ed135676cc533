"""Telling a database that is away from a hook that fails."""

from __future__ import annotations

from django.db import InterfaceError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper


def is_outage(error: Exception) -> bool:
    """Whether a database has failed, and not the code that asked it. In the thread, and soon after it happened.

    A project's code may have made another exception of it.
    """
    return isinstance(error, (OperationalError, InterfaceError)) or is_database_away()


def is_database_away() -> bool:
    """Whether something has just failed in this thread since a database cannot be reached, or has gone."""
    return any(connection.errors_occurred and not _is_usable(connection) for connection in connections.all())


def _is_usable(connection: BaseDatabaseWrapper) -> bool:
    return connection.connection is not None and connection.is_usable()
