"""What rows and values are called where a person reads of a change, by the field policy of its agent.

A row is named by its key and the first columns of the admin's list that the agent may read, and never by ``str()``,
which may tell a hidden column. A foreign key is named by the row that it points to, a choice by its label.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from django.db import models

from mcp_django.bridge.changes import shown_values
from mcp_django.bridge.changes.summaries import quoted
from mcp_django.bridge.resources.fields.choices import as_text, choices_of
from mcp_django.bridge.resources.reading.values import fetch_values
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.hooks import call_hook
from mcp_django.protocol.jsonrpc import encode

if TYPE_CHECKING:
    from mcp_django.bridge.resources.fields.columns import Column
    from mcp_django.bridge.resources.policy.policy import ModelRights

#: The columns by which a row is named.
_MOST_COLUMNS = 3
#: The characters of one of them.
_MOST_CHARS = 60
#: What stands for no value.
NOTHING = "\N{EN DASH}"
#: Columns that name nothing.
_NAMELESS = (models.TextField, models.JSONField, models.BinaryField, models.FileField)


def names_of(rights: ModelRights, keys: Iterable[Any], *, follows: bool = True) -> dict[str, str]:
    """What the rows of these keys are called, beside their keys, as far as the agent may see them.

    ``follows``: a foreign key is named by its row, one step far.
    """
    columns, wanted = _columns_of(rights), list(keys)
    if not wanted or not columns or not rights.has_rows:
        return {}
    asked = {f"_mcp_{number}": column.expression() for number, column in enumerate(columns)}
    rows = rights.rows().filter(has_key_in(rights.model, wanted)).annotate(**asked).values_list("pk", *asked)
    found = [
        (key, *(shown_values.shown(*one) for one in zip(columns, read, strict=True)))
        for key, *read in fetch_values(rows)
    ]
    cells = [
        _in_words(column, [row[place] for row in found], follows=follows) for place, column in enumerate(columns, 1)
    ]
    return {
        str(row[0]): ", ".join(text for text in (of_column[line] for of_column in cells) if text)
        for line, row in enumerate(found)
    }


def are_told(by: ModelRights, to: ModelRights, *, follows: bool = True) -> bool:
    """Whether a reader with the rights ``to``, on whatever row, reads all that the rights ``by`` name it by."""
    for column in _columns_of(by):
        read = to.columns.get(column.name)
        if read is None or (read.related is None) != (column.related is None):
            return False
        if column.related is None or read.related is None:
            continue
        if read.related.scoped or (follows and not are_told(column.related, read.related, follows=False)):
            return False
    return True


def in_words(rights: ModelRights | None, name: str, value: Any) -> str:
    """The value of a field, given as JSON, in words. A list of keys names the rows of a relation."""
    if rights is None:
        return _text(value)
    if isinstance(value, list) and name in rights.relations:
        related = rights.relations[name].related
        named = names_of(related, value) if related is not None else {}
        return ", ".join(_named(key, named.get(str(key), "")) for key in value) or _text(None)
    column = rights.columns.get(name)
    return _text(value) if column is None else _in_words(column, [value], follows=True, is_whole=True)[0]


def _columns_of(rights: ModelRights) -> list[Column]:
    """The first columns of the admin's list that the agent may read; without any, the first short ones of a row."""
    admin, request = rights.model_mcp.model_admin, rights.rights.request
    listed: Sequence[Any] = ()
    if admin is not None:
        listed = call_hook(partial(admin.get_list_display, request), (), rights.model_mcp, "get_list_display")
    named = {name: rights.columns[name] for name in listed if isinstance(name, str) and name in rights.columns}
    found = [one for one in (named or rights.columns).values() if not one.field.primary_key and one.types is None]
    return [one for one in found if not isinstance(one.field, _NAMELESS)][:_MOST_COLUMNS]


def _in_words(column: Column, values: Sequence[Any], *, follows: bool, is_whole: bool = False) -> list[str]:
    """The values of a column, as JSON, in words."""
    if column.field.flatchoices:
        return [_text(None) if value is None else _label(column, value) for value in values]
    if isinstance(column.field, models.JSONField):
        # A text and what it may be the JSON of are two values.
        return [_text(None) if value is None else encode(value).decode() for value in values]
    if column.related is not None and follows:
        named = _names_by_target(column, [value for value in values if value is not None])
        return [_text(None) if value is None else _named(value, named.get(str(value), "")) for value in values]
    if is_whole:
        return list(map(_text, values))
    texts = ["" if value in (None, "") else _text(value) for value in values]
    return [text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…" for text in texts]


def _label(column: Column, value: Any) -> str:
    """The label of a choice, with its value where the label does not tell which one it is."""
    labels = choices_of(column)
    label = labels.get(as_text(value))
    if label is None:
        # A stored value that is no choice, and may look as the label of one.
        return quoted(_text(value), always=_text(value) in labels.values())
    is_one = bool(label.strip()) and list(labels.values()).count(label) == 1
    return label if is_one else f"{label} ({_text(value)})".strip()


def _names_by_target(column: Column, values: Sequence[Any]) -> dict[str, str]:
    """What the rows are called that a foreign key points to, by its values."""
    related = column.related
    if related is None or not values:
        return {}
    target = getattr(column.field, "target_field", None)
    if target is None or target.primary_key:
        return names_of(related, values, follows=False)
    rows = related.rows().filter(models.Q((f"{target.attname}__in", list(values)))).values_list("pk", target.attname)
    keys = {str(key): str(value) for key, value in fetch_values(rows)}
    return {keys[key]: name for key, name in names_of(related, list(keys), follows=False).items()}


def _named(key: Any, name: str) -> str:
    # So that one row does not look as two, whatever it is called.
    shown = quoted(_text(key), ",()")
    return f"{shown} ({quoted(name, '()')})" if name else shown


def _text(value: Any) -> str:
    if value is None:
        return NOTHING
    if not isinstance(value, str):
        return encode(value).decode()
    # So that it is not taken for no value.
    return quoted(value, always=value in ("", NOTHING))
