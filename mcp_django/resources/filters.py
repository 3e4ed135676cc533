"""From what an agent asks (filter, search, order, fields) to conditions and columns that its rights allow.

Nothing that an agent sends is ever expanded into a call: names are looked up in the rights, lookups in the kind's list,
values are read by the kind (CVE-2025-64459).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q, lookups

from mcp_django.conf import get_conf
from mcp_django.exceptions import FieldError, field_error
from mcp_django.resources.columns import Column, Output, RelatedCount, RelatedList
from mcp_django.resources.kinds import BOOLEAN, INTEGER, PARTS
from mcp_django.resources.policy import ModelRights, SearchField, split_path
from mcp_django.types import JSON
from mcp_django.unknown_names import unknown_name

MAX_SEARCH_CHARS = 200
#: Fields that an order may name.
MAX_ORDERS = 5

#: How a number of related rows may be compared.
COMPARISONS: Mapping[str, Any] = {
    "exact": lookups.Exact,
    "gt": lookups.GreaterThan,
    "gte": lookups.GreaterThanOrEqual,
    "lt": lookups.LessThan,
    "lte": lookups.LessThanOrEqual,
}

#: How a part of a value, as ``departs_at__hour__gte``, is compared otherwise than by equality.
_PART_COMPARISONS = ("gt", "gte", "lt", "lte")
#: Wrong conditions that are told at once.
_MAX_ERRORS = 20


class InvalidQuery(Exception):
    """A query that cannot be answered, with what is wrong in it and what would be right."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(error["message"] for error in errors))
        self.errors = list(errors)

    @classmethod
    def one(cls, field: str, message: str, received: Any = None) -> InvalidQuery:
        return cls([field_error(field, message, received)])


@dataclass(frozen=True, slots=True)
class Order:
    """One column of an order."""

    column: Column
    descending: bool

    @property
    def path(self) -> str:
        return f"-{self.column.path}" if self.descending else self.column.path

    @property
    def name(self) -> str:
        return f"-{self.column.name}" if self.descending else self.column.name


def outputs(rights: ModelRights, names: Sequence[str] | None) -> list[Output]:
    """What is asked to be read, or all columns; the primary key always first. Raises InvalidQuery."""
    if not names:
        return list(rights.columns.values())
    chosen: dict[str, Output] = {rights.primary_key.name: rights.primary_key}
    for name in names:
        if name != "pk":
            chosen.setdefault(name, _output(rights, name))
    limit = get_conf().MAX_RELATIONS
    if len({path for output in chosen.values() for path in _relations_of(output)}) > limit:
        raise InvalidQuery.one("fields", f"follow more than {limit} relations (MAX_RELATIONS).")
    return list(chosen.values())


def _relations_of(output: Output) -> Iterator[str]:
    """The paths of the relations that must be followed to read it."""
    if isinstance(output, RelatedCount | RelatedList):
        # Each list takes a query of its own, for each row.
        yield output.name
    elif isinstance(output, Column):
        yield from ("__".join(step.name for step in output.via[: count + 1]) for count in range(len(output.via)))


def _output(rights: ModelRights, name: str) -> Output:
    column = rights.column(name)
    if column is not None and not (column.via and column.kind.linked):
        return column
    if name in rights.computed:
        return rights.computed[name]
    head, rest = split_path(name)
    relation = rights.relations.get(head)
    if relation is not None:
        if rest == "count":
            return RelatedCount(name, relation)
        inner = relation.related.column(rest or "pk", get_conf().MAX_RELATION_DEPTH - 1)
        if inner is not None and not inner.kind.linked:
            return RelatedList(name, relation, inner)
    raise InvalidQuery.one("fields", unknown_path("field", rights, name, readable(rights)), name)


def readable(rights: ModelRights) -> list[str]:
    """Names that may be asked for, but for those of related models."""
    return [*rights.columns, *rights.computed, *rights.relations, *(f"{name}__count" for name in rights.relations)]


