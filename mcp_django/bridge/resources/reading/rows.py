"""Reading rows: a page of a query, or one record, as columns and JSON values."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections, models

from mcp_django.bridge.resources.fields import unreadable
from mcp_django.bridge.resources.fields.columns import Column, Computed, Output, RelatedCount, RelatedRows
from mcp_django.bridge.resources.fields.errors import Mistakes
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE, fetch_instances
from mcp_django.bridge.resources.policy import paths, ways
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.policy.searching import check_search, search_condition
from mcp_django.bridge.resources.policy.visible_rows import may_view, visible_keys
from mcp_django.bridge.resources.reading import cursors, related, selection
from mcp_django.bridge.resources.reading.counts import CountedRows
from mcp_django.bridge.resources.reading.filters import filter_condition
from mcp_django.bridge.resources.reading.known_values import Doubts, verified
from mcp_django.bridge.resources.reading.native_conditions import natively
from mcp_django.bridge.resources.reading.near_values import notes_on
from mcp_django.bridge.resources.reading.search_hints import empty_search
from mcp_django.bridge.resources.reading.selection import Order, names_of, order, values_of
from mcp_django.bridge.resources.reading.values import cut_record, fetch_values, long_columns, within_bytes, write_rows
from mcp_django.conf import get_conf
from mcp_django.core.compat.connections import always_marking
from mcp_django.core.compat.queries import first_rows
from mcp_django.core.compat.translated_fields import language
from mcp_django.core.db.bounds import bounded, fetch
from mcp_django.core.hooks import call_hook
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.types import JSON

#: Rows of a page where the agent names no limit: they fit into a model's attention.
DEFAULT_ROWS = 20
#: Of a longer page, only the beginnings of texts are read: whole texts might fill the memory of the server.
MAX_WHOLE_TEXTS = 100
#: Rows that ``total`` counts at most: counting more may take seconds.
MAX_TOTAL = 100_000
#: Rows that are looked at for one page where the permission is checked for each row: batches, and rows of each.
_MAX_LOOKS, _LOOKED_AT_ONCE = 2, 500
#: Rows of a page there, since each check is code of the project's and may ask the database.
_MAX_CHECKED_ROWS = 100


@dataclass(frozen=True, slots=True)
class RecordQuery:
    """A query of an agent for rows of one model."""

    filter: JSON = field(default_factory=dict)
    search: str = ""
    order_by: Sequence[str] = ()
    fields: Sequence[str] = ()
    limit: int = 0
    cursor: str | None = None
    total: bool = False


@dataclass(frozen=True, slots=True)
class Page:
    columns: list[str]
    rows: list[list[Any]]
    next_cursor: str | None
    #: What was cut and how to get the rest, in words.
    notes: list[str]
    #: The number of rows of all pages, if the query wants it and it could be counted.
    total: int | None = None


@dataclass(frozen=True, slots=True)
class Record:
    values: JSON
    #: What was cut, in words.
    notes: list[str]


@dataclass(frozen=True, slots=True)
class _RecordPlan:
    """A checked query: the values it reads, their order, the rows, and the row that it starts after."""

    outputs: list[Output]
    #: What is read of a row: a value for each output, then those of the order that are not among them.
    names: list[str]
    orders: list[Order]
    #: The rows that the principal may see, and those of them that meet the conditions, in no order.
    visible: models.QuerySet[Any]
    matching: models.QuerySet[Any]
    after: list[Any] | None
    #: Its digest names the query in a cursor.
    identity: tuple[Any, ...]

    def place_of(self, row: Sequence[Any]) -> list[Any]:
        """The row's values of the order, after which the next row comes."""
        return [row[self.names.index(order.column.path)] for order in self.orders]

    def with_beginnings(self, chars: int) -> _RecordPlan:
        """The plan that reads no more than the first ``chars`` of a text."""
        outputs = [one.beginning(chars) if isinstance(one, Column) else one for one in self.outputs]
        return replace(self, outputs=outputs, names=names_of(outputs, self.orders))

    def narrowed(self, condition: models.Q) -> _RecordPlan:
        """The plan for those of the rows that meet a condition."""
        return replace(self, matching=self.matching.filter(condition))

    def ordered(self) -> models.QuerySet[Any]:
        """The rows in their order."""
        counts = {
            one.column.path: one.column.expression() for one in self.orders if isinstance(one.column, RelatedCount)
        }
        # Django copies a queryset at each step, also where there is nothing to add.
        counted = self.matching.annotate(**counts) if counts else self.matching
        return counted.order_by(*(order.path for order in self.orders))


