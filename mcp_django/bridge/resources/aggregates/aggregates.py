"""Aggregates: the visible rows of a model in groups, and measures of each group, as columns and JSON values."""

from __future__ import annotations

import logging
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import DataError, OperationalError, connections, models
from django.db.models import Count, F, Q
from django.db.models.expressions import OrderBy

from mcp_django.bridge.resources.aggregates.groups import GroupColumn, group_expressions, group_of, week_notes
from mcp_django.bridge.resources.aggregates.measures import (
    CONDITION_NAME,
    FUNCTIONS,
    ROWS,
    Measure,
    measure_of,
    paths_of,
)
from mcp_django.bridge.resources.aggregates.operands import currencies_of
from mcp_django.bridge.resources.aggregates.percentiles import Source, ranked
from mcp_django.bridge.resources.fields.columns import MAX_RELATIONS, Column
from mcp_django.bridge.resources.fields.errors import InvalidQuery, Mistakes
from mcp_django.bridge.resources.fields.unreadable import is_fault_of_value
from mcp_django.bridge.resources.policy import paths, ways
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.policy.searching import check_search, search_condition
from mcp_django.bridge.resources.reading import cursors
from mcp_django.bridge.resources.reading.filters import filter_conditions
from mcp_django.bridge.resources.reading.known_values import Doubts, verified
from mcp_django.bridge.resources.reading.native_conditions import natively
from mcp_django.bridge.resources.reading.near_values import notes_on
from mcp_django.bridge.resources.reading.search_hints import empty_search
from mcp_django.bridge.resources.reading.values import fetch_values, within_bytes, write_rows
from mcp_django.conf import get_conf
from mcp_django.core.compat.translated_fields import language
from mcp_django.core.db.bounds import fetch, read
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

logger = logging.getLogger("mcp_django")

#: The schema of the tool allows no more than these.
MAX_GROUP_BY = 5
MAX_MEASURES = 10
MAX_CONDITIONS = 10
#: The pages of one query show no more groups than these: each page computes the groups before it again.
MAX_PAGED_GROUPS = 10_000

#: How a measure may be compared. The first is what a name alone means.
HAVING_LOOKUPS = ("exact", "gt", "gte", "lt", "lte", "isnull")


@dataclass(frozen=True, slots=True)
class AggregateQuery:
    """A query of an agent for measures of the rows of a model, in groups."""

    group_by: Sequence[str] = ()
    measures: Sequence[str] = ("count",)
    filter: JSON = field(default_factory=dict)
    search: str = ""
    #: Filters by the names that measures use for them, as ``late`` in ``count@late``.
    conditions: Mapping[str, JSON] = field(default_factory=dict)
    having: JSON = field(default_factory=dict)
    order_by: Sequence[str] = ()
    limit: int = 0
    cursor: str | None = None

    @property
    def paths(self) -> Mapping[str, list[str]]:
        """The paths of its groups and measures, by the arguments that name them."""
        return {
            "group_by": list(self.group_by),
            "measures": [path for name in self.measures for path in paths_of(name)],
            "having": [path for name in self.having for path in paths_of(name)],
            "order_by": [path for name in self.order_by for path in (paths_of(name) if ":" in name else [name])],
        }

    def all_paths(self, rights: ModelRights) -> list[str]:
        """Its paths, with those of its valid filters and of its search."""
        named = [path for found in self.paths.values() for path in found]
        met = [path for asked in (self.filter, *self.conditions.values()) for path in paths.of_filter(asked)]
        return [*named, *met, *paths.of_search(rights, self.search)]


@dataclass(frozen=True, slots=True)
class Table:
    columns: list[str]
    rows: list[list[Any]]
    #: Sentences that say what was left out and how to get it.
    notes: list[str]
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class _Counted:
    """The numbers of values and of rows that some measures are computed from."""

    #: The alias of the number of values.
    values: str
    #: The names of the measures.
    names: list[str] = field(default_factory=list)

    @property
    def rows(self) -> str:
        """The alias of the number of rows."""
        return f"{self.values}_rows"


