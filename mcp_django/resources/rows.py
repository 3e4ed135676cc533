"""Reading rows: a page of a question, or one record, as columns and JSON values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from mcp_django.conf import get_conf
from mcp_django.protocol.jsonrpc import encode
from mcp_django.resources import keyset, questions
from mcp_django.resources.kinds import DATA, TEXT
from mcp_django.resources.policy import Column, ModelRights, ask

JSON = dict[str, Any]

#: Batches of rows that are looked at for one page, where permission is asked of each row.
_MAX_LOOKS = 10


@dataclass(frozen=True, slots=True)
class Question:
    """What an agent asks of one model."""

    filter: JSON = field(default_factory=dict)
    search: str = ""
    order_by: Sequence[str] = ()
    fields: Sequence[str] = ()
    limit: int = 0
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    columns: list[str]
    rows: list[list[Any]]
    next_cursor: str | None
    #: What was cut and how to get the rest, in words.
    notes: list[str]


@dataclass(frozen=True, slots=True)
class Record:
    values: JSON
    #: What was cut, in words.
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _Plan:
    """A question that can be asked: what it reads, in which order, from which rows, after which one."""

    columns: list[Column]
    orders: list[questions.Order]
    queryset: models.QuerySet[Any]
    after: list[Any] | None
    digest: str


def check(rights: ModelRights, question: Question) -> None:
    """Raises InvalidQuestion where the question cannot be asked; asks nothing of the database."""
    _plan(rights, question)


def find(rights: ModelRights, question: Question) -> Page:
    """One page of rows. Raises InvalidQuestion."""
    conf = get_conf()
    plan = _plan(rights, question)
    limit = min(question.limit or conf.DEFAULT_ROWS, conf.MAX_ROWS)
    found, more = _fetch_visible(rights, plan, limit)
    width = len(plan.columns)
    notes: list[str] = []
    rows, was_cut = _write_rows(plan.columns, [row[:width] for row in found], conf.MAX_TEXT)
    kept = _within_bytes(rows)
    if was_cut:
        notes.append(f"Values ending in … were cut at {conf.MAX_TEXT} characters; get_record gives them whole.")
    if kept < len(rows):
        notes.append(f"The page was cut at {kept} rows, since more would exceed {conf.page_bytes // 3} bytes.")
    if question.limit > conf.MAX_ROWS:
        notes.append(f"A page holds at most {conf.MAX_ROWS} rows.")
    cursor = None
    if kept and (more or kept < len(found)):
        cursor = keyset.make_cursor(found[kept - 1][width:], plan.digest, rights.rights.request.mcp.key)
        if cursor is None:
            notes.append("There are more rows. Texts of this order are too long for a cursor: order by other fields.")
    elif more:
        notes.append("None of the rows that were looked at may be shown. Narrow the filter to look at others.")
    return Page([column.name for column in plan.columns], rows[:kept], cursor, notes)


def _plan(rights: ModelRights, question: Question) -> _Plan:
    orders = questions.order(rights, question.order_by)
    queryset = rights.rows()
    if question.filter:
        queryset = queryset.filter(questions.filter_condition(rights, question.filter))
    if question.search:
        queryset = queryset.filter(questions.search(rights, question.search))
    digest = keyset.question_digest(
        rights.label, question.filter, question.search, [order.name for order in orders], rights.rights.site.name
    )
    after = None
    if question.cursor is not None:
        after = keyset.read_cursor(question.cursor, orders, digest, rights.rights.request.mcp.key)
    ordered = queryset.order_by(*(order.path for order in orders))
    return _Plan(questions.columns(rights, question.fields), orders, ordered, after, digest)


def _fetch_visible(rights: ModelRights, plan: _Plan, limit: int) -> tuple[list[Sequence[Any]], bool]:
    """At most ``limit`` rows that the principal may see, and whether there are more to look at.

    Where the permission depends on the row, rows are looked at until there are enough, or too many were looked at.
    """
    if not rights.model_mcp.checks_objects:
        found = _fetch(plan, plan.after, limit + 1)
        return found[:limit], len(found) > limit
    kept: list[Sequence[Any]] = []
    after = plan.after
    for _ in range(_MAX_LOOKS):
        batch = _fetch(plan, after, limit + 1)
        keys = [row[len(plan.columns) + len(plan.orders) - 1] for row in batch]
        visible = visible_keys(rights, keys)
        kept += [row for row, key in zip(batch, keys, strict=True) if str(key) in visible]
        if len(kept) > limit:
            return kept[:limit], True
        if len(batch) <= limit:
            return kept, False
        after = list(batch[-1][len(plan.columns) :])
    return kept[:limit], True


def _fetch(plan: _Plan, after: Sequence[Any] | None, count: int) -> list[Sequence[Any]]:
    """At most ``count`` rows after the values of a cursor: the columns' values, then the values of the order."""
    if after is None:
        return list(_values(plan.queryset, plan.columns, plan.orders)[:count])
    rows: list[Sequence[Any]] = []
    for condition in keyset.segments(plan.orders, after, alias=plan.queryset.db):
        rows += _values(plan.queryset.filter(condition), plan.columns, plan.orders)[: count - len(rows)]
        if len(rows) >= count:
            break
    return rows


