"""Deletes expired rows, while other processes add to them and delete them too."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, OperationalError
from django.db.models import QuerySet

#: So many rows are deleted at a time, so that no request waits long. The next call deletes the rest.
_AT_ONCE = 1_000


def clear_away(rows: QuerySet[Any]) -> bool:
    """Delete expired rows and the rows that belong to them. Do not call it in a transaction, nor rely on it.

    False if another process added a row to them meanwhile: Django looks for related rows before it deletes, and the
    database refuses to delete a row that another row points to. False also for a deadlock.
    """
    # The rows are deleted by key and in order, because two processes that delete by different indexes can deadlock
    # (MariaDB, PostgreSQL). Usually there are none, and then nothing is written.
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:_AT_ONCE])
    try:
        if keys:
            rows.model._base_manager.filter(pk__in=keys).delete()
    except (IntegrityError, OperationalError):
        return False
    return True