@dataclass(frozen=True, slots=True)
class Budget:
    """What reading may cost."""

    #: Characters of one text.
    text: int
    #: When no further row is computed, by the monotonic clock.
    until: float = math.inf


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """The rows of a page as JSON, and the values that they were written from."""

    rows: list[list[Any]]
    raw: Sequence[Sequence[Any]]


def check(rights: ModelRights, query: RecordQuery, doubts: Doubts | None = None) -> None:
    """Raises InvalidQuery for a query that is not allowed. Does not use the database, but adds to the doubts."""
    _plan(rights, query, doubts or Doubts())


def check_fields(rights: ModelRights, fields: Sequence[str]) -> None:
    """Raises InvalidQuery for a field that no record has. Does not use the database."""
    if not rights.shows_by_object:
        _reader(rights, fields)


def matching(rights: ModelRights, query: RecordQuery) -> models.QuerySet[Any]:
    """All rows that meet the conditions and the search of a query, in no order. Raises InvalidQuery and TooSlow.

    Where the permission is checked for each row, it is left to the caller: see ``visible_keys``.
    """
    queryset = rights.rows()
    if query.filter:
        queryset = queryset.filter(filter_condition(rights, query.filter))
    return queryset.filter(search_condition(rights, query.search, [])) if query.search else queryset


def find(
    rights: ModelRights,
    query: RecordQuery,
    *,
    watched: bool = False,
    read: Callable[[Sequence[str], Sequence[Any]], None] | None = None,
) -> Page:
    """One page of rows. Raises InvalidQuery and TooSlow.

    An unknown value is refused, unless the query is ``watched`` or has a cursor: then it finds nothing. ``read`` is
    called with the columns and rows of the page, before the rows of all pages are counted.
    """
    conf = get_conf()
    budget = page_budget()
    notes: list[str] = []
    with verified(notes, asks=not watched and query.cursor is None) as doubts:
        plan = _plan(rights, query, doubts, asks=True)
    if query.search:
        plan = plan.narrowed(search_condition(rights, query.search, notes))
    most = most_rows(rights)
    limit = min(query.limit or DEFAULT_ROWS, most)
    if limit > MAX_WHOLE_TEXTS or rights.checks_objects:
        plan = plan.with_beginnings(conf.MAX_TEXT + 1)  # One more shows that a text is cut.
    found, more = _fetch_counted(rights, plan, query, limit, watched=watched)
    found, rest = found[:limit], found[limit:]
    if not (watched or query.cursor):
        is_empty = not (found or more)
        notes += notes_on(doubts.sought, is_empty=is_empty)
        if query.search and is_empty:
            notes.append(empty_search(rights, query.search))
    written = write_page(rights, plan.outputs, found, notes, budget)
    kept = len(written.rows)
    if query.limit > most:
        why = " of a model whose permission is checked for each row" if most < conf.MAX_ROWS else ""
        notes.append(f"A page holds at most {most} rows{why} (MAX_ROWS).")
    cursor = None
    if kept and (more or kept < len(found)):
        place = cursors.values_for_cursor(plan.orders, plan.place_of(found[kept - 1]))
        following = [*found, *rest][kept : kept + 1]
        is_unique = not following or plan.place_of(following[0]) != plan.place_of(found[kept - 1])
        if place[-1] is not UNREADABLE and is_unique:
            digest = cursors.query_digest(*plan.identity)
            cursor = cursors.make_cursor(place, digest, rights.rights.request.mcp.principal.lineage)
        if not is_unique:
            notes.append(
                f"There are more rows. The key {rights.primary_key.name} is not unique, so no page can begin after this"
                " one: narrow the filter, or take a higher limit."
            )
        elif cursor is None:
            why = "A value of this order is too long for a cursor, or the key cannot be read"
            notes.append(f"There are more rows. {why}: order by other fields.")
    elif more:
        notes.append("None of the rows that were checked may be shown. Narrow the filter to check others.")
    page = Page([output.name for output in plan.outputs], written.rows, cursor, notes)
    is_whole = query.cursor is None and not more and kept == len(found)
    if is_whole and not query.fields:
        page = without_empty(page, plan.outputs, written)
    if read is not None:
        read(page.columns, page.rows)
    return replace(page, total=_count(rights, plan, page.notes)) if query.total else page


