"""Writes lines of the audit trail into their table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from django.db import InterfaceError, OperationalError, connections, router, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.audit.lines import COLUMNS, Line
from mcp_django.compat.connections import datetime_parameter, quoted
from mcp_django.models import Call

logger = logging.getLogger("mcp_django")
#: Lines of one transaction. It is short, since SQLite lets nobody else write meanwhile.
_AT_ONCE = 500
_AT = COLUMNS.index("at")


class Away(Exception):
    """The database cannot be reached, or is locked. ``left`` are the lines that were not written."""

    def __init__(self, left: Sequence[Line]) -> None:
        super().__init__("The database of the audit trail is away")
        self.left = left


def database() -> str:
    """The alias of the database that holds the trail."""
    return router.db_for_write(Call)


def insert(lines: Sequence[Line]) -> list[Line]:
    """Write the lines, and return those that the database took. Raises Away with the rest of them."""
    written: list[Line] = []
    for start in range(0, len(lines), _AT_ONCE):
        try:
            written += _insert(lines[start : start + _AT_ONCE])
        except (OperationalError, InterfaceError) as error:
            raise Away(lines[start:]) from error
    return written


def _insert(lines: Sequence[Line]) -> list[Line]:
    """A batch that the database refuses is tried again in halves, so that one bad line costs no other."""
    connection = connections[database()]
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.executemany(_statement(connection.alias), [_parameters(connection, one) for one in lines])
    except (OperationalError, InterfaceError):
        connection.close()
        raise
    except Exception:
        # A driver refuses some values by errors of its own.
        if len(lines) == 1:
            logger.exception("A line of the audit trail could not be written")
            return []
        middle = len(lines) // 2
        return [*_insert(lines[:middle]), *_insert(lines[middle:])]
    return list(lines)


@lru_cache(maxsize=8)
def _statement(alias: str) -> str:
    connection = connections[alias]
    names = ", ".join(quoted(connection, name) for name in COLUMNS)
    marks = ", ".join(["%s"] * len(COLUMNS))
    return f"INSERT INTO {quoted(connection, Call._meta.db_table)} ({names}) VALUES ({marks})"  # noqa: S608


def _parameters(connection: BaseDatabaseWrapper, one: Line) -> tuple[Any, ...]:
    return (*one[:_AT], datetime_parameter(connection, one[_AT]), *one[_AT + 1 :])
