"""Searches: every word in any of the search fields, as in the admin's search box."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db.models import Q

from mcp_django.compat.queries import prepare_lookup
from mcp_django.resources.columns import Column, Relation
from mcp_django.resources.errors import InvalidQuery

if TYPE_CHECKING:
    from mcp_django.resources.policy import ModelRights

MAX_SEARCH_CHARS = 200
#: Each word is a condition on every search field.
_MAX_WORDS = 50


@dataclass(frozen=True, slots=True)
class SearchField:
    """One place that a search looks in: a field, or one of the rows that a relation leads to."""

    name: str
    column: Column
    lookup: str
    relation: Relation | None = None

    def condition(self, value: Any) -> Q:
        found = self.column.condition(self.lookup, value)
        return found if self.relation is None else self.relation.exists(found)


def search_field(rights: ModelRights, declared: str) -> SearchField | None:
    """What an entry of ``search_fields`` stands for, if the policy lets it through."""
    lookup = {"^": "istartswith", "=": "iexact", "@": "search"}.get(declared[:1], "icontains")
    path = declared.lstrip("^=@")
    head, _, rest = path.partition("__")
    relation = rights.relations.get(head)
    column, explicit = rights.column_and_lookup(path) if relation is None else relation.related.column_and_lookup(rest)
    if column is None or column.related is not None or not column.kind.searchable or lookup == "search":
        return None
    if explicit and (explicit not in column.kind.lookups or explicit in ("in", "isnull", "range")):
        return None
    name = path.removesuffix(f"__{explicit}") if explicit else path
    return SearchField(name, column, explicit or lookup, relation)


def search_condition(rights: ModelRights, text: str) -> Q:
    """Every word of the text in any of the search fields, as the admin's search box. Raises InvalidQuery."""
    if not rights.searchable:
        raise InvalidQuery.one("search", f"{rights.label} has no search fields. Use filter.", text)
    if len(text) > MAX_SEARCH_CHARS:
        raise InvalidQuery.one("search", f"must not be longer than {MAX_SEARCH_CHARS} characters", text)
    words = text.split()
    if len(words) > _MAX_WORDS:
        raise InvalidQuery.one("search", f"at most {_MAX_WORDS} words.", text)
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
    if field.column.kind.converted:
        try:
            prepare_lookup(field.column.field, field.lookup, word)
        except Exception:  # noqa: BLE001 - a class may raise anything for a part of its values
            return None
    if field.lookup not in field.column.kind.lookups:
        return word  # The admin's own containment, which takes any field as text.
    try:
        return field.column.kind.read_for(field.lookup, field.column.field, word)
    except ValidationError:
        return None
