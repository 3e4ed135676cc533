"""How to split a query that took too long: ask for one part of an indexed column's range at a time."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DatabaseError
from django.db.models import Q
from django.utils import timezone

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.days import Days
from mcp_django.bridge.resources.fields.indexes import is_indexed
from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, DECIMAL, INTEGER, NUMBER
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.conf import get_conf
from mcp_django.core.db.bounds import bounded
from mcp_django.exceptions import field_error
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.types import JSON

#: The kinds of column that a query can be split by, the best one first.
_KINDS = (DATETIME, DATE, INTEGER, NUMBER, DECIMAL)
#: Time to read each end of a range: an index gives it at once, or it is left out.
_SECONDS = 0.2

#: Lookups that bound a column → the ends that they bound, the lower one being the first.
_ENDS: Mapping[str, Sequence[int]] = {
    "gt": (0,), "gte": (0,), "lt": (1,), "lte": (1,), "date": (0, 1), "year": (0, 1),
}  # fmt: skip

#: Spans of time, the longest first → the part to ask for if a range is longer than that.
_PARTS: Mapping[datetime.timedelta, str] = {
    datetime.timedelta(730): "one year",
    datetime.timedelta(180): "one quarter",
    datetime.timedelta(60): "one month",
    datetime.timedelta(14): "one week",
    datetime.timedelta(2): "one day",
    datetime.timedelta.min: "one hour",
}


@contextmanager
def explained(rights: Rights, arguments: JSON) -> Iterator[None]:
    """A context for the query of a tool with these arguments. Raises TooSlow, which says how to split the query."""
    try:
        yield
    except TooSlow as error:
        if error.errors:
            raise
        model = rights.of_label(str(arguments.get("model", "")).lower())
        # A record is found by its key, so there is nothing to split.
        advice = "" if model is None or "id" in arguments else _advice(model, arguments.get("filter", {}))
        if not advice:
            raise
        raise TooSlow([field_error("filter", advice)], get_conf().STATEMENT_SECONDS) from error


def _advice(rights: ModelRights, conditions: JSON) -> str:
    """A sentence that names a column, and its range in the query; empty where there is no such column."""
    columns = [column for column in rights.filterable.values() if _can_split(rights, column)]
    if not columns:
        return ""
    ends = {column.name: _ends_in(column, conditions) for column in columns}
    column = min(columns, key=lambda item: (ends[item.name] == [None, None], _KINDS.index(item.kind)))
    low, high = _with_ends_of_rows(rights, column, ends[column.name])
    name, part = column.name, f"{column.name}__gte/{column.name}__lt of a part"
    if low is None or high is None:
        return f"Split it: {name} is indexed; ask for {part} at a time."
    runs = f"{name} runs from {_text(column, low)} to {_text(column, high)} and is indexed"
    return f"Split it: {runs}; ask for {part}, e.g. {_part(low, high)} at a time."


def _can_split(rights: ModelRights, column: Column) -> bool:
    is_value = column.kind in _KINDS and column.related is None and column.can_order
    return is_value and is_indexed(rights.model, [column.name])


def _ends_in(column: Column, conditions: JSON) -> list[Any]:
    """The lowest and the highest value that conditions allow; None where they leave it open."""
    ends: list[Any] = [None, None]
    for lookup, value in _bounds(column.name, conditions):
        with suppress(ValidationError):
            read = column.kind.read_for(lookup, column.field, value)
            days = Days.of_year(read) if lookup == "year" else read
            for end in _ENDS[lookup]:
                ends[end] = (days.first, days.last)[end] if isinstance(days, Days) else read
    return ends


def _bounds(name: str, conditions: JSON) -> Iterator[tuple[str, Any]]:
    """The conditions that bound a column, by their lookups; a range as two of them."""
    for condition, value in conditions.items():
        path, _, lookup = condition.rpartition("__")
        if path != name:
            continue
        if lookup == "range":
            yield from zip(("gte", "lte"), value.split(",") if isinstance(value, str) else value, strict=True)
        elif lookup in _ENDS:
            yield lookup, value


def _with_ends_of_rows(rights: ModelRights, column: Column, ends: list[Any]) -> list[Any]:
    """The ends, open ones filled in from the visible rows if an index gives them and the principal may know them."""
    if all(end is not None for end in ends) or rights.checks_objects or rights.smallest_group > 1:
        return ends
    rows = rights.rows().filter(Q((f"{column.lookup_path}__isnull", False))).values_list(column.attname, flat=True)
    found = list(ends)
    with suppress(TooSlow, DatabaseError, ValueError, TypeError):  # A value may be unreadable.
        for index, order in enumerate((column.attname, f"-{column.attname}")):
            with bounded(rows.db, _SECONDS):
                found[index] = found[index] if found[index] is not None else rows.order_by(order).first()
    return found


def _text(column: Column, end: Any) -> str:
    return str(column.kind.write(end)) if not isinstance(end, datetime.date) else _day(end).isoformat()


def _day(end: datetime.date) -> datetime.date:
    """The local date of an end in time."""
    if not isinstance(end, datetime.datetime):
        return end
    try:
        return end.date() if timezone.is_naive(end) else timezone.localdate(end)
    except OverflowError:
        return end.date()  # At the ends of the calendar.


def _part(low: Any, high: Any) -> str:
    if not isinstance(low, datetime.date):
        return "a tenth of it"
    span = _day(high) - _day(low)
    return next(part for longer, part in _PARTS.items() if span > longer)