def unknown_path(what: str, rights: ModelRights, path: str, allowed: Sequence[str]) -> str:
    """The text for a path that leads nowhere, with what is there where it goes wrong."""
    head, rest = split_path(path)
    column, relation = rights.columns.get(head), rights.relations.get(head)
    related = relation.related if relation is not None else column.related if column is not None else None
    if not rest or related is None:
        return unknown_name(what, path, allowed)
    if path.count("__") > get_conf().MAX_RELATION_DEPTH:
        return f"follows relations more than {get_conf().MAX_RELATION_DEPTH} deep (MAX_RELATION_DEPTH)."
    names = [f"{head}__{name}" for name in related.columns]
    return unknown_name(what, path, [*names, f"{head}__count"] if relation is not None else names)


def order(rights: ModelRights, names: Sequence[str] | None) -> list[Order]:
    """The order of rows, which always ends with the primary key. Raises InvalidQuery for a name of the agent's.

    Without names the model's own order holds, less what the rights hide: a cursor carries the values of its columns.
    """
    if names:
        if len(names) > MAX_ORDERS:
            raise InvalidQuery.one("order_by", f"at most {MAX_ORDERS} fields.", len(names))
        orders = [_order(rights, name) for name in names]
    else:
        orders = [found for item in rights.ordering if (found := _declared_order(rights, item)) is not None]
    unique: dict[str, Order] = {}
    for item in orders:
        unique.setdefault(item.column.name, item)
    key = rights.primary_key
    kept: list[Order] = []
    for item in unique.values():
        kept.append(item)
        if item.column.name == key.name:
            return kept
    return [*kept, Order(key, descending=bool(kept) and kept[-1].descending)]


def _order(rights: ModelRights, name: str) -> Order:
    bare = name.removeprefix("-")
    descending = name.startswith("-")
    column = rights.column(bare)
    if column is None and bare in rights.computed:
        computed = rights.computed[bare]
        column, descending = computed.order, descending != computed.descending
    if column is None or not column.can_order:
        allowed = [*rights.orderable, *(name for name, computed in rights.computed.items() if computed.order)]
        raise InvalidQuery.one("order_by", unknown_path("field to order by", rights, bare, allowed), name)
    return Order(column, descending)


def _declared_order(rights: ModelRights, item: Any) -> Order | None:
    """A column of Meta.ordering or ModelAdmin.ordering: a name, or an expression such as ``F("name").desc()``."""
    descending = False
    if isinstance(item, models.expressions.OrderBy):
        descending, item = item.descending, item.expression
    if isinstance(item, models.F):
        item = item.name  # type: ignore[attr-defined]
    if not isinstance(item, str):
        return None
    descending ^= item.startswith("-")
    name = item.removeprefix("-")
    if name.endswith("_id") and name not in rights.orderable:
        name = name.removesuffix("_id")
    column = rights.column(name)
    return None if column is None or not column.can_order else Order(column, descending)


def search(rights: ModelRights, text: str) -> Q:
    """Every word of the text in any of the search fields, as the admin's search box. Raises InvalidQuery."""
    if not rights.searchable:
        raise InvalidQuery.one("search", f"{rights.label} has no search fields. Use filter.", text)
    if len(text) > MAX_SEARCH_CHARS:
        raise InvalidQuery.one("search", f"must not be longer than {MAX_SEARCH_CHARS} characters", text)
    words = text.split()
    if len(words) > get_conf().MAX_FILTER_CONDITIONS:
        raise InvalidQuery.one("search", f"at most {get_conf().MAX_FILTER_CONDITIONS} words.", text)
    if "\x00" in text:
        raise InvalidQuery.one("search", "must not hold null characters", text)
    condition = Q()
    for word in words:
        anywhere = Q(("pk__in", []))
        for field in rights.searchable:
            if (value := _sought(field, word)) is not None:
                anywhere |= field.condition(value)
        condition &= anywhere
    return condition


def _sought(field: SearchField, word: str) -> Any:
    """The word as a value of the search field, or None where it cannot be one, as a name in a number."""
    if field.lookup not in field.column.kind.lookups:
        return word  # The admin's own containment, which takes any field as text.
    try:
        return field.column.kind.read_for(field.lookup, field.column.field, word)
    except ValidationError:
        return None