def _fixed_by(condition: Any) -> frozenset[str]:
    """The fields of which a filter leaves one value."""
    return frozenset(name.removesuffix("__exact") for name in condition) if isinstance(condition, dict) else frozenset()


class _AggregatePlan:
    """A checked query: its columns, each with the alias that it has in SQL."""

    def __init__(self, rights: ModelRights, query: AggregateQuery, doubts: Doubts) -> None:
        if rights.checks_objects:
            # A measure of all rows would reveal those that are only hidden once each row is checked.
            instead = ": use find_records and count its rows" if ways.is_open(rights, "collection") else ""
            message = f"the permission is checked for each row of {rights.label}{instead}."
            raise InvalidQuery.one("model", message, rights.label)
        self.rights = rights
        self._mistakes = Mistakes()
        self.matching = Q()
        self.conditions: Mapping[str, Q] = dict.fromkeys(query.conditions, Q())
        with self._mistakes:
            self.matching, self.conditions = _conditions(rights, query, doubts)
        self.smallest = rights.smallest_group
        if not self._mistakes.errors:
            self.smallest = paths.smallest_group(rights, query.all_paths(rights))
        #: The fields that have one value in each group, and those that have one where a condition is met.
        self._fixed = frozenset(query.group_by) | _fixed_by(query.filter)
        self._fixed_within = {name: _fixed_by(condition) for name, condition in query.conditions.items()}
        self.groups: dict[str, GroupColumn] = {}
        for place, name in enumerate(dict.fromkeys(query.group_by)):
            with self._mistakes:
                group = group_of(rights, name)
                self._check_currencies([group.column], name, "group_by")
                self.groups[f"_mcp_g{place}"] = group
        #: The requested measures first, then those of ``having`` and ``order_by``.
        self.measures: dict[str, Measure] = {}
        for name in dict.fromkeys(query.measures):
            with self._mistakes:
                self._measure(name, "measures")
        self.shown = [*self.groups, *self.measures]
        with self._mistakes:
            self._check_names()
        #: For the measures that leave out rows without a value: the aliases of the numbers of values and of rows.
        self.counted = self._count_values() if self.smallest <= 1 else []
        #: Wrong groups and measures: they are not reported again where ``having`` and ``order_by`` repeat them.
        self._wrong = {*query.group_by, *query.measures} - {output.name for output in self.outputs}
        self.having = self._having(query)
        self.orders = self._orders(query.order_by)
        self._mistakes.raise_any()
        self._check_joins()
        self.digest = cursors.query_digest(
            rights.label, rights.rights.site.name, query.group_by, query.measures, query.filter, query.search,
            query.conditions, query.having, query.order_by, *filter(None, [language()]),
        )  # fmt: skip
        self.start = self._start(query.cursor)

    @property
    def outputs(self) -> list[GroupColumn | Measure]:
        """The columns of the table."""
        columns: Mapping[str, GroupColumn | Measure] = {**self.groups, **self.measures}
        return [columns[alias] for alias in self.shown]

    def compute_natively(self, rows: models.QuerySet[Any]) -> None:
        """Let the database itself compute parts of dates in filter and conditions, if it can. Raises TooSlow."""
        within = {alias: measure for alias, measure in self.measures.items() if measure.condition is not None}
        asked = [self.matching, *(measure.condition or Q() for measure in within.values())]
        self.matching, *conditions = natively(self.rights, rows, asked)
        for (alias, measure), condition in zip(within.items(), conditions, strict=True):
            self.measures[alias] = replace(measure, condition=condition)

    def source(self, queryset: models.QuerySet[Any]) -> Source:
        """The rows, and the groups and measures as expressions over them. Raises TooSlow."""
        groups = dict(zip(self.groups, group_expressions([*self.groups.values()], queryset), strict=True))
        has_percentiles = any(measure.function.percent for measure in self.measures.values())
        if has_percentiles and connections[queryset.db].vendor != "postgresql":
            return ranked(queryset, groups, self.measures)
        measures = {alias: measure.expression(self.smallest) for alias, measure in self.measures.items()}
        return queryset, groups, measures

    def cursor(self, shown: int) -> str | None:
        """The cursor for the groups after the first ``shown``; None where no page may begin there."""
        if shown > MAX_PAGED_GROUPS:
            return None
        return cursors.make_cursor([shown], self.digest, self.rights.rights.request.mcp.principal.lineage)

    def _start(self, cursor: str | None) -> int:
        """The number of groups on the pages before."""
        if cursor is None:
            return 0
        [shown] = cursors.read_values(cursor, self.digest, self.rights.rights.request.mcp.principal.lineage)
        return int(shown) if isinstance(shown, str) else 0

    def _measure(self, name: str, where: str) -> str:
        """The alias of a measure."""
        for alias, known in self.measures.items():
            if known.name == name:
                return alias
        measure = measure_of(self.rights, name, where, self.conditions)
        if measure.function.kinds is not None:
            self._check_currencies(measure.operand.columns, name, where, self._fixed_within.get(measure.within))
        if measure.function.is_value_of_a_row and self.smallest > 1:
            what = "median and percentiles" if measure.function.percent else "min and max"
            message = (
                f"{what} show values of single rows, and groups of fewer than {self.smallest} rows are hidden here."
            )
            raise InvalidQuery.one(where, message, name)
        alias = f"_mcp_m{len(self.measures)}"
        self.measures[alias] = measure
        return alias

    def _check_currencies(
        self, columns: Iterable[Column], name: str, where: str, fixed: Collection[str] | None = None
    ) -> None:
        """Raises InvalidQuery for amounts that may be of several currencies, which are compared and added like one."""
        for currency in currencies_of(columns):
            if currency not in self._fixed and currency not in (fixed or ()):
                known = self.rights.column(currency) is not None
                instead = f": name {currency} in group_by or in filter" if known else ", which are not shown here"
                raise InvalidQuery.one(where, f"its amounts may be of several currencies{instead}.", name)

    def _count_values(self) -> list[_Counted]:
        """Count what the measures compute with, where some rows do not have it."""
        found: dict[tuple[str, str], _Counted] = {}
        for measure in [one for one in self.measures.values() if one.leaves_out]:
            counted = found.setdefault((measure.operand.name, measure.within), _Counted(f"_mcp_n{len(found)}"))
            counted.names.append(measure.name)
            self.measures[counted.values] = replace(measure, function=FUNCTIONS["count"])
            # With a condition: the rows that meet it.
            self.measures[counted.rows] = replace(measure, function=FUNCTIONS["count"], operand=ROWS)
        return list(found.values())

    @property
    def aliases(self) -> list[str]:
        """The aliases of what is read: the columns of the table, then the counts."""
        return [*self.shown, *(alias for one in self.counted for alias in (one.values, one.rows))]

    def left_out(self, rows: Sequence[Sequence[Any]]) -> Iterator[str]:
        """A sentence for each value that some of the rows do not have."""
        for place, one in enumerate(self.counted):
            at = len(self.shown) + 2 * place
            present, every = (sum(row[index] or 0 for row in rows) for index in (at, at + 1))
            if present < every:
                names = " and ".join(one.names)
                yield f"{names}: {every - present:,} of {every:,} rows have no value, and are left out."

    def _check_names(self) -> None:
        """Raises InvalidQuery for a field named count beside the number of rows."""
        measured = {measure.name for measure in self.measures.values()}
        for group in self.groups.values():
            if group.name in measured:
                instead = f"count:{self.rights.primary_key.name}"
                message = f"{group.name} is a field to group by, and the number of rows, which is also {instead}."
                raise InvalidQuery.one("measures", f"{message} No table has two columns of one name.", group.name)

    def _having(self, query: AggregateQuery) -> Q:
        condition = Q()
        if query.having and not query.group_by:
            with self._mistakes:
                raise InvalidQuery.one("having", "is a condition on groups: give group_by too.")
        for name, value in query.having.items():
            with self._mistakes:
                condition &= self._condition(name, value)
        return condition

    def _condition(self, name: str, value: Any) -> Q:
        where = f"having.{name[:100]}"
        measure, _, lookup = name.rpartition("__")
        if not measure or lookup not in HAVING_LOOKUPS or self._measures_fields(name):
            measure, lookup = name, HAVING_LOOKUPS[0]
        if measure in self._wrong:
            return Q()
        alias = self._measure(measure, where)
        is_null = value is None and lookup == "exact"
        lookup = "isnull" if is_null else lookup
        try:
            read = is_null or self.measures[alias].read(lookup, value)
        except ValidationError as error:
            raise InvalidQuery.one(where, f"{error.messages[0].rstrip('.')}.", value) from None
        return self.measures[alias].kind.compare(alias, lookup, read)

    def _measures_fields(self, name: str) -> bool:
        """Whether the whole name is that of a measure: a field may be named as a lookup, as in ``avg:rule__gt``."""
        return ":" in name and all(self.rights.column(path) is not None for path in paths_of(name))

    def _orders(self, names: Sequence[str]) -> list[OrderBy]:
        """The requested order, then that of the groups. Nulls come last."""
        found: dict[str, bool] = {}
        for name in names:
            if name.removeprefix("-") in self._wrong:
                continue
            with self._mistakes:
                found.setdefault(self._ordered(name.removeprefix("-")), name.startswith("-"))
        for alias in self.groups:
            found.setdefault(alias, False)
        columns: dict[str, GroupColumn | Measure] = {**self.groups, **self.measures}
        return [
            OrderBy(F(alias), descending=descending, nulls_last=columns[alias].nullable or self.smallest > 1 or None)
            for alias, descending in found.items()
        ]

    def _ordered(self, name: str) -> str:
        for alias, group in self.groups.items():
            if group.name == name:
                return alias
        if name != "count" and not {":", "@"} & set(name):
            allowed = [column.name for column in self.outputs]
            raise InvalidQuery.one("order_by", unknown_name("column to order by", name, allowed), name)
        return self._measure(name, "order_by")

    def _check_joins(self) -> None:
        columns = [group.column for group in self.groups.values()]
        columns += [column for measure in self.measures.values() for column in measure.operand.columns]
        followed = {tuple(step.name for step in column.via) for column in columns if column.via}
        if len(followed) > MAX_RELATIONS:
            raise InvalidQuery.one("measures", f"follow more than {MAX_RELATIONS} relations.")


