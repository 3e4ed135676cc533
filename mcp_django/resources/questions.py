"""From what an agent asks (filter, search, order, fields) to conditions and columns that its rights allow.

Nothing that an agent sends is ever expanded into a call: names are looked up in the rights, lookups in the kind's list,
values are read by the kind (CVE-2025-64459).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import FieldError, field_error
from mcp_django.resources.kinds import BOOLEAN, DATE, INTEGER, PART_LOOKUPS
from mcp_django.resources.policy import Column, ModelRights, unknown_name

JSON = dict[str, Any]


MAX_SEARCH_CHARS = 200
#: Wrong conditions that are told at once.
_MAX_ERRORS = 20


class InvalidQuestion(Exception):
    """A question that cannot be asked, with what is wrong in it and what would be right."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(error["message"] for error in errors))
        self.errors = list(errors)

    @classmethod
    def one(cls, field: str, message: str, received: Any = None) -> InvalidQuestion:
        return cls([field_error(field, message, received)])


@dataclass(frozen=True, slots=True)
class Order:
    """One column of an order."""

    column: Column
    descending: bool

    @property
    def path(self) -> str:
        return f"-{self.column.attname}" if self.descending else self.column.attname

    @property
    def name(self) -> str:
        return f"-{self.column.name}" if self.descending else self.column.name


def columns(rights: ModelRights, names: Sequence[str] | None) -> list[Column]:
    """The asked-for columns, or all; the primary key always first. Raises InvalidQuestion."""
    if not names:
        return list(rights.columns.values())
    chosen = {rights.primary_key.name: rights.primary_key}
    for name in names:
        if name not in rights.columns and name != "pk":
            raise InvalidQuestion.one("fields", unknown_name("field", name, list(rights.columns)), name)
        if name != "pk":
            chosen[name] = rights.columns[name]
    return list(chosen.values())


def order(rights: ModelRights, names: Sequence[str] | None) -> list[Order]:
    """The order of rows, which always ends with the primary key. Raises InvalidQuestion for a name of the agent's.

    Without names the model's own order holds, less what the rights hide: a cursor carries the values of its columns.
    """
    if names:
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
    column = rights.primary_key if bare == "pk" else rights.orderable.get(bare)
    if column is None:
        raise InvalidQuestion.one("order_by", unknown_name("field to order by", bare, list(rights.orderable)), name)
    return Order(column, descending=name.startswith("-"))


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
    column = rights.primary_key if name == "pk" else rights.orderable.get(name)
    return None if column is None else Order(column, descending)


def search(rights: ModelRights, text: str) -> Q:
    """Every word of the text in any of the search fields, as the admin's search box. Raises InvalidQuestion."""
    if not rights.searchable:
        raise InvalidQuestion.one("search", f"{rights.label} has no search fields. Use filter.", text)
    if len(text) > MAX_SEARCH_CHARS:
        raise InvalidQuestion.one("search", f"must not be longer than {MAX_SEARCH_CHARS} characters", text)
    words = text.split()
    if len(words) > get_conf().MAX_FILTER_CONDITIONS:
        raise InvalidQuestion.one("search", f"at most {get_conf().MAX_FILTER_CONDITIONS} words.", text)
    if "\x00" in text:
        raise InvalidQuestion.one("search", "must not hold null characters", text)
    condition = Q()
    for word in words:
        anywhere = Q(("pk__in", []))
        for path in rights.searchable:
            if (value := _sought(rights, path, word)) is not None:
                anywhere |= Q((path, value))
        condition &= anywhere
    return condition


def _sought(rights: ModelRights, path: str, word: str) -> Any:
    """The word as a value of the search field, or None where it cannot be one, as a name in a number."""
    name, _, lookup = path.rpartition("__")
    column = rights.columns[name]
    if lookup not in column.kind.lookups:
        return word  # The admin's own containment, which takes any field as text.
    try:
        return column.kind.read(column.field, word)
    except ValidationError:
        return None


