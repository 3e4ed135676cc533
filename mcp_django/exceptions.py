"""What a tool or a hook of the project may raise, and the texts of such errors."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from typing import Any, TypedDict

RECEIVED_CHARS = 200


class FieldError(TypedDict):
    """One wrong value: where it stood, what is wrong with it, and what was received."""

    field: str
    message: str
    received: Any


def field_error(field: str, message: str, received: Any = None) -> FieldError:
    """A FieldError whose ``received`` is short: long text is cut, a container is named by its JSON type."""
    if isinstance(received, str):
        received = received if len(received) <= RECEIVED_CHARS else received[:RECEIVED_CHARS] + "…"
    elif isinstance(received, dict):
        received = "object" if received else {}
    elif isinstance(received, list | tuple):
        received = "array" if received else []
    elif not (received is None or isinstance(received, bool | int | float)):
        received = type(received).__name__
    return FieldError(field=field, message=message, received=received)


class ToolError(Exception):
    """Raised in a tool to answer ``isError`` with this text, which the agent reads and may act on."""

    def __init__(self, message: str, errors: Sequence[FieldError] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.errors = list(errors)


class InvalidArguments(Exception):
    """Arguments that the function cannot be called with, entry by entry."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error['field']}: {error['message']}" for error in errors))
        self.errors = list(errors)


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` Did you mean x?``, or nothing where no allowed name is near."""
    matches = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]}?" if matches else ""


def unknown_name(what: str, name: str, allowed: Sequence[str]) -> str:
    """The text for a name that is not there: the nearest right one, and all that are allowed."""
    return f"no {what} {name[:100]!r}.{nearest(name[:100], allowed)} Allowed: {', '.join(allowed) or 'none'}."