def page_budget() -> Budget:
    """What reading a page may cost. The other half of a request's time is for its statements and for the last row."""
    conf = get_conf()
    return Budget(conf.MAX_TEXT, time.monotonic() + (conf.REQUEST_SECONDS / 2 or math.inf))


def most_rows(rights: ModelRights) -> int:
    """The longest page of the model."""
    most = get_conf().MAX_ROWS
    return min(most, _MAX_CHECKED_ROWS) if rights.checks_objects else most


def write_page(
    rights: ModelRights,
    outputs: Sequence[Output],
    found: Sequence[Sequence[Any]],
    notes: list[str],
    budget: Budget,
) -> WrittenRows:
    """The rows of a page as JSON, with what one query cannot read: fewer, if that would be too much."""
    conf = get_conf()
    raw = _with_more(rights, outputs, found, budget, notes)
    rows, cut = write_rows(rights, outputs, raw, conf.MAX_TEXT, notes)
    kept = within_bytes(rows)
    if cut:
        whole = "; get_record gives them whole" if ways.is_open(rights, "record") else ""
        notes.append(f"Values of {', '.join(cut)} ending in … were cut at {conf.MAX_TEXT} characters{whole}.")
    if kept < len(rows):
        notes.append(f"The page was cut at {kept} rows, since more would exceed {conf.page_bytes // 3} bytes.")
    return WrittenRows(rows[:kept], raw)


def without_empty(page: Page, outputs: Sequence[Output], written: WrittenRows) -> Page:
    """All rows of a query without the columns that are empty in each of them, which a note names."""
    if len(page.rows) < 2:
        return page
    empty = {
        index: output.name
        for index, (output, values) in enumerate(zip(outputs, zip(*written.raw, strict=True), strict=False))
        if all(value is None or (output.kind.linked and not value) for value in values)
    }
    if not empty:
        return page
    note = f"Left out are the columns that are null in every row: {', '.join(empty.values())}."
    columns = [name for index, name in enumerate(page.columns) if index not in empty]
    rows = [[value for index, value in enumerate(row) if index not in empty] for row in page.rows]
    return replace(page, columns=columns, rows=rows, notes=[*page.notes, note])


def _count(rights: ModelRights, plan: _RecordPlan, notes: list[str]) -> int | None:
    """Rows of all pages. None, and a note, where that would cost too much or cannot be known."""
    if rights.checks_objects:
        notes.append("There is no total: the permission is checked for each row.")
        return None
    try:
        with bounded(plan.matching.db):
            total = plan.matching.values("pk")[: MAX_TOTAL + 1].count()
    except TooSlow:
        notes.append("There is no total: counting takes too long (STATEMENT_SECONDS). Narrow the filter.")
        return None
    if total > MAX_TOTAL:
        notes.append(f"There is no total: more than {MAX_TOTAL} rows.")
        return None
    return total


def _plan(rights: ModelRights, query: RecordQuery, doubts: Doubts, *, asks: bool = False) -> _RecordPlan:
    """The plan of a query without its search, which may ask the database. Raises InvalidQuery with all mistakes.

    ``asks``: the database may be asked for what makes the conditions quicker. This may raise TooSlow.
    """
    mistakes = Mistakes()
    visible = queryset = rights.rows()
    with mistakes:
        if query.filter:
            condition = filter_condition(rights, query.filter, doubts)
            queryset = queryset.filter(*(natively(rights, queryset, [condition]) if asks else [condition]))
    with mistakes:
        if query.search:
            check_search(rights, query.search)
    with mistakes:
        outputs = selection.outputs(rights, query.fields)
    with mistakes:
        orders = order(rights, query.order_by)
    mistakes.raise_any()
    names = [order.name for order in orders]
    identity = (rights.label, query.filter, query.search, names, rights.rights.site.name, *filter(None, [language()]))
    after = None
    if query.cursor is not None:
        digest = cursors.query_digest(*identity)
        after = cursors.read_cursor(query.cursor, orders, digest, rights.rights.request.mcp.principal.lineage)
    return _RecordPlan(outputs, names_of(outputs, orders), orders, visible, queryset, after, identity)


