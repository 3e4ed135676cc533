"""Where our own queries are put to the database: for no longer than STATEMENT_SECONDS, and read-only where asked."""

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
    """Around queries of ours to a database: each ends in time, and none changes anything. Raises TooSlow.

    Not around ``iterator()``, whose rows are read when its statement is over, nor around what hooks ask.
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
        # A request that was given up has its query stopped too, and is answered as that.
        if bounds.ran_out(error) and not was_interrupted():
            raise TooSlow from error
        raise
    finally:
        bounds.lift()
