"""JSON Schemas of tools: those of pydantic made plain, ready ones checked when they are declared.

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
#: How many subschemas one value may be held against, each reference counted wherever it stands.
_MAX_APPLIED = 1_000

#: Keywords whose subschemas are for the same value as the schema that they stand in.
_IN_PLACE_ONE = ("not", "if", "then", "else")
_IN_PLACE_LIST = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef")


def ready_schema(given: Mapping[str, Any], owner: str) -> JSON:
    """A copy of a schema of arguments that a project wrote. ``owner`` begins the message of ImproperlyConfigured.

    It must be JSON, valid in the dialect 2020-12 and of the type object, and refer to nothing outside of itself:
    neither this server nor a client fetches a schema.
    """
    try:
        text = json.dumps(given, allow_nan=False)
        schema = json.loads(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise ImproperlyConfigured(f"{owner} cannot be written as JSON: {error}") from None
    if len(text) > _MAX_BYTES or _depth(schema) > _MAX_DEPTH:
        raise ImproperlyConfigured(f"{owner} is larger than {_MAX_BYTES} bytes, or nested deeper than {_MAX_DEPTH}.")
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ImproperlyConfigured(f'{owner} must have "type": "object" at its root, as arguments are an object.')
    _Checker(owner).check(schema)
    return schema


def subschemas(schema: Any) -> Iterator[JSON]:
    """The schema and every schema within it, without those that only a reference leads to."""
    pending = [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield node
            pending.extend(DRAFT202012.subresources_of(node))


#: Keywords that hold schemas by names of the project's.
_BY_NAME = frozenset({"properties", "patternProperties", "dependentSchemas"})
#: Keywords that hold values, in which nothing is a keyword.
_VALUES = frozenset({"const", "default", "enum", "examples"})


def flat(schema: JSON) -> JSON:
    """A schema that pydantic made, with its ``$ref``s written out, since old clients know no ``$defs``.

    Titles, which only repeat the names, are left out. Raises ImproperlyConfigured for a type that contains itself.
    """
    definitions = schema.get("$defs", {})

    def expand(node: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(node, list):
            return [expand(item, inside) for item in node]
        if not isinstance(node, dict):
            return node
        name = str(node.get("$ref", "")).removeprefix("#/$defs/")
        if "$ref" in node and name not in definitions:
            raise ImproperlyConfigured(f"A type of a tool refers to {name!r}, and nothing is ever fetched.")
        if name in inside:
            raise ImproperlyConfigured(f"The type {name} of a tool refers to itself, which no old client understands.")
        expanded = expand(definitions[name], (*inside, name)) if name in definitions else {}
        for keyword, value in node.items():
            if keyword in _BY_NAME:
                expanded[keyword] = {name: expand(item, inside) for name, item in value.items()}
            elif keyword not in ("title", "$ref", "$defs"):
                expanded[keyword] = value if keyword in _VALUES else expand(value, inside)
        return expanded

    flattened: JSON = expand(schema, ())
    return flattened


def under_result(schema: JSON) -> JSON:
    """The schema of an object that has the value as its one property."""
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
    """Goes through a schema and whatever it refers to, each part once."""

    def __init__(self, owner: str) -> None:
        self._owner = owner
        self._pending: list[tuple[Any, Any]] = []
        #: Of each schema by identity: how many schemas a value meets in it. None while that is being found out.
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

    def _check_valid(self, schema: Any) -> None:
        try:
            Draft202012Validator.check_schema(schema)
        except SchemaError as error:
            raise self._refused(f"is not a valid JSON Schema: {error.json_path}: {error.message[:300]}") from None
        for node in subschemas(schema):
            if node.get("$schema", DIALECT).rstrip("#") != DIALECT:
                raise self._refused(f"is written for {node['$schema']}; only {DIALECT} is served")

    def _count(self, node: Any, resolver: Any, depth: int) -> int:
        """How many schemas a value meets that is held against this one, and what it refers to for the same value."""
        if not isinstance(node, dict):
            return 1
        known = self._applied.get(id(node), 0)
        if known is None:
            raise self._refused("refers to itself for one and the same value, which never ends")
        if known:
            return known
        if depth > _MAX_DEPTH:
            raise self._refused(f"refers on and on, deeper than {_MAX_DEPTH}")
        self._applied[id(node)] = None
        resolver = resolver.in_subresource(DRAFT202012.create_resource(node))
        applied = 1 + sum(self._count(child, resolver, depth + 1) for child in _in_place(node))
        for keyword in _REFERENCES:
            if keyword in node:
                found = self._lookup(node[keyword], resolver)
                applied += self._count(found.contents, found.resolver, depth + 1)
        if applied > _MAX_APPLIED:
            raise self._refused(f"holds one value against more than {_MAX_APPLIED} schemas")
        self._applied[id(node)] = applied
        return applied

    def _lookup(self, reference: str, resolver: Any) -> Any:
        try:
            found = resolver.lookup(reference)
        except (Unresolvable, ValueError, TypeError):
            # The last two: what is no URI at all, and a pointer through what is no object.
            raise self._refused(
                f"refers to {reference!r}, which is not in it. Nothing is fetched: put it under $defs"
            ) from None
        if id(found.contents) not in self._applied:
            # A pointer may lead to where no schema was looked for.
            self._check_valid(found.contents)
            self._pending.append((found.contents, found.resolver))
        return found

    def _refused(self, problem: str) -> ImproperlyConfigured:
        return ImproperlyConfigured(f"{self._owner} {problem}.")


def _in_place(node: JSON) -> Iterator[Any]:
    """The subschemas that are for the same value."""
    for keyword in _IN_PLACE_ONE:
        if keyword in node:
            yield node[keyword]
    for keyword in _IN_PLACE_LIST:
        yield from node.get(keyword, ())
    yield from node.get("dependentSchemas", {}).values()
