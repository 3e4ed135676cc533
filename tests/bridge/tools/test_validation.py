"""Schemas that are told at once from what meets them: nothing is let through that they refuse."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_django import site
from mcp_django.protocol.json_schema.accepting import accepter_of
from mcp_django.protocol.json_schema.schema import Schema
from mcp_django.protocol.json_schema.validation import find_errors, validator_of
from tests.support.examples import examples

JSON = dict[str, Any]

_NAMES: JSON = {"type": "array", "items": {"type": "string", "maxLength": 3}, "minItems": 1, "maxItems": 2}
_OBJECT: JSON = {
    "type": "object",
    "properties": {"a": {"type": "string", "description": "A."}, "b": _NAMES},
    "required": ["a"],
    "additionalProperties": False,
}
#: Each with a value that meets it.
_PLAIN: list[tuple[JSON, Any]] = [
    ({"type": "string"}, "x"),
    ({"type": "string", "maxLength": 3}, "äöü"),
    ({"type": "string", "enum": ["a", "b"], "default": "a"}, "b"),
    ({"type": "integer", "minimum": 1, "maximum": 5}, 5),
    ({"type": "boolean"}, True),
    ({"type": "object"}, {"a": [1]}),
    ({"type": "object", "maxProperties": 1}, {"a": 1}),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, 3),
    (_NAMES, ["a", "b"]),
    (_OBJECT, {"a": "x", "b": ["y"]}),
]
#: Each says more than is known, or less than it must, and has a value that meets it.
_OTHERS: list[tuple[Any, Any]] = [
    ({"type": "string", "pattern": "a"}, "a"),
    ({"type": "string", "minLength": 1}, "a"),
    ({"type": "string", "enum": ["a", 1]}, "a"),
    ({"type": ["string", "null"]}, None),
    ({"type": "integer", "multipleOf": 2}, 4),
    ({"type": "integer", "minimum": 1.5}, 2),
    ({"type": "number"}, 1.5),
    ({"type": "array", "items": {"type": "string"}}, ["a"]),
    ({"type": "array", "maxItems": 3}, ["a"]),
    ({"type": "array", "items": True, "maxItems": 3}, ["a"]),
    ({"type": "array", "items": {"type": "string"}, "maxItems": 3, "uniqueItems": True}, ["a"]),
    ({"type": "object", "properties": {"a": {"type": "string"}}}, {"a": "b"}),
    ({"type": "object", "properties": {}, "additionalProperties": {"type": "string"}}, {"a": "b"}),
    ({"$ref": "#/$defs/A", "$defs": {"A": {"type": "string"}}}, "a"),
    ({"type": "string", "not": {"const": "a"}}, "b"),
    (True, "a"),
]
_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 7)
    | st.floats(0, 6)
    | st.sampled_from(["", "a", "b", "abcd", "\ud800"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=5,
)


def test_what_meets_a_plain_schema_is_accepted_at_once_and_of_another_nothing() -> None:
    assert [schema for schema, value in _PLAIN if not accepter_of(schema)(value)] == []
    assert [schema for schema, value in _OTHERS if accepter_of(schema)(value)] == []
    assert [schema for schema, value in _OTHERS if find_errors(validator_of(schema), value, 1)] == []


@given(schema=st.sampled_from([schema for schema, _ in _PLAIN]), value=_VALUES)
@settings(max_examples=examples(1_000))
def test_nothing_is_accepted_at_once_that_the_schema_refuses(schema: JSON, value: Any) -> None:
    if accepter_of(schema)(value):
        assert find_errors(validator_of(schema), value, 1) == []


def test_numbers_are_left_to_the_schema_where_json_has_more_than_one_way_to_say_them() -> None:
    schema: JSON = {"type": "integer"}

    assert [accepter_of(schema)(value) for value in (True, 1.0, "1")] == [False] * 3
    assert [Schema(schema).errors(value) == [] for value in (True, 1.0, "1")] == [False, True, False]
    # Nor is anything let through where a name is required and not allowed.
    assert not accepter_of({"type": "object", "properties": {}, "required": ["a"], "additionalProperties": False})({})


def test_the_arguments_of_the_query_tools_are_accepted_at_once() -> None:
    for name in ("find_records", "get_record", "aggregate_records"):
        tool: Any = site.tools[name]
        arguments = {"model": "flights.flight", **({"id": "1"} if name == "get_record" else {})}
        assert tool._input._accepts(arguments)
        assert not tool._input._accepts({**arguments, "other": 1})
