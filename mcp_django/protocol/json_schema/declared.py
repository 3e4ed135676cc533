"""Checks the JSON Schemas that a project wrote, when they are declared.

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

from mcp_django.protocol.json_schema.schemas import DIALECT
from mcp_django.protocol.types import JSON

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
