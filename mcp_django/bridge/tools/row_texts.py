"""Rows in what code of the project says: by model and key, since their texts may hold what the agent may not read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from html import unescape
from typing import TYPE_CHECKING, Any

from django.db import models
from django.utils.html import strip_tags

from mcp_django.bridge.resources.fields.unreadable import fetch_instances
from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights

#: A row's text of this many characters or more is found within words too.
_LONG = 4


def names_of(label: str, objects: Iterable[models.Model]) -> dict[str, str]:
    """The texts of rows, each with the words that stand for it. A text that is HTML is in messages without its tags."""
    texts = {call_hook(partial(str, one), "", type(one), "__str__"): _words(label, one) for one in objects}
    plain = {unescape(strip_tags(text)): words for text, words in texts.items()}
    # From Django 6.1 on, the admin leaves out spaces at the ends.
    return {**texts, **plain, **{text.strip(): words for text, words in {**texts, **plain}.items()}}


def _words(label: str, row: models.Model) -> str:
    return label if row.pk is None else f"{label} {row.pk}"


def hidden_names_of(rights: ModelRights, objects: Iterable[models.Model]) -> dict[str, str]:
    """The same without the texts that are a value which the agent may read: they reveal nothing."""
    rows = list(objects)
    columns = [column.attname for column in rights.columns.values() if column.related is None]
    read = {str(vars(row).get(name)) for row in rows for name in columns}
    return {text: words for text, words in names_of(rights.label, rows).items() if text not in read}


def named(text: str, names: Mapping[str, str]) -> str:
    """A text with the words in the place of the texts of rows."""
    texts = sorted(filter(None, names), key=len, reverse=True)
    if not texts:
        return text
    # A short text may be a part of any word.
    parts = (rf"(?<!\w){re.escape(one)}(?!\w)" if len(one) < _LONG else re.escape(one) for one in texts)
    return re.sub("|".join(parts), lambda found: names[found[0]], text)


class RowTexts:
    """The texts of some rows: as they are when this is made, if they ``may_change``, and as ``read`` finds them."""

    def __init__(self, rights: ModelRights, rows: models.QuerySet[Any], *, may_change: bool) -> None:
        self._rights, self._rows = rights, rows
        self._before = fetch_instances(rows) if may_change else []
        self._names: Mapping[str, str] | None = None

    def read(self, *, anew: bool = False) -> Mapping[str, str]:
        """Read the rows again, once or ``anew``. A transaction that has changed them may still be open."""
        if self._names is None or anew:
            found = hidden_names_of(self._rights, [*self._before, *fetch_instances(self._rows.all())])
            self._names = {**(self._names or {}), **found}
        return self._names

    def named(self, lines: Sequence[str]) -> list[str]:
        """What was said, with the rows by model and key."""
        return [named(line, self.read()) for line in lines]
