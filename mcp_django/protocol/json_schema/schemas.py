"""JSON Schemas of tools: flattens those of pydantic, and checks those of a project when they are declared.

Source: 2026-07-28 basic#json-schema-usage. No schema is ever fetched.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError
from referencing import Registry
from referencing.exceptions import Unresolvable
from referencing.jsonschema import DRAFT202012

from mcp_django.types import JSON

DIALECT = "https://json-schema.org/draft/2020-12/schema"

_MAX_BYTES = 64_000
_MAX_DEPTH = 64
#: The most subschemas that may apply to one value. A subschema counts once for each reference to it.
_MAX_APPLIED = 1_000

#: Keywords whose subschemas apply to the same value as the schema around them.
_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_LIST = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef")


def ready_schema(given: Mapping[str, Any], owner: str) -> JSON:
    """A copy of a project's schema for arguments. Raises ImproperlyConfigured, whose message begins with ``owner``.

    The schema must be JSON, valid in the dialect 2020-12 and of the type object. It must not refer to anything outside
    itself, because neither this server nor a client fetches schemas.
    """
    try:
        text = json.dumps(given, allow_nan=False)
        schema = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ImproperlyConfigured(f"{owner} cannot be written as JSON: {error}") from None
    if len(text) > _MAX_BYTES or _depth(schema) > _MAX_DEPTH:
        raise ImproperlyConfigured(f"{owner} is larger than {_MAX_BYTES} bytes, or nested deeper than {_MAX_DEPTH}.")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ImproperlyConfigured(f'{owner} must have "type": "object" at its root, because arguments are an object.')
    _Checker(owner).check(schema)
    return schema


def subschemas(schema: Any) -> Iterator[JSON]:
    """The schema and every schema within it, but not those that only a reference leads to."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(DRAFT202012.subresources_of(node))


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
    """The schema of arguments in which each open object may also be the text of its JSON.

    Some clients close every object, or leave out what the provider's strict mode cannot have. A text they leave.
    """
    return {**schema, "properties": {name: _or_text(one) for name, one in schema.get("properties", {}).items()}}


def _or_text(schema: JSON) -> JSON:
    if schema.get("type") != "object" or not schema.get("additionalProperties"):
        return schema
    described: JSON = {name: schema[name] for name in ("title", "description", "default") if name in schema}
    rest = {name: value for name, value in schema.items() if name not in described}
    return {"anyOf": [rest, {"type": "string", "description": "The same as JSON."}], **described}


def under_result(schema: JSON) -> JSON:
    """The schema of an object whose only property ``result`` is the value."""
    return {"type": "object", "properties": {"result": schema}, "required": ["result"]}


def _depth(value: Any) -> int:
    deepest, pending = 0, [(value, 1)]
    while pending:
        item, depth = pending.pop()
        deepest = max(deepest, depth)
        children = item.values() if isinstance(item, dict) else item if isinstance(item, list) else ()
        pending.extend((child, depth + 1) for child in children)
    return deepest


class _Checker:
    """Checks a schema and everything that it refers to, each part once."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._pending: list[tuple[Any, Any]] = []
        #: Identities of the schemas that end, whatever value they are for.
        self._ending: set[int] = set()
        #: Identity of a schema → how many schemas apply to its value. None while they are being counted.
        self._applied: dict[int, int | None] = {}

    def check(self, schema: JSON) -> None:
        self._check_valid(schema)
        self._pending = [(schema, Registry().resolver_with_root(DRAFT202012.create_resource(schema)))]
        walked = set()
        while self._pending:
            node, resolver = self._pending.pop()
            if isinstance(node, dict) and id(node) not in walked:
                walked.add(id(node))
                self._count(node, resolver, 1)
                resolver = resolver.in_subresource(DRAFT202012.create_resource(node))
                self._pending.extend((child, resolver) for child in DRAFT202012.subresources_of(node))
        self._check_ends(schema, Registry().resolver_with_root(DRAFT202012.create_resource(schema)), frozenset())

    def _check_ends(self, node: Any, resolver: Any, inside: frozenset[int]) -> None:
        """Providers refuse a schema that contains itself, as one of a tree does."""
        if not isinstance(node, dict) or id(node) in self._ending:
            return
        if id(node) in inside:
            raise self._refused("refers to itself, which providers of models refuse. Say how deep it goes at most")
        resolver, inside = resolver.in_subresource(DRAFT202012.create_resource(node)), inside | {id(node)}
        for child in DRAFT202012.subresources_of(node):
            self._check_ends(child, resolver, inside)
        for keyword in _REFERENCES:
            if keyword in node:
                found = self._lookup(node[keyword], resolver)
                self._check_ends(found.contents, found.resolver, inside)
        self._ending.add(id(node))

    def _check_valid(self, schema: Any) -> None:
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise self._refused(f"is not a valid JSON Schema: {error.json_path}: {error.message[:300]}") from None
        for node in subschemas(schema):
            if node.get("$schema", DIALECT).rstrip("#") != DIALECT:
                raise self._refused(f"is written for {node['$schema']}, but only {DIALECT} is supported")

    def _count(self, node: Any, resolver: Any, depth: int) -> int:
        """How many schemas apply to the value of this one: itself, its subschemas in place, and its references."""
        if not isinstance(node, dict):
            return 1
        known = self._applied.get(id(node), 0)
        if known is None:
            raise self._refused("refers to itself for the same value, which never ends")
        if known:
            return known
        if depth > _MAX_DEPTH:
            raise self._refused(f"follows references deeper than {_MAX_DEPTH} levels")
        self._applied[id(node)] = None
        resolver = resolver.in_subresource(DRAFT202012.create_resource(node))
        applied = 1 + sum(self._count(child, resolver, depth + 1) for child in _in_place(node))
        for keyword in _REFERENCES:
            if keyword in node:
                found = self._lookup(node[keyword], resolver)
                applied += self._count(found.contents, found.resolver, depth + 1)
        if applied > _MAX_APPLIED:
            raise self._refused(f"applies more than {_MAX_APPLIED} schemas to one value")
        self._applied[id(node)] = applied
        return applied

    def _lookup(self, reference: str, resolver: Any) -> Any:
        try:
            found = resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError):
            # ValueError: the reference is no URI. TypeError: a pointer leads through a value that is no object.
            raise self._refused(
                f"refers to {reference!r}, which is not in it. Schemas are never fetched: put it under $defs"
            ) from None
        if id(found.contents) not in self._applied:
            # A pointer may lead to a place that no keyword makes a schema.
            self._check_valid(found.contents)
            self._pending.append((found.contents, found.resolver))
        return found

    def _refused(self, problem: str) -> ImproperlyConfigured:
        return ImproperlyConfigured(f"{self._owner} {problem}.")


def _in_place(node: JSON) -> Iterator[Any]:
    """The subschemas that apply to the same value."""
    for keyword in _IN_PLACE_ONE:
        if keyword in node:
            yield node[keyword]
    for keyword in _IN_PLACE_LIST:
        yield from node.get(keyword, ())
    yield from node.get("dependentSchemas", {}).values()
