"""JSON that Python's own writer would not write: members that stand twice, numbers that are none, endless nesting."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Literal:
    """A value that stands in the text as it is."""

    text: str


class Members(list[tuple[str, Any]]):
    """An object by its members, of which several may have one name."""


def write(value: Any, *, escaped: bool = True) -> str:
    """The text of a value. With ``escaped`` everything beyond ASCII is an escape sequence."""
    if isinstance(value, Literal):
        return value.text
    if isinstance(value, Members | dict):
        members = value.items() if isinstance(value, dict) else value
        parts = (f"{json.dumps(name, ensure_ascii=escaped)}: {write(item, escaped=escaped)}" for name, item in members)
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(write(item, escaped=escaped) for item in value) + "]"
    return json.dumps(value, ensure_ascii=escaped)


def encode(text: str) -> bytes:
    """UTF-8; a lone surrogate becomes the bytes that UTF-8 forbids."""
    return text.encode("utf-8", "surrogatepass")