def _conditions(rights: ModelRights, query: AggregateQuery, doubts: Doubts) -> tuple[Q, Mapping[str, Q]]:
    """The filter, and the conditions of measures by their names. Raises InvalidQuery."""
    if len(query.conditions) > MAX_CONDITIONS:
        raise InvalidQuery.one("conditions", f"at most {MAX_CONDITIONS}.", len(query.conditions))
    for name, asked in query.conditions.items():
        where = f"conditions.{name[:100]}"
        if CONDITION_NAME.fullmatch(name) is None:
            message = "a name has up to 30 small letters, digits and single underscores, and begins with a letter."
            raise InvalidQuery.one(where, message, name)
        if asked == {}:
            raise InvalidQuery.one(where, "must not be empty", asked)
    filters = {"filter": query.filter, **{f"conditions.{name}": asked for name, asked in query.conditions.items()}}
    found = filter_conditions(rights, filters, doubts)
    return found.pop("filter"), {name.partition(".")[2]: condition for name, condition in found.items()}


def check(rights: ModelRights, query: AggregateQuery, doubts: Doubts | None = None) -> None:
    """Raises InvalidQuery for a query that is not allowed. Does not use the database, but adds to the doubts."""
    rights.bare_rows().filter(_planned(rights, query, doubts or Doubts()).matching)


