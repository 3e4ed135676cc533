"""Descriptions of models, in words and in JSON Schema, with no more than the principal may know."""

from __future__ import annotations

from collections.abc import Mapping

from django.conf import settings
from django.utils import timezone, translation
from django.utils.functional import Promise

from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.choices import choices_of
from mcp_django.bridge.resources.fields.columns import MAX_RELATED, Column, Computed, RelatedRows
from mcp_django.bridge.resources.fields.date_parts import WEEK_DAYS
from mcp_django.bridge.resources.fields.indexes import is_indexed
from mcp_django.bridge.resources.fields.kinds import DATETIME, PART_COMPARISONS, PARTS
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.list_filters import list_filters
from mcp_django.bridge.resources.reading.selection import record_outputs
from mcp_django.core.hooks import call_hook
from mcp_django.protocol.json_schema.schemas import DIALECT
from mcp_django.protocol.names import title_of
from mcp_django.protocol.types import JSON

#: More choices than these are not listed: nobody reads all time zones each time that a model is described.
_MAX_CHOICES = 100


def describe_model(rights: ModelRights) -> JSON:
    """A model for describe_models: its fields, and those that filters, orders and searches may use."""
    opts = rights.model._meta
    described: JSON = {
        "model": rights.label,
        "title": str(opts.verbose_name),
        "uri": uris.collection_uri(rights.model),
    }
    if description := rights.description:
        described["description"] = description
    described["fields"] = {name: describe_column(rights, column) for name, column in rights.columns.items()}
    if any(column.kind is DATETIME for column in rights.columns.values()):
        described["time_zone"] = f"Date-times are in {timezone.get_current_timezone_name()}."
    if rights.computed:
        described["computed"] = {name: _computed(computed) for name, computed in rights.computed.items()}
    if record := record_fields(rights):
        # The values that get_record gives, instead of the fields.
        described["record"] = record
    if rights.relations:
        described["relations"] = {name: relation.related.label for name, relation in rights.relations.items()}
        if own := {name: relation for name, relation in rights.relations.items() if not relation.related.is_listed}:
            # Nothing else describes them.
            described["relation_fields"] = {name: list(relation.related.columns) for name, relation in own.items()}
        example = next(iter(rights.relations))
        described["relations_help"] = (
            f'Many rows each. In filter: {{"{example}": {{..}}}} for one that meets a filter, {example}__count__gte, '
            f"{example}__isnull; in fields: {example} for keys, {example}__count, or several of their fields; "
            f"in order_by: -{example}__count."
        )
        counted = (name for name, one in rights.relations.items() if one.related.own_column("count") is not None)
        if name := next(counted, ""):
            described["relations_help"] += f' A field count is {{"{name}": {{"count": ..}}}}.'
    if columns := list(rights.filterable.values()):
        # Once for each type, since fields are many and types are few.
        described["lookups"] = {
            column.kind.name: list(column.kind.lookups) for column in columns if not column.kind.converted
        }
        parts = (lookup for column in columns for lookup in column.kind.lookups if lookup in PARTS - {"len"})
        if part := next(parts, None):
            described["lookups_help"] = f"A part takes {', '.join(PART_COMPARISONS)} in turn, as {part}__in."
    if any("week_day" in lookups for lookups in described.get("lookups", {}).values()):
        described["week_days"] = WEEK_DAYS
    if paths := [path for path in sorted(rights.filter_names or ()) if "__" in path and rights.knows(path)]:
        described["filter_paths"] = paths
    if filters := list_filters(rights):
        described["list_filters"] = {
            name: {"title": one.title, "choices": one.choices} for name, one in filters.items()
        }
    described["indexed"] = [name for name in rights.orderable if is_indexed(rights.model, [name])]
    if rights.admin_search is not None:
        described["search"] = "by the admin's own search"
    elif rights.searchable:
        described["search_fields"] = [field.name for field in rights.searchable]
    return described


