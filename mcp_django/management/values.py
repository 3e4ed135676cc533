"""The arguments of a tool, as a person writes them at a terminal: ``name=value``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from mcp_django.protocol.json_schema.schema import types_of
from mcp_django.protocol.types import JSON

#: Types of JSON Schema → the class of their values.
_CLASSES: dict[str, tuple[type, ...]] = {
    "object": (dict,), "array": (list,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip


def arguments_of(
    pairs: Iterable[str], schema: JSON, *, files: Iterable[str] = (), upload: Callable[[Path], str] | None = None
) -> JSON:
    """The arguments of a call, each in the type that the schema has for it. Raises CommandError.

    A value is a text, or the JSON of what is no text; a list may be written with commas. ``@PATH`` stands for the
    content of a file, and of an argument among ``files`` for its upload; ``@@`` begins a text with one ``@``.
    """
    found: JSON = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise CommandError(f"{pair!r} must be NAME=VALUE.")
        if name in found:
            raise CommandError(f"{name} is named twice. Write a list with commas, or as JSON.")
        if text.startswith("@@"):
            text = text[1:]
        elif text.startswith("@"):
            path = Path(text[1:])
            if name in files and upload is not None:
                found[name] = upload(path)
                continue
            text = content_of(path).removesuffix("\n")
        found[name] = value_of(schema.get("properties", {}).get(name, {}), schema, text)
    return found


def content_of(path: Path) -> str:
    """The text of a file. Raises CommandError."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is no text in UTF-8.") from None


def value_of(schema: JSON, whole: JSON, text: str) -> Any:
    """What the text stands for. What fits no type stays a text, and the tool says what is wrong with it."""
    types = types_of(schema, whole)
    if types <= {"string", "null"}:
        return text
    try:
        found = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        found = text
    if not isinstance(found, str) and _is_of(found, types):
        return found
    if "array" in types and "string" not in types and not text.lstrip().startswith(("[", "{")):
        items = _items_of(schema, whole)
        return [value_of(items, whole, part.strip()) for part in text.split(",") if part.strip()]
    return text


def _no_number(text: str) -> Any:
    raise ValueError(text)


def _is_of(value: Any, types: set[str]) -> bool:
    if value is None:
        return "null" in types
    if isinstance(value, bool):
        return bool({"boolean", "any"} & types)
    return "any" in types or any(isinstance(value, _CLASSES.get(one, ())) for one in types)


def _items_of(schema: JSON, whole: JSON) -> JSON:
    """The schema of the items of a list, which may stand among alternatives."""
    if (name := str(schema.get("$ref", ""))).startswith("#/$defs/"):
        return _items_of(whole.get("$defs", {}).get(name.removeprefix("#/$defs/"), {}), whole)
    options: list[JSON] = [schema, *schema.get("anyOf", ())]
    return next((one["items"] for one in options if isinstance(one.get("items"), dict)), {})
