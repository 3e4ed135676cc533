"""Reading rows with a value that its field cannot read: the others are read all the same.

Converters are code of the project, or of a package, and may fail for what another program, or an older version, has
written. So may drivers: Python has no date of the year 12345. Nothing is done for a query until it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from django.db import Error, connections, models

from mcp_django.core.compat.connections import always_marking, is_fault_of_driver, marking
from mcp_django.core.compat.queries import is_sliced_or_combined, mark_unreadable
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.exceptions import MCPError

logger = logging.getLogger("mcp_django")


class Unreadable:
    """Stands for a value that could not be read."""


UNREADABLE = Unreadable()


#: Rows that a note names for one field.
_MAX_NAMED = 5


def note(lost: Mapping[str, Sequence[Any]]) -> str:
    """What is said of values that are null in the place of others. ``lost``: field → the keys of its rows, if known."""
    return f"Values that could not be read are null: {'; '.join(map(_named, lost, lost.values()))}."


def _named(name: str, keys: Sequence[Any]) -> str:
    more = f" and {len(keys) - _MAX_NAMED} more" if len(keys) > _MAX_NAMED else ""
    return f"{name} of {', '.join(str(key) for key in keys[:_MAX_NAMED])}{more}" if keys else name


def is_fault_of_value(error: Exception) -> bool:
    """Whether code that reads or writes a value failed, and not the database, or a request that was cancelled."""
    return is_fault_of_driver(error) or not (isinstance(error, Error | MCPError) or was_interrupted())


def fetch_marked(queryset: models.QuerySet[Any], error: Exception) -> list[Any]:
    """The rows of a ``values_list`` whose reading ended with ``error``: UNREADABLE stands for a value at fault.

    Raises the error itself if no value is at fault, and TooSlow.
    """
    if not is_fault_of_value(error):
        raise error
    _log("Values of %s are null, since they could not be read (%s)", queryset, error)
    with marking(connections[queryset.db], UNREADABLE):
        return fetch(mark_unreadable(queryset, UNREADABLE))


def unreadable_names(queryset: models.QuerySet[Any], names: Sequence[str], error: Exception) -> list[str]:
    """Those of the columns with a value that cannot be read, after ``error`` has ended a reading. Raises TooSlow."""
    if not is_fault_of_value(error):
        return []
    rows = fetch_marked(queryset.values_list(*names), error)
    return [name for index, name in enumerate(names) if any(_is_lost(row[index]) for row in rows)]


def _is_lost(value: Any) -> bool:
    """Whether it is, or has in it, what could not be read: PostgreSQL's arrays and ranges are made of values."""
    if isinstance(value, str | bytes):
        return False
    parts = value if isinstance(value, list) else [getattr(value, name, None) for name in ("lower", "upper")]
    return value is UNREADABLE or any(map(_is_lost, filter(None, parts)))


def fetch_instances(queryset: models.QuerySet[Any]) -> list[Any]:
    """All instances of a queryset, less those with a value that could not be read. Raises TooSlow."""
    try:
        return _fetch_readable(queryset)
    except Exception as error:
        if not is_fault_of_value(error):
            raise
        logger.warning(
            "Rows of %s are left out, since they could not be read (%s)",
            queryset.model._meta.label,
            type(error).__name__,
        )
    if is_sliced_or_combined(queryset):
        return []
    found = []
    for key in fetch(queryset.values_list("pk", flat=True)):
        try:
            found += _fetch_readable(queryset.filter(pk=key))
        except Exception as error:
            if not is_fault_of_value(error):
                raise
    return found


def _fetch_readable(queryset: models.QuerySet[Any]) -> list[Any]:
    with always_marking(connections[queryset.db], UNREADABLE):
        return [row for row in fetch(queryset) if not any(value is UNREADABLE for value in vars(row).values())]


def _log(message: str, queryset: models.QuerySet[Any], error: Exception) -> None:
    # Without the traceback, since each page with such a value is logged. The admin shows it too.
    logger.warning(message, queryset.model._meta.label, type(error).__name__)