def aggregate(rights: ModelRights, query: AggregateQuery, *, watched: bool = False) -> Table:
    """The table of a query. ``watched``: see ``rows.find``. Raises InvalidQuery and TooSlow."""
    notes: list[str] = []
    with verified(notes, asks=not watched and query.cursor is None) as doubts:
        plan = _planned(rights, query, doubts)
    rows = rights.bare_rows()
    plan.compute_natively(rows)
    queryset = rows.filter(plan.matching)
    if query.search:
        queryset = queryset.filter(search_condition(rights, query.search, notes))
    limit = min(query.limit or sys.maxsize, get_conf().MAX_GROUPS)
    try:
        found = _groups(plan, queryset, limit + 1) if plan.groups else _total(plan, queryset)
    except (DataError, OperationalError) as error:
        if isinstance(error, OperationalError) and "integer overflow" not in str(error):
            raise
        message = "the values are too large for the database to compute with. Narrow the filter."
        raise InvalidQuery.one("measures", message) from None
    # Where small groups are hidden, the note would reveal that there is no row, rather than a few.
    if not watched and query.cursor is None and plan.smallest <= 1:
        is_empty = not any(any(row) for row in found) and not fetch(queryset.values("pk")[:1])
        notes += notes_on(doubts.sought, is_empty=is_empty)
        if query.search and is_empty:
            notes.append(empty_search(rights, query.search))
    return _table(plan, found, limit, notes, says_more=not query.limit)


