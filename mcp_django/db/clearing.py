"""Clearing away what is over, while others add to it and clear away too."""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, OperationalError
from django.db.models import QuerySet

#: Nobody waits for more than this to be deleted: the rest goes another time.
_AT_ONCE = 1_000


def clear_away(rows: QuerySet[Any]) -> bool:
    """Delete rows with all that belongs to them; not in a transaction. Whoever comes by does it, nobody relies on it.

    False where something was added to them just then (what belongs to a row is looked for before it is deleted, and a
    database does not let a row go to which another points), or where the database would have had to choose.
    """
    # By their keys and in their order: two that delete by different indexes wait for each other (MariaDB, PostgreSQL).
    # And where there is nothing, as a rule, nothing is written.
    keys = list(rows.order_by("pk").values_list("pk", flat=True)[:_AT_ONCE])
    try:
        if keys:
            rows.model._base_manager.filter(pk__in=keys).delete()
    except (IntegrityError, OperationalError):
        return False
    return True
