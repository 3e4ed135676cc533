"""Searches: every word in any of the search fields, as in the admin's search box, or the admin's own search."""

from __future__ import annotations

import copy
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models
from django.db.models import Q

from mcp_django.bridge.resources.fields.columns import Column, Relation
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.parsing import MAX_LIST_VALUES
from mcp_django.core.compat import queries, translated_fields
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin

    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.exchange.requests import MCPRequest

logger = logging.getLogger("mcp_django")

#: Stands for the answer of a search that failed.
_FAILED: Any = object()

MAX_SEARCH_CHARS = 200
#: Each word is a condition on every search field.
_MAX_WORDS = 50


@dataclass(frozen=True, slots=True)
class SearchField:
    """One place that a search looks in: a field, or one of the rows that a relation leads to."""

    name: str
    column: Column
    lookup: str
    #: As ``search_fields`` has it.
    declared: str
    relation: Relation | None = None

    @property
    def hides_rows(self) -> bool:
        """Whether it may lead to rows that the principal cannot see."""
        relation = self.relation
        return self.column.masked or (relation is not None and relation.hides_rows)

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
    is_sought = column is not None and column.related is None and column.types is None and column.kind.searchable
    if column is None or not is_sought or lookup == "search":
        return None
    if explicit and (explicit not in column.kind.lookups or explicit in ("in", "isnull", "range")):
        return None
    name = path.removesuffix(f"__{explicit}") if explicit else path
    return SearchField(name, column, explicit or lookup, declared, relation)


@dataclass(frozen=True, slots=True)
class AdminSearch:
    """The ``get_search_results`` of a ModelAdmin, and those of its search fields that may be read."""

    admin: ModelAdmin[Any]
    fields: tuple[str, ...]

    def results(self, request: MCPRequest, rows: models.QuerySet[Any], text: str) -> Any:
        """What it returns, if it is called with only these fields. Raises whatever the project's code raises."""
        # Other requests use the ModelAdmin meanwhile.
        own = copy.copy(self.admin)
        own.search_fields = self.fields  # type: ignore[misc]
        own.get_search_fields = lambda request: self.fields  # type: ignore[method-assign]
        return own.get_search_results(request, rows, text)


def check_search(rights: ModelRights, text: str) -> None:
    """Raises InvalidQuery for a search that is not allowed. Asks neither the database nor the admin's own search."""
    if rights.searched_by == "nothing":
        message = f"{rights.label}: the admin's own search may look into hidden fields, so it is not offered here."
        raise InvalidQuery.one("search", f"{message} Use filter.", text)
    if not rights.can_search:
        raise InvalidQuery.one("search", f"{rights.label} has no search fields. Use filter.", text)
    if len(text) > MAX_SEARCH_CHARS:
        raise InvalidQuery.one("search", f"must not be longer than {MAX_SEARCH_CHARS} characters", text)
    if len(text.split()) > _MAX_WORDS:
        raise InvalidQuery.one("search", f"at most {_MAX_WORDS} words.", text)
    if "\x00" in text:
        raise InvalidQuery.one("search", "must not hold null characters", text)


def search_condition(rights: ModelRights, text: str, notes: list[str]) -> Q:
    """Every word of the text in any of the search fields, as in the admin's search box; or what the admin itself finds.

    What was cut is added to the notes. Raises InvalidQuery and TooSlow.
    """
    check_search(rights, text)
    if rights.admin_search is not None:
        return _found_by_admin(rights, rights.admin_search, text.strip(), notes) if text.strip() else Q()
    condition = Q()
    for word in text.split():
        anywhere = has_key_in(rights.model, [])
        for field in rights.searchable:
            if (value := _sought(field, word)) is not None:
                anywhere |= field.condition(value)
        condition &= anywhere
    return condition


def _found_by_admin(rights: ModelRights, search: AdminSearch, text: str, notes: list[str]) -> Q:
    """The rows that the admin's own search finds, by their keys: neither its order nor what it adds to them counts."""
    rows = translated_fields.in_language(rights.rows())
    called = f"{search.admin}.get_search_results"
    answer = call_hook(lambda: search.results(rights.rights.request, rows, text), _FAILED, called)
    found = answer[0] if isinstance(answer, tuple) and answer else None
    condition = None if answer is _FAILED else rows_found(rights, rows, found, called, notes)
    if condition is None:
        message = f"the admin's own search of {rights.label} failed. Use filter."
        raise InvalidQuery.one("search", message, text)
    return condition


def rows_found(rights: ModelRights, rows: models.QuerySet[Any], found: Any, called: str, notes: list[str]) -> Q | None:
    """The rows that code of the project has found among these, by their keys; None for what is no queryset of them.

    Neither its order nor what it adds to the rows counts.
    """
    if not isinstance(found, models.QuerySet) or not _are_rows_of(rights.model, found):
        logger.error("%s gives no queryset of %s; it is refused", called, rights.label)
        return None
    if not queries.names_database(found):
        found = found.using(rows.db)
    if found.db == rows.db and not queries.is_sliced_or_combined(found):
        return has_key_in(rights.model, (found if queries.picks_rows(found) else found.order_by()).values("pk"))
    # Not every database takes such a queryset as a subquery.
    keys = fetch(found.values_list("pk", flat=True)[: MAX_LIST_VALUES + 1])
    if len(keys) > MAX_LIST_VALUES:
        notes.append(f"The admin's own search found more than {MAX_LIST_VALUES} rows; only the first ones count here.")
    return has_key_in(rights.model, keys[:MAX_LIST_VALUES])


def _are_rows_of(model: type[models.Model], found: models.QuerySet[Any]) -> bool:
    return found.model._meta.concrete_model is model._meta.concrete_model and queries.gives_instances(found)


def _sought(field: SearchField, word: str) -> Any:
    """The word as a value of the search field, or None where it cannot be one, as a name in a number."""
    if field.column.kind.converted:
        try:
            queries.prepare_lookup(field.column.field, field.lookup, word)
        except Exception:  # noqa: BLE001 - a class may raise anything for a part of its values
            return None
    if field.lookup not in field.column.kind.lookups:
        return word  # The kind does not list the lookup: as in the admin, it compares the field as text.
    try:
        return field.column.kind.read_for(field.lookup, field.column.field, word)
    except ValidationError:
        return None
