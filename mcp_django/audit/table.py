"""Writes lines of the audit trail into their table."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import lru_cache
from itertools import chain
from typing import Any

from django.db import (
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    OperationalError,
    connections,
    router,
    transaction,
)
from django.db.backends.base.base import BaseDatabaseWrapper

from mcp_django.audit.lines import COLUMNS, Line
from mcp_django.core.compat.connections import datetime_parameter, quoted, without_waiting
from mcp_django.models import Call

logger = logging.getLogger("mcp_django")
#: Lines of one transaction. It is short, since SQLite lets nobody else write meanwhile.
_AT_ONCE = 500
_AT = COLUMNS.index("at")


class Away(Exception):
    """The database cannot take lines now. ``written`` are those that it took before, ``left`` the rest."""

    def __init__(self, written: Sequence[Line] = (), left: Sequence[Line] = ()) -> None:
        super().__init__("The database of the audit trail is away")
        self.written = written
        self.left = left


def database() -> str:
    """The alias of the database that holds the trail."""
    return router.db_for_write(Call)


def giving_way() -> AbstractContextManager[None]:
    """Within the block, nobody waits for the trail or fails because of it: on SQLite, Away is raised instead."""
    return without_waiting(connections[database()])


def is_shared() -> bool:
    """Whether the database lets several connections write: all do but SQLite."""
    return connections[database()].vendor != "sqlite"


def insert(lines: Sequence[Line]) -> list[Line]:
    """Write the lines, and return those that the database took. Raises Away.

    A batch that holds a line which the database refuses is tried again in halves, so that it costs no other line.
    """
    written: list[Line] = []
    batches = [lines[start : start + _AT_ONCE] for start in range(0, len(lines), _AT_ONCE)][::-1]
    while batches:
        batch = batches.pop()
        try:
            _insert(batch)
        except Exception as error:
            if not is_about_one_line(error):
                raise Away(written, [*batch, *chain.from_iterable(reversed(batches))]) from error
            if len(batch) > 1:
                middle = len(batch) // 2
                batches += [batch[middle:], batch[:middle]]
            else:
                logger.exception("A line of the audit trail could not be written")
        else:
            written += batch
    return written


def is_about_one_line(error: Exception) -> bool:
    """Whether a value of a line may be the cause. A driver refuses some values by errors of its own."""
    return isinstance(error, DataError | IntegrityError) or not isinstance(error, Error)


def _insert(lines: Sequence[Line]) -> None:
    connection = connections[database()]
    try:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            cursor.executemany(_statement(connection.alias), [_parameters(connection, one) for one in lines])
    except (OperationalError, InterfaceError):
        connection.close()
        raise


@lru_cache(maxsize=8)
def _statement(alias: str) -> str:
    connection = connections[alias]
    names = ", ".join(quoted(connection, name) for name in COLUMNS)
    marks = ", ".join(["%s"] * len(COLUMNS))
    return f"INSERT INTO {quoted(connection, Call._meta.db_table)} ({names}) VALUES ({marks})"  # noqa: S608


def _parameters(connection: BaseDatabaseWrapper, one: Line) -> tuple[Any, ...]:
    return (*one[:_AT], datetime_parameter(connection, one[_AT]), *one[_AT + 1 :])
