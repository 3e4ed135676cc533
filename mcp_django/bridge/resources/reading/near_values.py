"""Notes for an answer that an agent may take for a fact: a text that is spelt otherwise, a day or number out of range.

Texts are compared exactly. So an answer without a row may only mean that the rows write the text otherwise. Nothing is
read but visible rows, by statements whose number depends on the query and on what the answer shows.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from django.db import DatabaseError
from django.db.models import Case, IntegerField, Max, Min, Value, When

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.days import Days
from mcp_django.bridge.resources.fields.indexes import is_indexed
from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, DECIMAL, INTEGER, NUMBER, TEXT
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.values import write
from mcp_django.core.db.bounds import bounded
from mcp_django.protocol.errors import TooSlow

#: Conditions of one query that are looked at, of each sort.
_MAX_ASKED = 2
#: Longer lists of texts, and longer texts, are not looked at.
_MAX_VALUES, _MAX_CHARS = 20, 100
#: Spellings that are read, and that are named.
_MAX_READ, _MAX_NAMED = 50, 3
#: A note is worth no more time.
_SECONDS = 0.3

#: What ends the search for a note, and never the answer. Databases limit regular expressions in their own ways.
_FAILURES = (DatabaseError, TooSlow, ArithmeticError, TypeError, ValueError)

_RANGED = frozenset({DATE, DATETIME, DECIMAL, INTEGER, NUMBER})
_ORDERED = frozenset({"exact", "in", "range", "gt", "gte", "lt", "lte", "date", "year", "iso_year"})


@dataclass(frozen=True, slots=True)
class Sought:
    """A condition joined to the others by AND: on the rows that are found, or on those that a measure counts."""

    where: str
    #: The model whose column is compared.
    rights: ModelRights
    column: Column
    lookup: str
    #: What it is compared with, as the ORM takes it.
    value: Any

    @property
    def texts(self) -> list[str]:
        """The texts that the column may hold in another spelling."""
        if self.column.kind is not TEXT or self.column.masked or self.column.field.choices is not None:
            return []
        values = self.value if self.lookup == "in" else [self.value] if self.lookup == "exact" else []
        # A key of another model is looked up by ``known_values``.
        is_key = self.column.related is not None
        if is_key or len(values) > _MAX_VALUES:
            return []
        return [one for one in values if isinstance(one, str) and one.strip() and len(one) <= _MAX_CHARS]

    @property
    def is_of_measure(self) -> bool:
        """Whether it decides what a measure counts, and not which rows there are."""
        return self.where.startswith("conditions.")

    @property
    def is_ranged(self) -> bool:
        """Whether an index gives the least and the greatest value of the column."""
        column = self.column
        if column.kind not in _RANGED or self.lookup.partition("__")[0] not in _ORDERED or column.related is not None:
            return False
        return self.value != [] and not column.field.primary_key and is_indexed(self.rights.model, [column.name])

    @property
    def may_ask(self) -> bool:
        """Whether a note may say what the rows of the model hold."""
        return self.rights.may_be_told_of and not self.column.via and self.column.translated is None


def notes_on(sought: Sequence[Sought], *, is_empty: bool) -> list[str]:
    """What an agent should know of the answer to these conditions, which has no row if it ``is_empty``."""
    return [*_notes_on_days(sought), *(_notes_on_empty(sought) if is_empty else _notes_on_part(sought))]


def _notes_on_empty(sought: Sequence[Sought]) -> list[str]:
    """Why there may be no row: the spellings and the ranges of what the rows hold."""
    asked = [one for one in sought if one.may_ask and not one.is_of_measure]
    texts = [one for one in asked if one.texts][:_MAX_ASKED]
    ranged = [one for one in asked if one.is_ranged][:_MAX_ASKED]
    found = [_spelt(one, one.texts) for one in texts] + [_range(one) for one in ranged]
    return [note for note in found if note]


def _notes_on_part(sought: Sequence[Sought]) -> list[str]:
    """Which texts of a list, and of the conditions of measures, no row holds, where rows hold another spelling.

    An answer hides that: the rest of the list has found its rows, and a share of nothing is 0.
    """
    lists = [one for one in sought if one.may_ask and len(one.texts) > (0 if one.is_of_measure else 1)]
    found = (_spelt(one, missing) for one in lists[:_MAX_ASKED] if (missing := _not_held(one)))
    return [note for note in found if note]


def _notes_on_days(sought: Sequence[Sought]) -> list[str]:
    """What a whole day means as the bound of a moment."""
    days = (one for one in sought if one.lookup == "gt" and isinstance(one.value, Days))
    return [f"{_name(one)} is after the end of that day: gte includes the day." for one in days]


def _not_held(one: Sought) -> list[str]:
    """The texts that no visible row holds; none if that cannot be found out in time."""
    rows = one.rights.rows().filter(one.column.condition("in", one.texts))
    found = _read(rows.values_list(one.column.attname).distinct()[:_MAX_VALUES], rows.db)
    held = None if found is None else {_bare(value) for (value,) in found if isinstance(value, str)}
    return [] if held is None else [text for text in one.texts if _bare(text) not in held]


def _spelt(one: Sought, texts: Sequence[str]) -> str:
    """What visible rows hold in the place of the texts; empty if that is nothing else."""
    texts = list(dict.fromkeys(texts))
    rows = one.rights.rows().filter(one.column.condition("iregex", rf"^\s*({'|'.join(map(_pattern, texts))})\s*$"))
    # Only the database knows whether a text is the same for it: MariaDB's does not see the case.
    is_found = Case(When(one.column.condition("in", texts), then=Value(1)), default=Value(0))
    found = _read(rows.values_list(one.column.attname, is_found).distinct()[:_MAX_READ], rows.db) or ()
    held = {value: is_found for value, is_found in found if isinstance(value, str)}
    found_bare = {_bare(value) for value, is_found in held.items() if is_found}
    near = {text: _near(text, held) for text in texts if _bare(text) not in found_bare}
    return " ".join(
        f"{_name(one)}: no row has {text!r}. Did you mean {' or '.join(map(repr, values))}?"
        for text, values in near.items()
        if values
    )


def _near(text: str, held: Collection[str]) -> list[str]:
    bare = _bare(text)
    near = (value for value in held if _bare(value) == bare)
    return sorted(near, key=lambda value: (value.casefold() != text.casefold(), value))[:_MAX_NAMED]


def _bare(text: str) -> str:
    """A text without case, accents and needless spaces."""
    decomposed = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(char for char in decomposed if not unicodedata.combining(char)).split())


def _pattern(text: str) -> str:
    """A regular expression for the text with other accents. Databases ignore the case."""
    return "".join(map(_class_of, _bare(text)))


def _class_of(char: str) -> str:
    if char.isspace():
        return r"\s+"
    accented = _accented().get(char, "")
    return f"[{char}{accented}][\u0300-\u036f]*" if accented else re.escape(char)


@cache
def _accented() -> dict[str, str]:
    """The letters of each base letter, in both cases: Latin, Greek and Cyrillic ones."""
    found: dict[str, str] = {}
    for code in (*range(0xC0, 0x530), *range(0x1E00, 0x2000)):
        base = _bare(chr(code))
        if len(base) == 1 and base != chr(code).casefold():
            found[base] = found.get(base, "") + chr(code)
    return found


def _range(one: Sought) -> str:
    """From where to where the column runs, if nothing of it meets the condition."""
    column, rows = one.column, one.rights.rows()
    meets = Case(When(column.condition(one.lookup, one.value), then=Value(1)), output_field=IntegerField())
    try:
        with bounded(rows.db, _SECONDS):
            values = rows.aggregate(low=Min(column.path), high=Max(column.path), met=Max(meets))
        low, high = (write(column, values[name]) for name in ("low", "high"))
    except _FAILURES:
        return ""
    if values["met"] is not None or low is None:
        return ""
    if column.kind is DATETIME:
        low, high = (str(text).partition("T")[0] for text in (low, high))
    return f"{column.name} runs from {low} to {high}."


def _read(queryset: Any, using: str) -> list[Any] | None:
    """The rows; None if they take too long, or cannot be read."""
    try:
        with bounded(using, _SECONDS):
            return list(queryset)
    except _FAILURES:
        return None


def _name(one: Sought) -> str:
    return one.where.removeprefix("filter.")