def filter_condition(rights: ModelRights, asked: JSON) -> Q:
    """The condition of a filter: ``{"field__lookup": value}``, all of them, with ``any``, ``all`` and ``not``.

    Raises InvalidQuestion, which names every condition that is wrong.
    """
    reader = _FilterReader(rights)
    condition = reader.read(asked, "filter", depth=0)
    if reader.errors:
        raise InvalidQuestion(reader.errors)
    return condition


class _FilterReader:
    def __init__(self, rights: ModelRights) -> None:
        self.rights = rights
        self.errors: list[FieldError] = []
        self.conditions = 0
        self.conf = get_conf()

    def read(self, asked: Any, where: str, depth: int) -> Q:
        if depth > self.conf.MAX_FILTER_DEPTH:
            raise InvalidQuestion.one(where, f"nested more than {self.conf.MAX_FILTER_DEPTH} deep (MAX_FILTER_DEPTH).")
        if not isinstance(asked, dict):
            return self._wrong(where, 'must be an object, as {"name__icontains": "x"}', asked)
        if depth and not asked:
            # Taken for "every row", a slip of the agent's inside any or not would turn the answer into its opposite.
            return self._wrong(where, "must not be empty", asked)
        condition = Q()
        for name, value in asked.items():
            self._count(where)
            condition &= self._entry(name, value, f"{where}.{name[:100]}", depth)
        return condition

    def _entry(self, name: str, value: Any, where: str, depth: int) -> Q:
        if name == "not":
            return ~self.read(value, where, depth + 1)
        if name in ("any", "all"):
            if not isinstance(value, list) or not value:
                return self._wrong(where, "must be a list of filters", value)
            condition = Q()
            for index, item in enumerate(value):
                part = self.read(item, f"{where}.{index}", depth + 1)
                condition = (condition | part if index else part) if name == "any" else condition & part
            return condition
        return self._condition(name, value, where)

    def _condition(self, name: str, value: Any, where: str) -> Q:
        bare, _, lookup = name.partition("__")
        lookup = lookup or "exact"
        allowed = self.rights.filterable
        column = self.rights.primary_key if bare == "pk" else allowed.get(bare)
        if column is None:
            return self._wrong(where, unknown_name("field", bare, list(allowed)), value)
        if lookup not in column.kind.lookups:
            return self._wrong(where, unknown_name(f"lookup of {bare}", lookup, column.kind.lookups), value)
        if value is None and lookup == "exact":
            lookup, value = "isnull", True
        try:
            read = self._value(column, lookup, value)
        except ValidationError as error:
            return self._wrong(where, f"{error.messages[0].rstrip('.')}.", value)
        return column.condition(lookup, read)

    def _value(self, column: Column, lookup: str, value: Any) -> Any:
        """The value of a lookup as the ORM takes it. Raises ValidationError."""
        if lookup == "isnull":
            return BOOLEAN.read(column.field, value)
        if lookup in PART_LOOKUPS:
            number = INTEGER.read(models.IntegerField(), value)
            # A year is asked as the moments that it lies between, in UTC.
            if lookup == "year" and not 1 < number < 9999:
                raise ValidationError("is out of range")
            return number
        if lookup == "date":
            return DATE.read(column.field, value)
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
        return column.kind.read(column.field, value)

    def _count(self, where: str) -> None:
        self.conditions += 1
        if self.conditions > self.conf.MAX_FILTER_CONDITIONS:
            limit = self.conf.MAX_FILTER_CONDITIONS
            raise InvalidQuestion.one(where, f"more than {limit} conditions (MAX_FILTER_CONDITIONS).")

    def _wrong(self, where: str, message: str, received: Any) -> Q:
        self.errors.append(field_error(where, message, received))
        if len(self.errors) >= _MAX_ERRORS:
            raise InvalidQuestion(self.errors)
        return Q()
