"""Reading rows with a value that its field cannot read: the others are read all the same.

Converters are code of the project, or of a package, and may fail for what another program, or an older version, has
written. Nothing is done for a query until it fails.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.db import Error, models

from mcp_django.core.compat.queries import is_sliced_or_combined, mark_unreadable
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.interrupts import was_interrupted
from mcp_django.exceptions import MCPError

logger = logging.getLogger("mcp_django")


class Unreadable:
    """Stands for a value that could not be read."""


UNREADABLE = Unreadable()


def note(names: Iterable[str]) -> str:
    return f"Values of {', '.join(names)} that could not be read are null."


def is_fault_of_value(error: Exception) -> bool:
    """Whether code that reads or writes a value failed, and not the database, or a request that was cancelled."""
    return not (isinstance(error, Error | MCPError) or was_interrupted())


def fetch_marked(queryset: models.QuerySet[Any], error: Exception) -> list[Any]:
    """The rows of a ``values_list`` whose reading ended with ``error``: UNREADABLE stands for a value at fault.

    Raises the error itself if no value is at fault, and TooSlow.
    """
    if not is_fault_of_value(error):
        raise error
    _log("Values of %s are null, since they could not be read (%s)", queryset, error)
    return fetch(mark_unreadable(queryset, UNREADABLE))


def fetch_instances(queryset: models.QuerySet[Any]) -> list[Any]:
    """All instances of a queryset, less those with a value that could not be read. Raises TooSlow."""
    try:
        return fetch(queryset)
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
            found += fetch(queryset.filter(pk=key))
        except Exception as error:
            if not is_fault_of_value(error):
                raise
    return found


def _log(message: str, queryset: models.QuerySet[Any], error: Exception) -> None:
    # Without the traceback, since each page with such a value is logged. The admin shows it too.
    logger.warning(message, queryset.model._meta.label, type(error).__name__)
