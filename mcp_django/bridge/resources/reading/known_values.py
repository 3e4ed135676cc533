"""Unknown values of conditions: a choice that a column does not have, or the key of no visible row.

A condition on such a value gives an empty answer, which an agent takes for a fact. So the database is asked for the
value alone, and the query is refused with the nearest right values.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from mcp_django.bridge.resources.fields.choices import choices_of
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.errors import Mistakes
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.keys import Keys, without
from mcp_django.bridge.resources.reading.near_values import Sought
from mcp_django.bridge.resources.reading.values import fetch_values
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.unknown_names import allowed_names, did_you_mean, nearest_values

#: Conditions of one query whose values the database is asked for, and those for which it is asked for suggestions.
_MAX_ASKED = 5
_MAX_SUGGESTED = 2
#: Values that one text names.
_MAX_NAMED = 5
_MAX_CHARS = 100


@dataclass(frozen=True, slots=True)
class UnverifiedValue:
    """A condition whose values may be unknown."""

    where: str
    #: The model whose column is compared.
    rights: ModelRights
    column: Column
    values: Sequence[Any]
    received: Any
    #: The keys that the values should be among; None where the column has choices.
    keys: Keys | None
    #: The error of a key that could not be read, which lacks a suggestion.
    error: FieldError | None = None

    @property
    def is_possible(self) -> bool:
        """Whether the values may be unknown. Does not use the database."""
        if "in" not in self.column.kind.lookups or self.column.types is not None:
            return False
        is_blank = self.column.field.blank and list(self.values) == [""]
        return bool(self.values) and not is_blank and (self.keys is not None or self.column.field.choices is not None)

    def unlisted(self) -> list[Any]:
        """The values that are no choices; of a column of keys, all values. Does not use the database."""
        if self.keys is not None:
            return [] if self.keys.are_private else list(dict.fromkeys(self.values))
        listed = [value for value, _ in self.column.field.flatchoices or ()]
        listed += [""] if self.column.field.blank else []
        texts = {str(value) for value in listed}
        return [value for value in dict.fromkeys(self.values) if value not in listed and str(value) not in texts]

    def unknown(self, values: Sequence[Any]) -> list[Any]:
        """Those of the values that are the key of no visible row, and that no visible row holds. Raises TooSlow."""
        if self.keys is not None:
            values = self.keys.without_row(values)
        if not self.rights.may_be_told_of or not values or self._finds_visible_rows_alone:
            return list(values)
        rows = self.rights.bare_rows().filter(self.column.condition("in", list(values)))
        held = rows.values_list(self.column.attname)
        found = fetch_values((held if len(values) == 1 else held.distinct())[: len(values)])
        return without(values, (value for (value,) in found), rows.db)

    @property
    def _finds_visible_rows_alone(self) -> bool:
        """Whether the condition itself finds only keys of visible rows."""
        return self.keys is not None and (self.column.hides_key or self.column == self.keys.column)

    def message(self, unknown: Sequence[Any]) -> str:
        named = [repr(str(value)[:_MAX_CHARS]) for value in unknown[:_MAX_NAMED]]
        more = f" and {len(unknown) - _MAX_NAMED} more" if len(unknown) > _MAX_NAMED else ""
        if self.keys is None:
            return f"{self.column.name} has no choice {' or '.join(named)}{more}."
        key = self.keys.column
        what = "key" if key.field.primary_key else key.name
        return f"no visible {self.keys.rights.label} has the {what} {' or '.join(named)}{more}."


@dataclass(slots=True)
class Doubts:
    """What is doubtful about the conditions of a query, found when they are read."""

    unverified: list[UnverifiedValue] = field(default_factory=list)
    #: Those of the conditions that are joined by AND.
    sought: list[Sought] = field(default_factory=list)


@contextmanager
def verified(notes: list[str], *, asks: bool = True) -> Iterator[Doubts]:
    """A context for reading a query. Its block finds doubts; then the database is asked about unverified values.

    Raises InvalidQuery: the errors of the block, and one for each condition whose values are unknown. If only some
    values of a list are unknown, a note names them. Without ``asks``, the database is not asked: an unknown value finds
    nothing.
    """
    found = Doubts()
    mistakes = Mistakes()
    with mistakes:
        yield found
    if asks:
        mistakes.errors += _Verifier(notes).errors(found.unverified)
    mistakes.raise_any()


class _Verifier:
    """Asks the database for the values of one query, with a bounded number of statements."""

    def __init__(self, notes: list[str]) -> None:
        self._notes = notes
        self._asked = 0
        self._suggested = 0

    def errors(self, doubts: Sequence[UnverifiedValue]) -> list[FieldError]:
        return [error for doubt in doubts if (error := self._error(doubt)) is not None]

    def _error(self, doubt: UnverifiedValue) -> FieldError | None:
        if doubt.error is not None:
            doubt.error["message"] += self._suggestion(doubt, doubt.values)
            return None
        unknown = doubt.unlisted()
        if unknown and (doubt.keys is not None or doubt.rights.may_be_told_of):
            unknown = self._unknown(doubt, unknown)
        if not unknown:
            return None
        message = f"{doubt.message(unknown)}{self._suggestion(doubt, unknown)}"
        if not doubt.rights.may_be_told_of or len(unknown) < len(set(doubt.values)):
            self._note(doubt, message)
            return None
        return field_error(doubt.where, message, doubt.received)

    def _unknown(self, doubt: UnverifiedValue, values: Sequence[Any]) -> list[Any]:
        self._asked += 1
        if self._asked > _MAX_ASKED:
            if self._asked == _MAX_ASKED + 1:
                where = doubt.where.removeprefix("filter.")
                checked = f"Whether the values of {where} and later ones are spelt right was not checked."
                self._notes.append(f"All conditions were applied. {checked}")
            return []
        try:
            return doubt.unknown(values)
        except TooSlow:
            self._note(doubt, "its values could not be looked up in time (STATEMENT_SECONDS).")
            return []

    def _suggestion(self, doubt: UnverifiedValue, unknown: Sequence[Any]) -> str:
        """What may be meant by the first of the values."""
        if doubt.keys is None:
            choices = choices_of(doubt.column)
            near = nearest_values(str(unknown[0]), {value: [value, label] for value, label in choices.items()})
            return f"{did_you_mean(near)} {allowed_names(list(choices))}"
        self._suggested += 1
        return doubt.keys.suggestion(unknown[0]) if self._suggested <= _MAX_SUGGESTED else ""

    def _note(self, doubt: UnverifiedValue, message: str) -> None:
        self._notes.append(f"{doubt.where.removeprefix('filter.')}: {message}")
