"""Keys of visible rows: which of some keys exist, and which ones may be meant by a key that does not.

What is suggested is read from the key and from the search columns of visible rows. A key that does not exist and the
key of a hidden row have the same suggestions, found by the same statements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db import connections, models
from django.db.models import Q
from django.db.models.functions import Left

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.kinds import TEXT
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.reading.values import fetch_values, write
from mcp_django.core.db.column_paths import is_in
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.unknown_names import did_you_mean, nearest_values

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights

#: Rows that are read for one suggestion.
_MAX_READ = 200
#: Characters of a text that may be meant, and of a value that is compared with it.
_MAX_TEXT = 100
#: A longer beginning of a word would miss words that are misspelt.
_BEGINNING = 3


@dataclass(frozen=True, slots=True)
class Keys:
    """The keys of a model's visible rows: its primary key, or the field that a relation points to."""

    rights: ModelRights
    column: Column

    @classmethod
    def of(cls, rights: ModelRights) -> Keys:
        return cls(rights, rights.primary_key)

    @classmethod
    def held_by(cls, column: Column) -> Keys | None:
        """The keys that a foreign key holds; None for any other column."""
        if column.related is None or not isinstance(column.field, models.ForeignKey):
            return None
        target = column.related.columns.get(column.field.target_field.name)
        return None if target is None else cls(column.related, target)

    @property
    def are_private(self) -> bool:
        """Whether no answer may depend on a single row."""
        return self.rights.smallest_group > 1  # This holds for every model without rows.

    @property
    def _suggests(self) -> bool:
        """Whether rows may be suggested: not if the permission is checked for each, since hidden ones would be read."""
        if self.are_private or self.column.masked or self.rights.checks_objects:
            return False
        return ways.is_open(self.rights, "collection")

    def without_row(self, values: Sequence[Any]) -> list[Any]:
        """Those of the values that are the key of no visible row. Raises TooSlow."""
        rows = self.rights.rows().filter(is_in(self.column.field, values))
        found = fetch_values(rows.values_list(self.column.attname))
        return without(values, (value for (value,) in found), rows.db)

    def suggestion(self, received: Any) -> str:
        """`` Did you mean UA, United Air Lines Inc.?``, or an empty text: what may be meant by a key without a row."""
        value = str(received).strip()[:_MAX_TEXT] if isinstance(received, str | int) else ""
        texts = self._texts()
        if not value or "\x00" in value or not texts or not self._suggests:
            return ""
        left = _MAX_READ
        try:
            for condition in _conditions(texts, value):
                found = self._read(texts, condition, left)
                if names := nearest_values(value, self._known(found)):
                    return did_you_mean(names)
                left -= len(found)
                if left <= 0:
                    break
        except TooSlow:
            pass
        return ""

    def _texts(self) -> list[Column]:
        """The columns that a key may be known by: itself, if it is text, and the model's own search columns."""
        sought = [field.column for field in self.rights.searchable if field.relation is None]
        texts = [column for column in (self.column, *sought) if column.kind is TEXT and not column.via]
        return list({column.name: column for column in texts}.values())

    def _read(self, texts: Sequence[Column], condition: Q, most: int) -> list[Any]:
        """The primary key, the key and the beginnings of the texts of visible rows."""
        shortened = {f"_mcp_{place}": Left(column.attname, _MAX_TEXT) for place, column in enumerate(texts)}
        rows = self.rights.rows().filter(condition).order_by("pk").annotate(**shortened)
        return fetch_values(rows.values_list("pk", self.column.attname, *shortened)[:most])

    def _known(self, found: Iterable[Sequence[Any]]) -> dict[str, list[str]]:
        """The texts that each key is known by."""
        return {
            str(write(self.column, key)): [text for text in texts if isinstance(text, str) and text]
            for _, key, *texts in found
            if key is not None and key is not UNREADABLE
        }


def no_record(rights: ModelRights, key: Any, *, suggests: bool = True) -> str:
    """The error text for a primary key that no visible row has."""
    suggestion = Keys.of(rights).suggestion(key) if suggests else ""
    return f"no {rights.label} with the primary key {str(key)[:_MAX_TEXT]}.{suggestion}"


def _conditions(texts: Sequence[Column], value: str) -> Iterator[Q]:
    """Conditions for the rows to read, the likeliest first: the whole value, the beginning of a word, no condition."""
    words = sorted(value.split(), key=len, reverse=True)
    for part in dict.fromkeys([value, *(word[:_BEGINNING] for word in words[:1])]):
        condition = Q()
        for column in texts:
            condition |= column.condition("icontains", part)
        yield condition
    yield Q()


def without(values: Iterable[Any], found: Iterable[Any], alias: str) -> list[Any]:
    """The values that are not among those that the database found for them."""
    as_compared = _folded if connections[alias].vendor == "mysql" else _same
    known = [as_compared(value) for value in found]
    return [value for value in values if as_compared(value) not in known]


def _same(value: Any) -> Any:
    return value


def _folded(value: Any) -> Any:
    """As MariaDB and MySQL compare texts: without regard to case and to spaces at the end."""
    return value.casefold().rstrip() if isinstance(value, str) else value
