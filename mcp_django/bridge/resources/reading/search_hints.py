"""The note for a search that finds nothing: where it looked, and the filter that its words may be meant for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from django.core.exceptions import ValidationError
from django.db import models

from mcp_django.bridge.resources.fields.choices import choices_of
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.indexes import is_indexed
from mcp_django.bridge.resources.fields.kinds import INTEGER, TEXT, UUID
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.keys import Keys
from mcp_django.bridge.resources.reading.values import fetch_values, write
from mcp_django.core.db.bounds import bounded
from mcp_django.core.db.column_paths import is_in
from mcp_django.protocol.errors import TooSlow

#: A longer search is a sentence, and no value.
_MAX_WORDS = 3
#: Columns whose values are asked for, each by one statement, and filters that are named.
_MAX_ASKED = 5
_MAX_HINTS = 3
#: A hint is worth no more time.
_SECONDS = 0.3


def empty_search(rights: ModelRights, text: str) -> str:
    """The note for a search without a row. It reads visible rows alone."""
    looked = f"It looks for each word in {', '.join(field.name for field in rights.searchable)}."
    if dropped := rights.unsearchable:
        looked = f"{looked[:-1]}, and not within {', '.join(dropped)}."
    if rights.admin_search is not None:
        looked = "It was the admin's own search."
    words = text.split()
    meant = list(dict.fromkeys([text.strip(), *words])) if len(words) <= _MAX_WORDS else []
    hints = list(islice(_hints(rights, meant), _MAX_HINTS)) if meant else []
    return " ".join(["The search found nothing.", looked, *hints])


def _hints(rights: ModelRights, words: Sequence[str]) -> Iterator[str]:
    """A sentence for each filter that the words may be meant for."""
    for name, column in rights.filterable.items():
        if (value := _choice(column, words)) is not None:
            yield f"{name} has such a choice: {_filter(name, value)}."
    asked = list(_sources(rights, is_alone=len(words) == 1).values())
    for keys, names in asked[:_MAX_ASKED]:
        if (value := _held(keys, words)) is None:
            continue
        own = keys.column.name in names and keys.rights is rights
        takes = "holds such a value" if own else f"takes keys of {keys.rights.label}"
        yield f"{' or '.join(names)} {takes}: {_filter(names[0], value)}."


def _filter(name: str, value: Any) -> str:
    return f"filter {json.dumps({name: value}, ensure_ascii=False)}"


def _choice(column: Column, words: Sequence[str]) -> str | None:
    """The choice of a column whose value or label is one of the words."""
    wanted = {word.casefold() for word in words}
    choices = choices_of(column) if "exact" in column.kind.lookups else {}
    return next((value for value, label in choices.items() if {value.casefold(), label.casefold()} & wanted), None)


def _sources(rights: ModelRights, *, is_alone: bool) -> dict[tuple[str, str], tuple[Keys, list[str]]]:
    """What the words may be values of: keys of other models, numbers and indexed columns, with the names of filters.

    ``is_alone``: the search is one word, which may be the key that Django gave a row.
    """
    found: dict[tuple[str, str], tuple[Keys, list[str]]] = {}
    # Nobody writes the key that Django gave a row beside other words.
    columns = [
        item for item in rights.filterable.items() if is_alone or not isinstance(item[1].field, models.AutoField)
    ]
    for name, column in sorted(columns, key=lambda item: not is_indexed(rights.model, [item[0]])):
        keys = Keys.held_by(column)
        if keys is None and column.related is None and (column.kind is INTEGER or is_indexed(rights.model, [name])):
            keys = Keys(rights, column)
        if keys is None or keys.column.kind not in (INTEGER, TEXT, UUID) or not _may_ask(keys):
            continue
        found.setdefault((keys.rights.label, keys.column.name), (keys, []))[1].append(name)
    return found


def _may_ask(keys: Keys) -> bool:
    """Whether a note may reveal that a single row has a value."""
    return not (keys.are_private or keys.rights.checks_objects or keys.column.masked)


def _held(keys: Keys, words: Sequence[str]) -> Any:
    """A value of a visible row that is one of the words; None if there is none, or if it takes too long."""
    column, values = keys.column, []
    for word in words:
        with suppress(ValidationError):
            spellings = (word, word.upper(), word.lower()) if column.kind is TEXT else (word,)
            values += [column.kind.read(column.field, spelling) for spelling in spellings]
    if not values:
        return None
    rows = keys.rights.rows().filter(is_in(column.field, list(dict.fromkeys(values))))
    try:
        with bounded(rows.db, _SECONDS):
            found = fetch_values(rows.values_list(column.attname)[:1])
    except TooSlow:
        return None
    return next((write(column, value) for (value,) in found if value is not UNREADABLE), None)
