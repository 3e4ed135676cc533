"""The choices of a field, written as its rows show them. Forms know them by other texts: ``1 day, 2:00:00``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.kinds import Kind
from mcp_django.core.types import AnyField
from mcp_django.protocol.jsonrpc import encode


def choices_of(column: Column) -> dict[str, str]:
    """The label of each choice, by its value as a text."""
    found = listed(column.field, column.field.flatchoices or ())
    return {as_text(written(column.field, column.kind, value)): str(label) for value, label in found}


def listed(field: AnyField, choices: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
    """The choices without null, and without an empty text where the field stores none: both are no value."""
    for value, label in choices:
        if value is not None and (value != "" or field.empty_strings_allowed):
            yield value, label


def stored(field: AnyField, value: Any) -> Any:
    """The value of a row for which this choice was made. The choices of numbers may be declared as texts."""
    try:
        return field.to_python(value)
    except Exception:  # noqa: BLE001 - a class of a project may refuse it in any way
        return value


def written(field: AnyField, kind: Kind, value: Any) -> Any:
    """The choice in JSON, as its row shows it."""
    try:
        return kind.write(stored(field, value))
    except Exception:  # noqa: BLE001 - ``to_python`` of a project's field may give what ``write`` does not know
        return str(value)


def as_text(shown: Any) -> str:
    """The choice as a text, which is JSON unless the choice is a text itself: ``true``."""
    return shown if isinstance(shown, str) else encode(shown).decode()
