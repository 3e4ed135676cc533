"""Filters: from the JSON of an agent to a condition that its rights allow.

Nothing that an agent sends is ever expanded into a call: names are looked up in the rights, lookups in the kind's list,
values are read by the kind (CVE-2025-64459).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q, lookups

from mcp_django.bridge.resources.fields import columns
from mcp_django.bridge.resources.fields.columns import Column, RelatedCount
from mcp_django.bridge.resources.fields.days import Days
from mcp_django.bridge.resources.fields.errors import MAX_MISTAKES, InvalidQuery, meant_path, meant_relation
from mcp_django.bridge.resources.fields.kinds import (
    BOOLEAN,
    DATE,
    DATETIME,
    INTEGER,
    PART_COMPARISONS,
    PARTS,
    split_path,
)
from mcp_django.bridge.resources.fields.parsing import MAX_LIST_VALUES, as_list, check_length, read_part, read_year
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.keys import Keys
from mcp_django.bridge.resources.reading.known_values import Doubts, UnverifiedValue
from mcp_django.bridge.resources.reading.list_filters import PREFIX, list_filters
from mcp_django.bridge.resources.reading.near_values import Sought
from mcp_django.conf import get_conf
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

#: How a number of related rows may be compared.
COMPARISONS: Mapping[str, Any] = {
    "exact": lookups.Exact,
    "gt": lookups.GreaterThan,
    "gte": lookups.GreaterThanOrEqual,
    "lt": lookups.LessThan,
    "lte": lookups.LessThanOrEqual,
}

#: How the length of an array is compared otherwise than by equality.
_LENGTH_COMPARISONS = ("gt", "gte", "lt", "lte")
#: Each may be a subquery, so that a filter of thousands would keep the database busy with planning alone.
MAX_CONDITIONS = 50
#: How deep ``any``, ``all``, ``not`` and filters of relations may be nested.
MAX_DEPTH = 5
#: What other languages of filters call ``any``, ``all`` and ``not``.
_GROUPS: Mapping[str, str] = {"or": "any", "and": "all", "not": "not", "nor": "not"}


def filter_condition(rights: ModelRights, conditions: JSON, doubts: Doubts | None = None) -> Q:
    """The condition of a filter: ``{"field__lookup": value}``, all of them, with ``any``, ``all`` and ``not``.

    A field may be one of a related row, as ``origin__name``; a relation's value may be a filter of its own, which one
    related row must meet as a whole. What is doubtful is added to ``doubts``: the database is not asked here.
    Raises InvalidQuery, which lists every wrong condition.
    """
    return filter_conditions(rights, {"filter": conditions}, doubts)["filter"]


def filter_conditions(rights: ModelRights, filters: Mapping[str, JSON], doubts: Doubts | None = None) -> dict[str, Q]:
    """The conditions of several filters of one query, by the arguments that hold them. They share the limits of one.

    ``doubts``: see ``filter_condition``. Raises InvalidQuery, which lists every wrong condition.
    """
    reader = _FilterReader(rights, doubts or Doubts())
    position = _Position(rights, rights.filter_names, get_conf().MAX_RELATION_DEPTH)
    try:
        conditions = {where: reader.read(asked, where, position) for where, asked in filters.items()}
    except InvalidQuery as error:
        raise InvalidQuery([*reader.errors, *error.errors]) from None
    if reader.errors:
        raise InvalidQuery(reader.errors)
    return conditions


@dataclass(frozen=True, slots=True)
class _Position:
    """The position of a condition: its model, the names that are allowed there, and the depth that is left."""

    rights: ModelRights
    #: The paths that may be named from here, if the model of the query restricts them. None: each model's own.
    granted: frozenset[str] | None
    #: Relations that may still be followed.
    reach: int
    #: How deep in ``any``, ``all``, ``not`` and filters of relations.
    depth: int = 0
    #: Whether a condition may use ``pk``: always on the rows of the query itself.
    by_key: bool = True
    #: Whether its row is the one that a foreign key points to.
    is_pointed_to: bool = False
    #: Whether every row of the answer meets the condition.
    is_met_by_all: bool = True

    def inside(self, word: str = "all") -> _Position:
        return replace(self, depth=self.depth + 1, is_met_by_all=self.is_met_by_all and word == "all")

    def beyond(self, name: str, related: ModelRights) -> _Position:
        """The position at the other end of a relation."""
        is_pointed_to = self.rights.own_column(name) is not None
        if self.granted is None:
            own = related.filter_names
            return replace(
                self, rights=related, granted=own, reach=self.reach - 1, by_key=True, is_pointed_to=is_pointed_to
            )
        granted = frozenset(path.removeprefix(f"{name}__") for path in self.granted if path.startswith(f"{name}__"))
        by_key = name in self.granted or "pk" in granted
        return replace(
            self, rights=related, granted=granted, reach=self.reach - 1, by_key=by_key, is_pointed_to=is_pointed_to
        )

    def column(self, name: str) -> Column | None:
        """A column that a condition may compare."""
        if name == "pk":
            return self.rights.primary_key if self.by_key else None
        return self.rights.own_column(name) if self.granted is None or name in self.granted else None

    def grants(self, name: str) -> bool:
        """Whether a condition may be on the relation itself: that there are rows, or how many."""
        return self.granted is None or name in self.granted or f"{name}__count" in self.granted

    def related(self, name: str) -> tuple[ModelRights, Callable[[Q], Q]] | None:
        """The model that a relation leads to, and a function that makes a condition on its rows one on this model."""
        if self.granted is not None and not any(path == name or path.startswith(f"{name}__") for path in self.granted):
            return None
        related = self.rights.beyond(name)
        if related is None:
            return None
        # No relation has the name of a column.
        column = self.rights.own_column(name)
        return related, self.rights.relations[name].exists if column is None else column.points_to

    def single_column(self, path: str) -> Column | None:
        """The column that a path leads to through foreign keys alone, so that a row has one value of it."""
        head, rest = split_path(path)
        if head in self.rights.relations or not rest:
            column = None if rest else self.column(head)
            return None if column is None or column.related is not None else column
        related = self.related(head) if self.reach > 0 else None
        return None if related is None else self.beyond(head, related[0]).single_column(rest)

    def names(self) -> list[str]:
        """The names that are allowed here."""
        if self.granted is not None:
            return sorted(path for path in self.granted if self.rights.knows(path))
        return [*self.rights.columns, *self.rights.relations]

    def meant(self, name: str) -> str:
        """What an unknown name stands for; empty if that is not known."""
        columns = (column for key, column in self.rights.columns.items() if self.column(key) is not None)
        parts = (f"{column.name}__{part}" for column in columns for part in column.kind.lookups if part in PARTS)
        meant = _GROUPS.get(name.lower().lstrip("$_"), "") or meant_path(name, self._may_compare, parts)
        return meant or ("" if self.granted is not None else meant_relation(self.rights, name))

    def doubts(self, where: str, column: Column, values: Sequence[Any], received: Any) -> list[UnverifiedValue]:
        """The doubt about a comparison with values that the column may never hold."""
        doubt = UnverifiedValue(where, self.rights, column, values, received, self._keys(column))
        return [doubt] if doubt.is_possible else []

    def unreadable(self, error: FieldError, column: Column, received: Any) -> list[UnverifiedValue]:
        """The doubt about a text that cannot be a key: it may be the name of a row."""
        keys = self._keys(column)
        doubt = UnverifiedValue(error["field"], self.rights, column, [received], received, keys, error)
        return [doubt] if keys is not None and isinstance(received, str) else []

    def _keys(self, column: Column) -> Keys | None:
        """The keys that a column holds: those of the rows that it points to, or that of the row pointed to."""
        return Keys.of(self.rights) if self.is_pointed_to and column.field.primary_key else Keys.held_by(column)

    def _may_compare(self, path: str) -> bool:
        column, lookup = self.rights.column_and_lookup(path)
        if column is None or (self.granted is not None and column.name not in self.granted):
            return False
        return not lookup or lookup in column.kind.lookups


def _months_as_ranges(conditions: JSON, position: _Position) -> JSON:
    """The conditions. Those on the year and the month of one column become a range of days, which an index answers."""
    found = dict(conditions)
    for path in [name.removesuffix("__year") for name in conditions if name.endswith("__year")]:
        year, month, days = f"{path}__year", f"{path}__month", f"{path}__range"
        column = position.single_column(path) if month in conditions and days not in conditions else None
        if column is None or column.kind not in (DATE, DATETIME):
            continue
        with suppress(ValidationError, ValueError):  # Each is reported by itself if it is wrong.
            month_of = Days.of_month(read_year(column.field, found[year]), read_part(column.field, found[month]))
            found[days] = [month_of.first.isoformat(), month_of.last.isoformat()]
            del found[year], found[month]
    return found


class _FilterReader:
    def __init__(self, rights: ModelRights, doubts: Doubts) -> None:
        #: Those on the model of the query.
        self._rights = rights
        self.errors: list[FieldError] = []
        self.doubts = doubts
        self.conditions = 0
        self.relations = 0
        self.days = 0

    def read(self, conditions: Any, where: str, position: _Position) -> Q:
        if position.depth > MAX_DEPTH:
            raise InvalidQuery.one(where, f"nested more than {MAX_DEPTH} deep.")
        if not isinstance(conditions, dict):
            return self._wrong(where, 'must be an object, as {"name__icontains": "x"}', conditions)
        if position.depth and not conditions:
            # If it meant "every row", a slip inside ``any`` or ``not`` would turn the result into its opposite.
            return self._wrong(where, "must not be empty", conditions)
        condition = Q()
        for name, value in _months_as_ranges(conditions, position).items():
            self._count(where)
            condition &= self._condition_or_group(name, value, f"{where}.{name[:100]}", position)
        return condition

    def _condition_or_group(self, name: str, value: Any, where: str, position: _Position) -> Q:
        if name == "not":
            return ~self.read(value, where, position.inside(name))
        if name in ("any", "all"):
            if not isinstance(value, list) or not value:
                return self._wrong(where, "must be a list of filters", value)
            condition = Q()
            for index, item in enumerate(value):
                part = self.read(item, f"{where}.{index}", position.inside(name))
                condition = (condition | part if index else part) if name == "any" else condition & part
            return condition
        return self._condition(name, value, where, position)

    def _list_filter(self, name: str, value: Any, where: str, position: _Position) -> Q:
        """The condition that a filter of the admin's list stands for."""
        found = list_filters(position.rights) if position.rights is self._rights else {}
        chosen = found.get(name)
        if chosen is None:
            return self._wrong(where, unknown_name("list filter", name, list(found)), value)
        choice = str(value).lower() if isinstance(value, bool) and str(value) not in chosen.choices else str(value)
        if choice not in chosen.choices:
            return self._wrong(where, unknown_name("choice", str(value), list(chosen.choices)), value)
        condition = chosen.condition(choice)
        return self._wrong(where, "failed.", value) if condition is None else condition

    def _condition(self, name: str, value: Any, where: str, position: _Position) -> Q:
        if name.startswith(PREFIX):
            return self._list_filter(name, value, where, position)
        head, rest = split_path(name)
        related = position.related(head)
        column = position.column(head)
        if related is not None:
            model, meets = related
            if isinstance(value, dict) and not rest:
                return meets(self.read(value, where, self._follow(head, model, where, position.inside())))
            beyond = rest.partition("__")[0]
            is_number = beyond == "count" and head in position.rights.relations
            if not is_number and (model.own_column(beyond) is not None or beyond in model.relations or beyond == "pk"):
                inner = self._follow(head, model, where, position)
                is_foreign_key = position.rights.own_column(head) is not None
                is_null = self._asks_for_null(rest, value, model) if is_foreign_key else ""
                if is_null:
                    # A field of a missing or hidden row is null, as when it is read.
                    return ~meets(self._condition(is_null, False, where, inner))
                return meets(self._condition(rest, value, where, inner))
            if head in position.rights.relations and position.grants(head):
                return self._relation(head, rest, value, where, position)
        if column is None:
            unknown = head or name
            message = unknown_name("field", unknown, position.names(), position.meant(unknown))
            return self._wrong(where, message, value)
        lookup = rest or "exact"
        if value is None and lookup == "exact":
            lookup, value = "isnull", True
        part, _, comparison = lookup.partition("__")
        comparisons = _LENGTH_COMPARISONS if part == "len" else PART_COMPARISONS
        if lookup not in column.kind.lookups and not (
            part in PARTS and part in column.kind.lookups and comparison in comparisons
        ):
            allowed = [*column.kind.lookups, *(related[0].columns if related is not None else ())]
            what = f"lookup of {head}" if related is None else f"lookup or field of {head}"
            why = f" {column.converted_by}." if column.converted_by else ""
            return self._wrong(where, unknown_name(what, lookup, allowed) + why, value)
        try:
            read = self._value(column, lookup, value)
        except ValidationError as error:
            message = f"{error.messages[0].rstrip('.')}."
            if lookup == "exact" and isinstance(value, list) and "in" in column.kind.lookups:
                path = where.rpartition(".")[2].removesuffix("__exact")
                return self._wrong(where, f"{message} Did you mean {path}__in?", value)
            self._wrong(where, message, value)
            if lookup == "exact":
                self.doubts.unverified += position.unreadable(self.errors[-1], column, value)
            return Q()
        if lookup in ("exact", "in"):
            self.doubts.unverified += position.doubts(where, column, read if lookup == "in" else [read], value)
        if position.is_met_by_all:
            self.doubts.sought.append(Sought(where, position.rights, column, lookup, read))
        return column.condition(lookup, read)

    def _relation(self, name: str, lookup: str, value: Any, where: str, position: _Position) -> Q:
        """Whether there are related rows, or how many."""
        relation = position.rights.relations[name]
        self._follow(name, relation.related, where, position)
        counted = RelatedCount(name, relation)
        what, comparison = split_path(lookup)
        try:
            if lookup == "isnull":
                wanted = BOOLEAN.read(relation.field, value)
                return ~relation.exists(Q()) if wanted else relation.exists(Q())
            if what == "count" and (comparison or "exact") in COMPARISONS:
                number = INTEGER.read(models.IntegerField(), value)
                return Q(COMPARISONS[comparison or "exact"](counted.expression(), number))
        except ValidationError as error:
            return self._wrong(where, f"{error.messages[0].rstrip('.')}.", value)
        allowed = ["isnull", "count", *(f"count__{item}" for item in COMPARISONS), *relation.related.columns]
        if not lookup:
            message = f'must be a filter of its rows, as {{"{name}": {{..}}}}. Allowed: {", ".join(allowed)}.'
            return self._wrong(where, message, value)
        return self._wrong(where, unknown_name(f"lookup or field of {name}", lookup, allowed), value)

    def _follow(self, name: str, model: ModelRights, where: str, position: _Position) -> _Position:
        """The position at the other end of a relation. Raises InvalidQuery if it is too deep, or one too many."""
        self.relations += 1
        if position.reach <= 0:
            limit = get_conf().MAX_RELATION_DEPTH
            raise InvalidQuery.one(where, f"follows relations more than {limit} deep (MAX_RELATION_DEPTH).")
        if self.relations > columns.MAX_RELATIONS:
            message = f"more than {columns.MAX_RELATIONS} conditions on related rows."
            raise InvalidQuery.one(where, message)
        return position.beyond(name, model)

    def _asks_for_null(self, path: str, value: Any, model: ModelRights) -> str:
        """``path`` with the lookup ``isnull``, if it asks for null and follows foreign keys alone; else empty."""
        column, lookup = model.column_and_lookup(path)
        if column is None:
            return ""
        bare = path.removesuffix(f"__{lookup}") if lookup else path
        if lookup in ("", "exact") and value is None:
            return f"{bare}__isnull"
        if lookup != "isnull":
            return ""
        try:
            return path if BOOLEAN.read(column.field, value) else ""
        except ValidationError:
            return ""

    def _value(self, column: Column, lookup: str, value: Any) -> Any:
        """The value of a lookup as the ORM takes it. Raises ValidationError."""
        if lookup == "isnull":
            return BOOLEAN.read(column.field, value)
        part, comparison = split_path(lookup)
        if (comparison or lookup) in ("in", "range"):
            value = as_list(value)
            if (comparison or lookup) == "range" and len(value) != 2:
                raise ValidationError("must be a list of two values")
            check_length(value)
            values = [column.kind.read_for(part, column.field, item) for item in value]
            self.days += len(values) if comparison else sum(isinstance(item, Days) for item in values)
            if self.days > MAX_LIST_VALUES:
                # Each is a condition in SQL, of which SQLite takes less than a thousand in a row.
                raise ValidationError(f"at most {MAX_LIST_VALUES} days in a filter")
            return values
        return column.kind.read_for(part, column.field, value)

    def _count(self, where: str) -> None:
        self.conditions += 1
        if self.conditions > MAX_CONDITIONS:
            raise InvalidQuery.one(where, f"more than {MAX_CONDITIONS} conditions.")

    def _wrong(self, where: str, message: str, received: Any) -> Q:
        self.errors.append(field_error(where, message, received))
        if len(self.errors) >= MAX_MISTAKES:
            raise InvalidQuery([])  # ``filter_condition`` adds the errors.
        return Q()
