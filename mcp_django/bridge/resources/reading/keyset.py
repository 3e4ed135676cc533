"""Keyset pagination: a page starts after the values of the last row, so that the last page costs what the first costs.

A cursor (see ``cursors``) holds the values of the order's columns in the last row. The condition has the form
``a >= x AND (a > x OR (a = x AND …))``, which an index on ``(a, …)`` answers on all databases, and nulls are their own
query, in the place where the database sorts them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Q

from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.reading.cursors import invalid_cursor, read_values
from mcp_django.bridge.resources.reading.selection import Order
from mcp_django.core.compat.connections import sorts_nulls_last


def query_digest(*parts: Any) -> str:
    """A short name of a query: equal queries have equal digests."""
    from mcp_django.protocol.jsonrpc import encode

    return hashlib.sha256(encode(parts)).hexdigest()[:24]


def read_cursor(cursor: str, orders: Sequence[Order], digest: str, line: str) -> list[Any]:
    """The values that a page starts after. Raises InvalidQuery for a cursor that is not of this query."""
    values = read_values(cursor, digest, line)
    try:
        return [_typed(order, value) for order, value in zip(orders, values, strict=True)]
    except (ValueError, TypeError, ValidationError):
        raise invalid_cursor(cursor) from None


def _typed(order: Order, value: str | None) -> Any:
    return None if value is None else column_of(order.column.field).to_python(value)


def segments(orders: Sequence[Order], after: Sequence[Any], *, alias: str) -> Iterator[Q]:
    """Conditions that find all rows after ``after``: those of the first one in the order, then those of the next."""
    order, value, last = orders[0], after[0], len(orders) == 1
    path = order.column.path
    nullable = order.column.nullable
    nulls_last = sorts_nulls_last(connections[alias]) != order.descending
    if value is None:
        if not last:
            for rest in segments(orders[1:], after[1:], alias=alias):
                yield Q((f"{path}__isnull", True)) & rest
        if not nulls_last:
            yield Q((f"{path}__isnull", False))
        return
    beyond = Q((f"{path}__lt" if order.descending else f"{path}__gt", value))
    if last:
        yield beyond
    else:
        rests = list(segments(orders[1:], after[1:], alias=alias))
        equal = Q((path, value))
        if len(rests) == 1:
            yield Q((f"{path}__lte" if order.descending else f"{path}__gte", value)) & (beyond | (equal & rests[0]))
        else:
            yield from (equal & rest for rest in rests)
            yield beyond
    if nullable and nulls_last:
        yield Q((f"{path}__isnull", True))