def _planned(rights: ModelRights, query: AggregateQuery, doubts: Doubts) -> _AggregatePlan:
    """The plan of a query. Its search is only checked, since it may ask the database. Raises InvalidQuery."""
    mistakes = Mistakes()
    with mistakes:
        plan = _AggregatePlan(rights, query, doubts)
    with mistakes:
        if query.search:
            check_search(rights, query.search)
    mistakes.raise_any()
    return plan


def _groups(plan: _AggregatePlan, queryset: models.QuerySet[Any], count: int) -> list[Any]:
    """A row for each group, at most ``count`` after those of the pages before."""
    rows, groups, measures = plan.source(queryset)
    measured = rows.annotate(**groups).values(*groups).annotate(**measures)
    if plan.smallest > 1:
        measured = measured.alias(_mcp_rows=Count("*")).filter(Q(("_mcp_rows__gte", plan.smallest)))
    ordered = measured.filter(plan.having).order_by(*plan.orders)
    return fetch_values(ordered.values_list(*plan.aliases)[plan.start : plan.start + count], len(plan.aliases))


def _total(plan: _AggregatePlan, queryset: models.QuerySet[Any]) -> list[Any]:
    """One row for all rows; none if there are fewer than the smallest group may have. Raises InvalidQuery."""
    rows, _, measures = plan.source(queryset)
    try:
        values = read(queryset.db, lambda: rows.aggregate(**measures, _mcp_rows=Count("*")))
    except Exception as error:
        if not is_fault_of_value(error):
            raise
        logger.warning("A measure of %s could not be read", plan.rights.label, exc_info=True)
        message = "a row holds what is no value of its field, and the database computes with it. find_records shows it."
        raise InvalidQuery.one("measures", message) from None
    if plan.smallest > 1 and values["_mcp_rows"] < plan.smallest:
        return []
    return [[values[alias] for alias in plan.aliases]]


def _table(plan: _AggregatePlan, found: Sequence[Any], limit: int, notes: list[str], *, says_more: bool) -> Table:
    conf = get_conf()
    rows, cut = write_rows(plan.rights, plan.outputs, found[:limit], conf.MAX_TEXT, notes)
    if plan.smallest > 1:
        # The note is always there, since otherwise it would reveal that a group was left out.
        what = f"Groups of fewer than {plan.smallest} rows are left out"
        notes.append(f"{what}, and a measure is null where fewer rows have a value (MIN_GROUP_ROWS).")
    if cut:
        notes.append(f"Values of {', '.join(cut)} ending in … were cut at {conf.MAX_TEXT} characters.")
    notes += [*plan.left_out(found[:limit]), *week_notes([*plan.groups.values()])]
    kept = within_bytes(rows)
    cursor = plan.cursor(plan.start + kept) if 0 < kept < len(found) else None
    if len(found) > limit and (says_more or cursor is None):
        notes.append(f"There are more groups than these {plan.start + limit}. Narrow the query with filter or having.")
    if kept < len(rows):
        size = conf.page_bytes // 3
        notes.append(f"The table was cut at {kept} groups, since more would exceed {size} bytes.")
    return Table([output.name for output in plan.outputs], rows[:kept], notes, cursor)