def _fetch_counted(
    rights: ModelRights, plan: _RecordPlan, query: RecordQuery, limit: int, *, watched: bool
) -> tuple[list[Sequence[Any]], bool]:
    """As ``_fetch_visible``, with numbers of related rows counted apart from the rows. Raises TooSlow."""
    if not any(isinstance(one, RelatedCount) for one in (*plan.outputs, *(order.column for order in plan.orders))):
        return _fetch_visible(rights, plan, limit)

    def fetch_page(outputs: list[Output], names: list[str]) -> tuple[list[Sequence[Any]], bool]:
        return _fetch_visible(rights, replace(plan, outputs=outputs, names=names), limit)

    compared = [*query.order_by, *paths.of_filter(query.filter)]
    reading = CountedRows(
        fetch=fetch_page, queryset=plan.matching, orders=plan.orders, compared=compared, watched=watched
    )
    return reading.read(plan.outputs)


def _fetch_visible(rights: ModelRights, plan: _RecordPlan, limit: int) -> tuple[list[Sequence[Any]], bool]:
    """At most ``limit`` rows that the principal may see, the next one if it is known, and whether there are more.

    Where the permission depends on the row, all rows are looked at up to a limit, also if there are enough before: the
    number of statements would otherwise reveal how many of the rows are hidden.
    """
    if not rights.checks_objects:
        found = _fetch(plan, plan.after, limit + 1)
        return found, len(found) > limit
    kept: list[Sequence[Any]] = []
    after = plan.after
    for _ in range(_MAX_LOOKS):
        batch = _fetch(plan, after, _LOOKED_AT_ONCE)
        keys = [row[0] for row in batch]
        visible = visible_keys(rights, keys, most=limit + 1 - len(kept))
        kept += [row for row, key in zip(batch, keys, strict=True) if str(key) in visible]
        if len(batch) < _LOOKED_AT_ONCE:
            return kept[: limit + 1], len(kept) > limit
        after = cursors.values_for_cursor(plan.orders, plan.place_of(batch[-1]))
        if after[-1] is UNREADABLE:
            break
    return kept[: limit + 1], True


def _fetch(plan: _RecordPlan, after: Sequence[Any] | None, count: int) -> list[Sequence[Any]]:
    """The values of the plan's ``names``, of at most ``count`` rows after the values of a cursor."""
    if after is None:
        return _fetch_first(plan, count)
    rows: list[Sequence[Any]] = []
    queryset = plan.ordered()
    after = cursors.compared_with(plan.orders, after, plan.visible)
    for condition in cursors.segments(plan.orders, after, alias=queryset.db):
        matching = queryset.filter(condition)
        rows += fetch_values(values_of(matching, plan.outputs, plan.names)[: count - len(rows)], len(plan.names))
        if len(rows) >= count:
            break
    return rows


def _fetch_first(plan: _RecordPlan, count: int) -> list[Sequence[Any]]:
    """The same for the very first rows, by SQL that was written before if that is known to be right."""
    prepared = first_rows(plan.matching, plan.names, [order.path for order in plan.orders], count)
    if prepared is None:
        return fetch_values(values_of(plan.ordered(), plan.outputs, plan.names)[:count], len(plan.names))
    alias = plan.matching.db
    try:
        with bounded(alias), always_marking(connections[alias], UNREADABLE):
            return prepared.fetch(alias)
    except Exception as error:  # noqa: BLE001 - it is raised again there if no value is at fault
        return unreadable.fetch_marked(values_of(plan.ordered(), plan.outputs, plan.names)[:count], error)


def _with_more(
    rights: ModelRights, outputs: Sequence[Output], rows: Sequence[Sequence[Any]], budget: Budget, notes: list[str]
) -> Sequence[Sequence[Any]]:
    """The rows with what one query cannot read: computed values and related rows. Fewer, if that would be too much."""
    computed = {index: output for index, output in enumerate(outputs) if isinstance(output, Computed)}
    if not computed and not any(isinstance(output, RelatedRows) for output in outputs):
        return rows
    whole = [list(row) for row in rows]
    if computed:
        whole = _fill_computed(rights, computed, whole, budget, notes)
    return related.fill(rights, outputs, whole, budget.text, notes)