def _computed(computed: Computed) -> JSON:
    """A computed value: it can be read, and used in an order if it names a field for that."""
    return {"title": computed.title, **({"order_by": computed.order.name} if computed.order is not None else {})}


def describe_column(rights: ModelRights, column: Column) -> JSON:
    """A field for describe_models: its type, the model that it points to and its choices."""
    field = column.field
    described: JSON = {"type": column.kind.name}
    if field.primary_key:
        described["primary_key"] = True
    if column.related is not None and column.related.is_listed:
        described["relation"] = column.related.label
    described |= title_of(field.name, str(field.verbose_name))
    if field.help_text:
        described["help"] = str(field.help_text)
    if field.null:
        described["null"] = True
    if choices := _listed_choices(column):
        described["choices"] = choices
    if column.name not in rights.filterable:
        described["filter"] = False
    elif column.kind.converted:
        # Fewer than other fields of the type have.
        described["lookups"] = list(column.kind.lookups)
    return described


def _listed_choices(column: Column) -> dict[str, str]:
    """The choices of a column, unless they are too many."""
    choices = choices_of(column)
    return choices if len(choices) <= _MAX_CHOICES else {}


def record_fields(rights: ModelRights) -> list[str]:
    """Names of the fields of a record that a serializer writes. Empty if the serializer fails, which is logged."""
    if rights.serializer_class is None:
        return []
    nothing: JSON = {}
    schema = call_hook(lambda: record_schema(rights), nothing, _serializer_name(rights))
    return list(schema.get("properties", ()))


def _serializer_name(rights: ModelRights) -> str:
    """The model and its serializer, as the log names them."""
    cls = rights.serializer_class
    return f"{rights.model_mcp}: {getattr(cls, '__name__', repr(cls))}"


def refused_sources(rights: ModelRights) -> Mapping[str, str]:
    """The fields of a record's serializer that read what no serializer may, each with the reason. Empty if it fails."""
    if rights.serializer_class is None:
        return {}
    from mcp_django.bridge.resources.reading.serializers import RecordSerializer  # As in ``rows``: few need it.

    nothing: Mapping[str, str] = {}
    return call_hook(lambda: RecordSerializer(rights).refused, nothing, _serializer_name(rights))


def record_schema(rights: ModelRights) -> JSON:
    """JSON Schema (2020-12) of one record. Raises what a serializer of the project's raises."""
    if rights.serializer_class is not None:
        from mcp_django.bridge.resources.reading import serializer_schemas  # As in ``rows``: few need it.

        return serializer_schemas.record_schema(rights)
    with translation.override(settings.LANGUAGE_CODE):
        return {
            "$schema": DIALECT,
            "title": str(rights.model._meta.verbose_name),
            "type": "object",
            "properties": {output.name: _property(output) for output in record_outputs(rights)},
            "required": [output.name for output in record_outputs(rights)],
            # Hooks of the project may show more of some rows.
            "additionalProperties": rights.shows_by_object,
        }


def _property(column: Column | RelatedRows) -> JSON:
    schema = dict(column.kind.schema)
    if isinstance(column, RelatedRows):
        label, title = column.relation.related.label, title_of(column.name, _text(column.relation.field.verbose_name))
        return {**schema, **title, "description": f"Primary keys of {label}, at most {MAX_RELATED}."}
    types = schema.get("type")
    nullable = column.field.null or column.masked or column.kind.converted
    if types is not None and nullable and "null" not in types:
        schema["type"] = [*([types] if isinstance(types, str) else types), "null"]
    schema |= title_of(column.name, _text(column.field.verbose_name))
    if column.field.help_text:
        schema["description"] = _text(column.field.help_text)
    if choices := _listed_choices(column):
        labels = "; ".join(f"{value}: {label}" for value, label in choices.items())
        schema["description"] = " ".join(part for part in (schema.get("description", ""), f"One of {labels}.") if part)
    if column.related is not None:
        schema["description"] = f"Primary key of a {column.related.label}."
    return schema


def _text(value: str | Promise) -> str:
    return str(value)
