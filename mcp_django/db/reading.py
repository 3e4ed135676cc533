"""Runs our own queries: each for at most STATEMENT_SECONDS, and read-only with READ_ONLY_TRANSACTIONS."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import DatabaseError, connections, models

from mcp_django.conf import get_conf
from mcp_django.db.bounds import BOUNDS
from mcp_django.db.interrupts import was_interrupted
from mcp_django.protocol.errors import TooSlow

__all__ = ["TooSlow", "bounded", "fetch"]


def fetch(queryset: models.QuerySet[Any]) -> list[Any]:
    """All rows of a queryset. Raises TooSlow."""
    with bounded(queryset.db):
        return list(queryset)


@contextmanager
def bounded(alias: str) -> Iterator[None]:
    """Limit our own queries to a database within the block: each ends in time, and none writes. Raises TooSlow.

    Do not use it around ``iterator()``, whose rows are read after its statement has ended, nor around hooks.
    """
    conf = get_conf()
    connection = connections[alias]
    kind = BOUNDS.get(connection.vendor)
    if kind is None or not (conf.STATEMENT_SECONDS or conf.READ_ONLY_TRANSACTIONS):
        yield
        return
    bounds = kind(connection, conf.STATEMENT_SECONDS, conf.READ_ONLY_TRANSACTIONS)
    try:
        with connection.execute_wrapper(bounds):
            yield
    except DatabaseError as error:
        # The query of a cancelled request is stopped too. That is a cancellation, and no query that was too slow.
        if bounds.has_timed_out(error) and not was_interrupted():
            raise TooSlow from error
        raise
    finally:
        bounds.lift()