def _fill_computed(
    rights: ModelRights, computed: dict[int, Computed], rows: list[list[Any]], budget: Budget, notes: list[str]
) -> list[list[Any]]:
    instances = {instance.pk: instance for instance in fetch_instances(rights.instances([row[0] for row in rows]))}
    if missing := [row[0] for row in rows if row[0] not in instances]:
        notes.append(unreadable.note({output.name: missing for output in computed.values()}))
    for count, row in enumerate(rows):
        if count and time.monotonic() > budget.until:
            names = ", ".join(output.name for output in computed.values())
            notes.append(f"The page was cut at {count} rows, since {names} took long to compute (REQUEST_SECONDS).")
            return rows[:count]
        instance = instances.get(row[0])
        for index, output in computed.items():
            read = partial(output.read, instance)
            row[index] = None if instance is None else call_hook(read, None, f"{rights.label}.{output.name}")
    return rows


def get(rights: ModelRights, key: Any, fields: Sequence[str] = ()) -> Record | None:
    """One record, or None if there is none that the principal may see. Raises InvalidQuery for a wrong field."""
    # A wrong field is an error whether or not there is such a row, unless the fields depend on the row.
    read = None if rights.shows_by_object else _reader(rights, fields)
    found = of_key(rights, key)
    if found is None:
        return None
    of_row, queryset = found
    return (read or _reader(of_row, fields))(queryset)


def of_key(rights: ModelRights, key: Any) -> tuple[ModelRights, models.QuerySet[Any]] | None:
    """What the principal may read of the row with this key, and a queryset of that row; None if it may not see it."""
    try:
        queryset = rights.rows().filter(pk=rights.primary_key.kind.read(rights.primary_key.field, key))
    except ValidationError:
        return None
    if not rights.checks_objects and not rights.shows_by_object:
        return rights, queryset
    row = next(iter(fetch_instances(queryset[:1])), None)
    if row is not None:
        return (rights.of_row(row), queryset) if may_view(rights, row) else None
    # No hook can be asked about a row with a value that cannot be read. The rest of it is shown, as in pages.
    is_there = not rights.checks_objects and fetch(queryset.values_list("pk")[:1])
    return (rights, queryset) if is_there else None


def _reader(rights: ModelRights, fields: Sequence[str]) -> Callable[[models.QuerySet[Any]], Record | None]:
    """A function that reads the one row of a queryset. Raises InvalidQuery for a wrong field."""
    if rights.serializer_class is not None:
        return partial(_by_serializer, rights, fields)
    outputs = selection.outputs(rights, fields) if fields else selection.record_outputs(rights)
    return partial(_by_values, rights, outputs)


def _by_values(rights: ModelRights, outputs: Sequence[Output], queryset: models.QuerySet[Any]) -> Record | None:
    def fetch_record(outputs: list[Output], names: list[str]) -> tuple[list[Sequence[Any]], bool]:
        return fetch_values(values_of(queryset, outputs, names)[:1], len(names)), False

    found, _ = CountedRows(fetch=fetch_record, queryset=queryset).read(outputs)
    if not found:
        return None
    notes: list[str] = []
    # Every value whole, unless one alone is more than a message may carry.
    limit = get_conf().page_bytes // 6 // max(1, long_columns(outputs))
    raw = _with_more(rights, outputs, found, Budget(limit), notes)
    [values], cut = write_rows(rights, outputs, raw, limit, notes)
    notes += _cut_note(cut, limit)
    return Record({output.name: value for output, value in zip(outputs, values, strict=True)}, notes)


def _by_serializer(rights: ModelRights, fields: Sequence[str], queryset: models.QuerySet[Any]) -> Record | None:
    # DRF's serializers take their time to import, and few need them.
    from mcp_django.bridge.resources.reading import serializers

    for instance in fetch(queryset[:1]):
        record = serializers.RecordSerializer(rights, instance)
        values = record.values(instance, fields)
        return Record(values, [*record.notes, *_cut_note(*cut_record(values))])
    return None


def _cut_note(cut: Sequence[str], limit: int) -> list[str]:
    what = f"Values of {', '.join(cut)} ending in …"
    return [f"{what} were cut at {limit} characters: no message may carry more."] if cut else []
