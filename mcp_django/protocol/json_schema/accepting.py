"""A fast check of values, which does without jsonschema: most processes never import it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic_core import CoreSchema, SchemaError, SchemaValidator, core_schema

from mcp_django.protocol.types import JSON

#: Keywords that refuse no value.
_REMARKS = frozenset({"title", "description", "default"})


def accepter_of(schema: JSON) -> Callable[[Any], bool]:
    """A fast check, which accepts most valid values of a plain schema, and no value of other schemas."""
    try:
        return SchemaValidator(_core(schema)).isinstance_python
    except (LookupError, SchemaError):
        return lambda instance: False


def _core(schema: Any) -> CoreSchema:
    """A schema of pydantic that accepts only values that the JSON Schema accepts.

    Raises LookupError for keywords that it does not know, and for a list without ``maxItems``, whose items may be too
    many to validate.
    """
    if not isinstance(schema, dict):
        raise LookupError
    keywords = schema.keys() - _REMARKS
    match schema.get("type"):
        case None if keywords == {"anyOf"}:
            return core_schema.union_schema([_core(item) for item in schema["anyOf"]])
        case "string" if keywords == {"type", "enum"} and all(isinstance(item, str) for item in schema["enum"]):
            return core_schema.literal_schema(schema["enum"])
        case "string" if keywords <= {"type", "maxLength"}:
            return core_schema.str_schema(strict=True, max_length=schema.get("maxLength"))
        case "integer" if keywords <= {"type", "minimum", "maximum"}:
            return core_schema.int_schema(strict=True, ge=schema.get("minimum"), le=schema.get("maximum"))
        case "boolean" if keywords == {"type"}:
            return core_schema.bool_schema(strict=True)
        case "array" if keywords <= {"type", "items", "minItems", "maxItems"}:
            lengths = {"min_length": schema.get("minItems"), "max_length": schema["maxItems"]}
            return core_schema.list_schema(_core(schema["items"]), strict=True, **lengths)
        case "object" if keywords <= {"type", "maxProperties", "additionalProperties"} and (
            schema.get("additionalProperties", True) is True
        ):
            return core_schema.dict_schema(strict=True, max_length=schema.get("maxProperties"))
        case "object" if keywords <= {"type", "properties", "required", "additionalProperties"}:
            required = frozenset(schema.get("required", ()))
            if schema["additionalProperties"] is False and required <= schema["properties"].keys():
                fields = {
                    name: core_schema.typed_dict_field(_core(item), required=name in required)
                    for name, item in schema["properties"].items()
                }
                return core_schema.typed_dict_schema(fields, strict=True, extra_behavior="forbid")
    raise LookupError
