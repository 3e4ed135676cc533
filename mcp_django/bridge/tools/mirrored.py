"""Arguments that an HTTP client repeats in headers, for gateways that do not read bodies (x-mcp-header).

Source: 2026-07-28 basic/transports/streamable-http#custom-headers-from-tool-parameters. A client drops a tool whose
schema breaks a rule of that page, so we refuse such a schema when the tool is declared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ImproperlyConfigured

from mcp_django.protocol.errors import HeaderMismatch
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.connection import RequestHeaders

KEYWORD = "x-mcp-header"

#: The range in which every client's integers are exact.
MAX_INTEGER = 2**53 - 1

# A token (RFC 9110 §5.6.2) without the underscore: servers and proxies drop headers with one, since it could be
# mistaken for a hyphen.
_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]{1,100}")
_TYPES = frozenset({"string", "integer", "boolean"})
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?")


@dataclass(frozen=True, slots=True)
class Mirrored:
    """One such argument: its path in the arguments, and its header."""

    path: tuple[str, ...]
    header: str

    def value_in(self, arguments: Any) -> Any:
        """The argument's value. None where it is absent or null, which mean the same here."""
        value = arguments
        for key in self.path:
            value = value.get(key) if isinstance(value, dict) else None
        return value


def mirrored_in(schema: JSON, owner: str) -> tuple[Mirrored, ...]:
    """The arguments that a tool's input schema marks. ``owner`` begins the message of ImproperlyConfigured."""
    if KEYWORD not in json.dumps(schema, default=str):
        return ()
    from mcp_django.protocol.json_schema.declared import subschemas

    found: dict[str, Mirrored] = {}
    seen: set[int] = set()
    for path, node in _properties(schema, ()):
        if KEYWORD not in node:
            continue
        seen.add(id(node))
        name, where = node[KEYWORD], ".".join(path)
        if problem := _problem(name, node):
            raise ImproperlyConfigured(f"{owner}: the {KEYWORD} of {where} {problem}.")
        if name.lower() in found:
            other = ".".join(found[name.lower()].path)
            raise ImproperlyConfigured(f"{owner}: {where} and {other} have the same {KEYWORD} {name!r}.")
        found[name.lower()] = Mirrored(path, f"Mcp-Param-{name}")
    for node in subschemas(schema):
        if KEYWORD in node and id(node) not in seen:
            raise ImproperlyConfigured(
                f"{owner}: the {KEYWORD} {node[KEYWORD]!r} stands where no header can be read from. It belongs on an "
                "argument, or on a property of an argument that is an object, and not under items, anyOf, allOf, if, "
                "$defs and the like."
            )
    return tuple(found.values())


def _properties(schema: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], JSON]]:
    """The nodes that are reached from the root through ``properties`` alone, each with its path."""
    if not isinstance(schema, dict):
        return
    for name, node in schema.get("properties", {}).items():
        if isinstance(node, dict):
            yield (*path, name), node
            yield from _properties(node, (*path, name))


def _problem(name: Any, node: JSON) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            f"is {name!r:.120}; it must be 1 to 100 letters, digits and hyphens (proxies drop names with underscores)"
        )
    if not isinstance(node.get("type"), str) or node["type"] not in _TYPES:
        return f"needs the type string, integer or boolean alone, and the type is {node.get('type')!r}"
    bounds = [node.get(key) for key in ("minimum", "maximum", "const", "default")] + node.get("enum", [])
    if node["type"] == "integer" and any(isinstance(it, int) and abs(it) > MAX_INTEGER for it in bounds):
        return "allows integers beyond ±(2^53-1), which some clients cannot write exactly"
    return ""


def find_mismatch(headers: RequestHeaders, mirrored: Iterable[Mirrored], arguments: Any) -> HeaderMismatch | None:
    """The error of the first ``Mcp-Param-*`` header that differs from its argument.

    An argument that is null or absent has no header, nor has one whose value no header can hold. A header that no
    argument names is ignored.
    """
    for argument in mirrored:
        title, value = argument.header, argument.value_in(arguments)
        if problem := _difference(headers, title.lower(), value):
            where = ".".join(("arguments", *argument.path))
            return HeaderMismatch(f"The header {title} {problem}: it repeats {where} of the body.", header=title)
    return None


def _difference(headers: RequestHeaders, name: str, value: Any) -> str:
    if headers.get(name) is None:
        return "is missing" if isinstance(value, str | bool | int | float) else ""
    if headers.is_repeated(name):
        return "was sent twice"
    if value is None:
        return "was sent, but the argument is missing"
    if isinstance(value, int) and abs(value) > MAX_INTEGER:
        # A gateway that reads it as a float reads another number.
        return f"cannot say an integer beyond ±{MAX_INTEGER}"
    return "" if _says(headers.decoded(name), value) else "differs from the body"


def _says(decoded: str | None, value: Any) -> bool:
    """Whether a header's value is that of the body: numbers as numbers, ``true`` and ``false``, text as it is."""
    if isinstance(value, bool):
        return decoded == ("true" if value else "false")
    if not isinstance(value, int | float):
        return bool(decoded == value)
    if decoded is None or not _NUMBER.fullmatch(decoded):
        return False
    return Decimal(decoded) == Decimal(str(value))