def filter_condition(rights: ModelRights, asked: JSON) -> Q:
    """The condition of a filter: ``{"field__lookup": value}``, all of them, with ``any``, ``all`` and ``not``.

    A field may be one of a related row, as ``origin__name``; a relation's value may be a filter of its own, which one
    related row must meet whole. Raises InvalidQuery, which names every condition that is wrong.
    """
    reader = _FilterReader()
    condition = reader.read(asked, "filter", _Place(rights, rights.filter_names, get_conf().MAX_RELATION_DEPTH))
    if reader.errors:
        raise InvalidQuery(reader.errors)
    return condition


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a condition stands: on which model, what of it may be named, and how much further it may go."""

    rights: ModelRights
    #: The paths that may be named from here, where the model that was asked for says which; else each model's own.
    granted: frozenset[str] | None
    #: Relations that may still be followed.
    reach: int
    #: How deep in ``any``, ``all``, ``not`` and filters of relations.
    depth: int = 0
    #: Whether rows may be told by their key, as ``pk``: always those that are asked for.
    by_key: bool = True

    def inside(self) -> _Place:
        return replace(self, depth=self.depth + 1)

    def beyond(self, name: str, related: ModelRights) -> _Place:
        """The place at the other end of a relation."""
        if self.granted is None:
            return _Place(related, related.filter_names, self.reach - 1, self.depth)
        granted = frozenset(path.removeprefix(f"{name}__") for path in self.granted if path.startswith(f"{name}__"))
        by_key = name in self.granted or "pk" in granted
        return _Place(related, granted, self.reach - 1, self.depth, by_key)

    def column(self, name: str) -> Column | None:
        """A column that a condition may compare."""
        if name == "pk":
            return self.rights.primary_key if self.by_key else None
        return self.rights.columns.get(name) if self.granted is None or name in self.granted else None

    def grants(self, name: str) -> bool:
        """Whether a condition may be on the relation itself: that there are rows, or how many."""
        return self.granted is None or name in self.granted or f"{name}__count" in self.granted

    def related(self, name: str) -> tuple[ModelRights, Callable[[Q], Q]] | None:
        """The model that a relation leads to, and what makes a condition of one on its rows."""
        if self.granted is not None and not any(path == name or path.startswith(f"{name}__") for path in self.granted):
            return None
        relation, column = self.rights.relations.get(name), self.rights.columns.get(name)
        if relation is not None:
            return relation.related, relation.exists
        return (column.related, column.points_to) if column is not None and column.related is not None else None

    def names(self) -> list[str]:
        """What may be named here."""
        if self.granted is not None:
            return sorted(path for path in self.granted if self.rights.knows(path))
        return [*self.rights.columns, *self.rights.relations]


class _FilterReader:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.conditions = 0
        self.relations = 0
        self.conf = get_conf()

    def read(self, asked: Any, where: str, place: _Place) -> Q:
        if place.depth > self.conf.MAX_FILTER_DEPTH:
            raise InvalidQuery.one(where, f"nested more than {self.conf.MAX_FILTER_DEPTH} deep (MAX_FILTER_DEPTH).")
        if not isinstance(asked, dict):
            return self._wrong(where, 'must be an object, as {"name__icontains": "x"}', asked)
        if place.depth and not asked:
            # Taken for "every row", a slip of the agent's inside any or not would turn the answer into its opposite.
            return self._wrong(where, "must not be empty", asked)
        condition = Q()
        for name, value in asked.items():
            self._count(where)
            condition &= self._entry(name, value, f"{where}.{name[:100]}", place)
        return condition

    def _entry(self, name: str, value: Any, where: str, place: _Place) -> Q:
        if name == "not":
            return ~self.read(value, where, place.inside())
        if name in ("any", "all"):
            if not isinstance(value, list) or not value:
                return self._wrong(where, "must be a list of filters", value)
            condition = Q()
            for index, item in enumerate(value):
                part = self.read(item, f"{where}.{index}", place.inside())
                condition = (condition | part if index else part) if name == "any" else condition & part
            return condition
        return self._condition(name, value, where, place)

    def _condition(self, name: str, value: Any, where: str, place: _Place) -> Q:
        head, rest = split_path(name)
        related = place.related(head)
        column = place.column(head)
        if related is not None:
            model, meets = related
            if isinstance(value, dict) and not rest:
                return meets(self.read(value, where, self._follow(head, model, where, place.inside())))
            beyond = rest.partition("__")[0]
            if beyond in model.columns or beyond in model.relations or beyond == "pk":
                inner = self._follow(head, model, where, place)
                is_null = self._asks_for_null(rest, value, model) if head not in place.rights.relations else ""
                if is_null:
                    # What a missing or hidden row holds is null, as it reads.
                    return ~meets(self._condition(is_null, False, where, inner))
                return meets(self._condition(rest, value, where, inner))
            if head in place.rights.relations and place.grants(head):
                return self._relation(head, rest, value, where, place)
        if column is None:
            return self._wrong(where, unknown_name("field", head or name, place.names()), value)
        lookup = rest or "exact"
        if value is None and lookup == "exact":
            lookup, value = "isnull", True
        part, _, comparison = lookup.partition("__")
        if lookup not in column.kind.lookups and not (
            part in PARTS and part in column.kind.lookups and comparison in _PART_COMPARISONS
        ):
            allowed = [*column.kind.lookups, *(related[0].columns if related is not None else ())]
            what = f"lookup of {head}" if related is None else f"lookup or field of {head}"
            return self._wrong(where, unknown_name(what, lookup, allowed), value)
        try:
            read = self._value(column, lookup, value)
        except ValidationError as error:
            return self._wrong(where, f"{error.messages[0].rstrip('.')}.", value)
        return column.condition(lookup, read)

    def _relation(self, name: str, lookup: str, value: Any, where: str, place: _Place) -> Q:
        """Whether there are related rows, or how many."""
        relation = place.rights.relations[name]
        self._follow(name, relation.related, where, place)
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

    def _follow(self, name: str, model: ModelRights, where: str, place: _Place) -> _Place:
        """The place at the other end of a relation. Raises InvalidQuery where that is too far, or one too many."""
        self.relations += 1
        if place.reach <= 0:
            limit = self.conf.MAX_RELATION_DEPTH
            raise InvalidQuery.one(where, f"follows relations more than {limit} deep (MAX_RELATION_DEPTH).")
        if self.relations > self.conf.MAX_RELATIONS:
            limit = self.conf.MAX_RELATIONS
            raise InvalidQuery.one(where, f"more than {limit} conditions on related rows (MAX_RELATIONS).")
        return place.beyond(name, model)

    def _asks_for_null(self, path: str, value: Any, model: ModelRights) -> str:
        """The name of ``path`` with the lookup ``isnull``, where it asks for null by keys alone; else empty."""
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
        if lookup in ("in", "range"):
            if isinstance(value, str):
                value = value.split(",")
            if not isinstance(value, list):
                raise ValidationError("must be a list")
            if lookup == "range" and len(value) != 2:
                raise ValidationError("must be a list of two values")
            if len(value) > self.conf.MAX_IN_VALUES:
                raise ValidationError(f"at most {self.conf.MAX_IN_VALUES} values (MAX_IN_VALUES)")
            return [column.kind.read(column.field, item) for item in value]
        return column.kind.read_for(lookup.partition("__")[0], column.field, value)

    def _count(self, where: str) -> None:
        self.conditions += 1
        if self.conditions > self.conf.MAX_FILTER_CONDITIONS:
            limit = self.conf.MAX_FILTER_CONDITIONS
            raise InvalidQuery.one(where, f"more than {limit} conditions (MAX_FILTER_CONDITIONS).")

    def _wrong(self, where: str, message: str, received: Any) -> Q:
        self.errors.append(field_error(where, message, received))
        if len(self.errors) >= _MAX_ERRORS:
            raise InvalidQuery(self.errors)
        return Q()