def _values(queryset: models.QuerySet[Any], columns: Sequence[Column], orders: Sequence[questions.Order]) -> Any:
    aliases = {f"_mcp_{index}": column.expression() for index, column in enumerate(columns) if column.masked}
    names = [f"_mcp_{index}" if column.masked else column.attname for index, column in enumerate(columns)]
    return queryset.annotate(**aliases).values_list(*names, *(order.column.attname for order in orders))


def get(rights: ModelRights, key: Any) -> Record | None:
    """One record, or None if there is none that the principal may see."""
    columns = list(rights.columns.values())
    try:
        value = rights.primary_key.kind.read(rights.primary_key.field, key)
    except ValidationError:
        return None
    queryset = rights.rows().filter(pk=value)
    if rights.model_mcp.checks_objects and not _may_view_object(rights, queryset):
        return None
    row = _values(queryset, columns, ()).first()
    if row is None:
        return None
    # Every value whole, unless one alone is more than a message may carry.
    limit = get_conf().page_bytes // 6 // max(1, _long_columns(columns))
    [values], was_cut = _write_rows(columns, [row], limit)
    notes = [f"Values ending in … were cut at {limit} characters: no message may carry more."] if was_cut else []
    return Record({column.name: value for column, value in zip(columns, values, strict=True)}, notes)


def visible_keys(rights: ModelRights, keys: Sequence[Any], *, using: str | None = None) -> set[str]:
    """Those of the keys that are the principal's to see, as text. ``using``: the database to ask."""
    values = []
    for key in keys:
        try:
            values.append(rights.primary_key.kind.read(rights.primary_key.field, key))
        except ValidationError:
            continue
    queryset = rights.rows().filter(pk__in=values)
    if using is not None:
        queryset = queryset.using(using)
    if rights.model_mcp.checks_objects:
        request, may_view = rights.rights.request, rights.model_mcp.has_view_permission
        name = f"{rights.model_mcp}.has_view_permission"
        return {str(obj.pk) for obj in queryset if ask(partial(may_view, request, obj), False, name)}
    return {str(key) for key in queryset.values_list("pk", flat=True)}


def _may_view_object(rights: ModelRights, queryset: models.QuerySet[Any]) -> bool:
    obj = queryset.first()
    model_mcp = rights.model_mcp
    return obj is not None and ask(
        lambda: model_mcp.has_view_permission(rights.rights.request, obj), False, f"{model_mcp}.has_view_permission"
    )


def write(column: Column, value: Any) -> Any:
    return None if value is None else column.kind.write(value)


def _write_rows(columns: Sequence[Column], rows: Sequence[Sequence[Any]], limit: int) -> tuple[list[list[Any]], bool]:
    """The rows as JSON values, and whether one was cut: no text and no JSON is longer than ``limit``."""
    written = [[write(column, value) for column, value in zip(columns, row, strict=True)] for row in rows]
    long = [index for index, column in enumerate(columns) if column.kind in (TEXT, DATA)]
    cut = False
    for row in written:
        for index in long:
            value = row[index]
            if value is not None and columns[index].kind is DATA:
                value = encode(value).decode()
            if value is not None and len(value) > limit:
                row[index] = value[:limit] + "…"
                cut = True
    return written, cut


def _long_columns(columns: Sequence[Column]) -> int:
    return sum(column.kind in (TEXT, DATA) for column in columns)


def _within_bytes(rows: Sequence[list[Any]]) -> int:
    """How many rows a page may hold: text and structured content each say them, and an escape may double them."""
    budget = get_conf().page_bytes // 3
    for count, row in enumerate(rows):
        budget -= len(encode(row))
        if budget < 0:
            return max(count, 1)
    return len(rows)
