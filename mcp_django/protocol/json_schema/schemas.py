"""Shapes JSON Schemas for clients: flattens those of pydantic, and opens objects.

Source: 2026-07-28 basic#json-schema-usage.
"""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ImproperlyConfigured

from mcp_django.protocol.types import JSON

DIALECT = "https://json-schema.org/draft/2020-12/schema"

#: Keywords whose values map names of the project to schemas.
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
#: Keywords with plain values, which contain no keywords.
_VALUES = frozenset({"const", "default", "enum", "examples"})


def flat(schema: JSON) -> JSON:
    """A schema of pydantic with each ``$ref`` replaced by its definition, because old clients do not know ``$defs``.

    Titles are left out, because they only repeat the names, and so are discriminators, whose mapping names definitions.
    Raises ImproperlyConfigured for a type that contains itself, and for a reference outside its ``$defs``.
    """
    definitions = schema.get("$defs", {})

    def expand(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [expand(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if "$ref" in node and name not in definitions:
            raise ImproperlyConfigured(f"A type of a tool refers to {name!r}, but schemas are never fetched.")
        if name in inside:
            raise ImproperlyConfigured(f"The type {name} of a tool refers to itself, which old clients do not support.")
        expanded = expand(definitions[name], (*inside, name)) if name in definitions else {}
        for keyword, value in node.items():
            if keyword in _BY_NAME:
                expanded[keyword] = {name: expand(item, inside) for name, item in value.items()}
            elif keyword not in ("title", "discriminator", "$ref", "$defs"):
                expanded[keyword] = value if keyword in _VALUES else expand(value, inside)
        if len(expanded.get("prefixItems", ())) == expanded.get("maxItems"):
            # As the limit says already. Some providers want to hear it so.
            expanded["items"] = False
        return expanded

    flattened: JSON = expand(schema, ())
    return flattened


def without_null(schema: JSON) -> JSON:
    """The schema of an argument, without a null that means what leaving the argument out means."""
    kinds = schema.get("anyOf", ())
    if {"type": "null"} in kinds and schema.get("default", ...) is None:
        others = [kind for kind in kinds if kind != {"type": "null"}]
        rest = {keyword: value for keyword, value in schema.items() if keyword not in ("anyOf", "default")}
        return {**others[0], **rest} if len(others) == 1 else {"anyOf": others, **rest}
    return schema


def open_object(description: str, **limits: int) -> JSON:
    """An object with any members. It says so, since converters of clients close an object that says nothing."""
    return {"type": "object", "additionalProperties": True, **limits, "description": description}


def with_texts(schema: JSON) -> JSON:
    """The schema of arguments in which each open object, and a list that holds some, may also be the text of its JSON.

    Some clients close every object, or leave out what the provider's strict mode cannot have. A text they leave.
    """
    return {**schema, "properties": {name: _or_text(one) for name, one in schema.get("properties", {}).items()}}


def _or_text(schema: JSON) -> JSON:
    if not _is_open(schema):
        return schema
    described: JSON = {name: schema[name] for name in ("title", "description", "default") if name in schema}
    rest = {name: value for name, value in schema.items() if name not in described}
    return {"anyOf": [rest, {"type": "string", "description": "The same as JSON."}], **described}


def _is_open(schema: JSON) -> bool:
    """Whether it is an object with any members, or holds one."""
    if schema.get("type") == "array":
        return isinstance(schema.get("items"), dict) and _is_open(schema["items"])
    is_open = bool(schema.get("type") == "object" and schema.get("additionalProperties"))
    return is_open or any(isinstance(one, dict) and _is_open(one) for one in schema.get("properties", {}).values())


def under_result(schema: JSON) -> JSON:
    """The schema of an object whose only property ``result`` is the value."""
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}
