"""Numbers of related rows of a page: those of each relation counted by one query, which groups them by their row.

A subquery of each row would give the same, and takes longer by far where rows have many thousands each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import models

from mcp_django.bridge.resources.fields import kinds
from mcp_django.bridge.resources.fields.columns import Output, RelatedCount, Relation
from mcp_django.bridge.resources.fields.field_kinds import kind_of
from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.reading.selection import Order, names_of
from mcp_django.bridge.resources.reading.values import fetch_values
from mcp_django.conf import get_conf
from mcp_django.core.compat.queries import gives_values_as_django
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.errors import TooSlow

#: Kinds of keys, and their types, that are equal in Python where they are in the database. A field of a project's own
#: may read an object that equals no other, or the same text of two keys.
_EXACT_KINDS = (kinds.INTEGER, kinds.TEXT, kinds.UUID)
_EXACT_TYPES = frozenset({int, str, UUID})

#: Rows, and whether there are more.
Rows = tuple[list[Sequence[Any]], bool]


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedRows:
    """Rows with the numbers of their related rows."""

    #: Reads the values of outputs that have these names: see ``names_of``.
    fetch: Callable[[list[Output], list[str]], Rows]
    #: What they are rows of.
    queryset: models.QuerySet[Any]
    orders: Sequence[Order] = ()
    #: What filter and order name. A number that they compare is counted with the rows, which show the one that counted.
    compared: Collection[str] = ()
    #: Whether the tables of the query are learnt from its statements, none of which may then be left out.
    watched: bool = False

    def read(self, outputs: Sequence[Output]) -> Rows:
        """The values of ``names_of``, row by row. Raises TooSlow."""
        counts = {place: one for place, one in enumerate(outputs) if isinstance(one, RelatedCount)}
        apart = {
            place: one for place, one in counts.items() if _has_exact_keys(one.relation) and not self._is_compared(one)
        }
        found = self._read_apart(outputs, apart) if apart and _reads_keys(self.queryset) else None
        if found is not None:
            return found
        ordered = [order.column for order in self.orders if isinstance(order.column, RelatedCount)]
        with _explained([*counts.values(), *ordered]):
            return self.fetch([*outputs], names_of(outputs, self.orders))

    def _is_compared(self, count: RelatedCount) -> bool:
        paths = (path.removeprefix("-") for path in self.compared)
        return any(path == count.name or path.startswith(f"{count.name}__") for path in paths)

    def _read_apart(self, outputs: Sequence[Output], apart: dict[int, RelatedCount]) -> Rows | None:
        """The rows, with these numbers counted apart from them; None where these may differ from the database's own."""
        rest = [output for place, output in enumerate(outputs) if place not in apart]
        names = names_of(rest, self.orders)
        leads = dict.fromkeys(count.relation.owner_attname for count in apart.values())
        names += [lead for lead in leads if lead not in names]
        rows, more = self.fetch(rest, names)
        whole = [list(row) for row in rows]
        for place, count in apart.items():
            numbers = self._numbers(count, [row[names.index(count.relation.owner_attname)] for row in rows])
            if numbers is None:
                return None
            for row, number in zip(whole, numbers, strict=True):
                row.insert(place, number)
        return [*whole], more

    def _numbers(self, count: RelatedCount, owners: Sequence[Any]) -> list[int] | None:
        """The number for each of the values that related rows lead to; None where the groups may be others."""
        relation = count.relation
        found = {relation.held(owner): 0 for owner in owners if owner is not None}
        if not {type(one) for one in (*owners, *found) if one is not None} <= _EXACT_TYPES:
            return None
        if not found:
            return None if self.watched else [0] * len(owners)
        counting = relation.counts(list(found), self.queryset.db)
        if not _reads_keys(counting):
            return None
        with _explained([count]):
            groups = fetch_values(counting, 2)
        for held, number in groups:
            # A database may take different texts for equal: MariaDB finds the airport "JFK" by "jfk".
            if held not in found:
                return None
            found[held] = number
        return [0 if owner is None else found[relation.held(owner)] for owner in owners]


def _reads_keys(queryset: models.QuerySet[Any]) -> bool:
    """Whether the values of keys are those of the database: a package may give values in its own way."""
    return gives_values_as_django(queryset)


def _has_exact_keys(relation: Relation) -> bool:
    """Whether keys of rows, read by themselves, can be told apart as the database does where it joins the rows."""
    collations = {getattr(column_of(field), "db_collation", None) for field in (relation.owner_field, relation.held_by)}
    return kind_of(relation.held_by, named=False) in _EXACT_KINDS and len(collations) == 1


@contextmanager
def _explained(counts: Sequence[RelatedCount]) -> Iterator[None]:
    """A context for a query that counts related rows. Raises TooSlow, which says what counts them instead."""
    try:
        yield
    except TooSlow as error:
        if not counts:
            raise
        raise TooSlow([_advice(counts[0])], get_conf().STATEMENT_SECONDS) from error


def _advice(count: RelatedCount) -> FieldError:
    """What to do about a number that takes too long to count."""
    related, grouping = count.relation.related, count.relation.grouping
    instead = "Leave it out, or ask for fewer rows by limit."
    if grouping and related.is_listed and ways.is_open(related, "aggregate"):
        instead = f"Ask aggregate_records for {related.label} itself, {grouping}."
    return field_error("fields", f"{count.name} counts too many rows. {instead}", count.name)
