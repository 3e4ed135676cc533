"""What a model is, in words and in JSON Schema, as far as the principal may know."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.utils import translation
from django.utils.functional import Promise

from mcp_django.resources.policy import Column, ModelRights

JSON = dict[str, Any]


def describe_column(rights: ModelRights, column: Column) -> JSON:
    """A field for describe_models: its type, what it points to, its choices and the lookups that a filter may use."""
    field = column.field
    described: JSON = {"type": column.kind.name}
    if field.primary_key:
        described["primary_key"] = True
    if column.related is not None:
        described["relation"] = column.related.label
    verbose = str(field.verbose_name)
    if verbose.lower().replace(" ", "_") != field.name:
        described["title"] = verbose
    if field.help_text:
        described["help"] = str(field.help_text)
    if field.null:
        described["null"] = True
    if choices := choices_of(column):
        described["choices"] = choices
    if column.name in rights.filterable:
        described["lookups"] = list(column.kind.lookups)
    return described


def choices_of(column: Column) -> dict[str, str]:
    """The stored value of each choice, and what people read."""
    return {str(value): str(label) for value, label in column.field.flatchoices or ()}


def record_schema(rights: ModelRights) -> JSON:
    """JSON Schema (2020-12) of one record."""
    with translation.override(settings.LANGUAGE_CODE):
        return {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": str(rights.model._meta.verbose_name),
            "type": "object",
            "properties": {name: _property(column) for name, column in rights.columns.items()},
            "required": list(rights.columns),
            "additionalProperties": False,
        }


def _property(column: Column) -> JSON:
    schema = dict(column.kind.schema)
    types = schema.get("type")
    if types is not None and (column.field.null or column.masked):
        schema["type"] = [*([types] if isinstance(types, str) else types), "null"]
    schema["title"] = _text(column.field.verbose_name)
    if column.field.help_text:
        schema["description"] = _text(column.field.help_text)
    if choices := choices_of(column):
        labels = "; ".join(f"{value}: {label}" for value, label in choices.items())
        schema["description"] = " ".join(part for part in (schema.get("description", ""), f"One of {labels}.") if part)
    if column.related is not None:
        schema["description"] = f"Primary key of a {column.related.label}."
    return schema


def _text(value: str | Promise) -> str:
    return str(value)
