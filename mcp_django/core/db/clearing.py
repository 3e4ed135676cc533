"""Deletes expired rows, while other processes add to them and delete them too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.db import IntegrityError, OperationalError
from django.db.models import QuerySet

#: The most rows that are deleted at a time, so that no request waits long. The next call deletes the rest.
_AT_ONCE = 1_000
#: How many times in a row a batch is tried that other processes prevent.
_ATTEMPTS = 10


def clear_away(rows: QuerySet[Any]) -> bool:
    """Delete expired rows and the rows that belong to them. Do not call it in a transaction, nor rely on it.

    False if another process added a row to them meanwhile: Django looks for related rows before it deletes, and the
    database refuses to delete a row that another row points to. False also for a deadlock.
    """
    try:
        _delete_batch(rows)
    except (IntegrityError, OperationalError):
        return False
    return True


def clear_in_batches(rows: QuerySet[Any]) -> Iterator[int]:
    """Delete all of the rows, and yield after each batch how many it deleted. Do not call it in a transaction.

    Of a large table the rows have an order that an index gives: in that of the key a database may look at every row
    that stays, to find the few that go.
    Where another process prevents a batch, as by a deadlock, it is tried again. Raises OperationalError after
    ``_ATTEMPTS`` failures in a row, and IntegrityError for rows that others point to.
    """
    failures = 0
    while True:
        try:
            deleted = _delete_batch(rows)
        except OperationalError:
            failures += 1
            if failures == _ATTEMPTS:
                raise
            continue
        if not deleted:
            return
        failures = 0
        yield deleted


def _delete_batch(rows: QuerySet[Any]) -> int:
    # The rows are deleted by key and in order, because two processes that delete by different indexes can deadlock
    # (MariaDB, PostgreSQL). Usually there are none, and then nothing is written.
    ordered = rows if rows.query.order_by else rows.order_by("pk")
    keys = list(ordered.values_list("pk", flat=True)[:_AT_ONCE])
    if keys:
        rows.model._base_manager.filter(pk__in=sorted(keys)).delete()
    return len(keys)
