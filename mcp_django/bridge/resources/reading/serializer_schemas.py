"""The JSON Schema of a record that a DRF serializer writes, as far as its fields show it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_type_hints

from django.conf import settings
from django.utils import translation
from pydantic import TypeAdapter
from rest_framework import fields as drf
from rest_framework import relations, serializers
from rest_framework.settings import api_settings

from mcp_django.bridge.resources.fields import kinds
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.serializers import Field, RecordSerializer, is_own
from mcp_django.bridge.resources.reading.sources import Lead
from mcp_django.protocol.json_schema.declared import subschemas
from mcp_django.protocol.json_schema.schemas import DIALECT, flat
from mcp_django.protocol.names import title_of
from mcp_django.protocol.types import JSON

_TEXT: JSON = {"type": "string"}
_LINK: JSON = {"type": "string", "format": "uri"}


def record_schema(rights: ModelRights) -> JSON:
    """JSON Schema (2020-12) of one record, with what the principal may read. Raises what the serializer raises."""
    with translation.override(settings.LANGUAGE_CODE):
        record = RecordSerializer(rights)
        title = str(rights.model._meta.verbose_name)
        return {"$schema": DIALECT, "title": title, **_Writer(record).object(record.serializer)}


class _Writer:
    def __init__(self, record: RecordSerializer) -> None:
        self.leads = record.leads

    def object(self, serializer: serializers.Serializer[Any]) -> JSON:
        schema: JSON = {
            "type": "object",
            "properties": {name: self._property(field) for name, field in serializer.fields.items()},
        }
        if not is_own(serializer, "to_representation"):
            # A value that is known only at run time may be missing from the row, and DRF then leaves it out.
            schema["required"] = [name for name, field in serializer.fields.items() if self._is_given(field)]
            schema["additionalProperties"] = False
        return schema

    def _is_given(self, field: Field) -> bool:
        return self.leads[field].known and not is_own(field, "get_attribute")

    def _property(self, field: Field) -> JSON:
        lead = self.leads[field]
        schema = self._typed(field, lead)
        if lead.nullable or field.allow_null or not self._is_given(field):
            schema = _or_null(schema)
        schema |= title_of(field.field_name or "", str(field.label or ""))
        described = [str(field.help_text)] if field.help_text else []
        if choices := getattr(field, "choices", None) if isinstance(field, drf.ChoiceField) else None:
            described.append(f"One of {'; '.join(f'{value}: {label}' for value, label in choices.items())}.")
        if isinstance(field, relations.PrimaryKeyRelatedField) and lead.rights is not None:
            described.append(f"Primary key of a {lead.rights.label}.")
        if described:
            schema["description"] = " ".join(described)
        return schema

    def _typed(self, field: Any, lead: Lead) -> JSON:
        if isinstance(field, serializers.Serializer):
            return self.object(field)
        if is_own(field, "to_representation"):
            return hinted(type(field).to_representation)
        if isinstance(field, serializers.ListSerializer | drf.ListField):
            items = self._typed(field.child, lead)
            return {"type": "array", "items": _or_null(items) if getattr(field.child, "allow_null", False) else items}
        if isinstance(field, relations.ManyRelatedField):
            return {"type": "array", "items": self._typed(field.child_relation, lead)}
        if isinstance(field, drf.DictField):
            return {"type": "object", "additionalProperties": self._typed(field.child, lead)}
        return _of_class(field, lead)


def _of_class(field: Any, lead: Lead) -> JSON:
    return next((_TYPES[cls](field, lead) for cls in type(field).__mro__ if cls in _TYPES), {})


def hinted(function: Any) -> JSON:
    """The schema of a function's return annotation; without a usable one, a schema that allows everything."""
    try:
        schema = flat(TypeAdapter(get_type_hints(function).get("return", Any)).json_schema(mode="serialization"))
    except Exception:  # noqa: BLE001 - an annotation may be anything, and need be no type that JSON has
        return {}
    for node in subschemas(schema):
        if node.get("type") == "integer":
            node.update(kinds.INTEGER.schema)  # As every integer it is a string beyond what JavaScript can hold.
    return schema


def _or_null(schema: JSON) -> JSON:
    types = schema.get("type")
    if types is not None:
        listed = [types] if isinstance(types, str) else list(types)
        schema = {**schema, "type": listed if "null" in listed else [*listed, "null"]}
        return {**schema, "enum": [*schema["enum"], None]} if "enum" in schema else schema
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema


def _method(field: Any, lead: Lead) -> JSON:
    return hinted(getattr(type(field.parent), field.method_name, None))


def _read_only(field: Any, lead: Lead) -> JSON:
    """Of a field that writes what it finds: a column, a property or a method of the model."""
    column = lead.column
    if column is not None and lead.rights is None and not column.kind.linked:
        is_value = field.source_attrs[-1] in ("pk", column.field.name, column.attname)
        return dict(column.kind.schema) if is_value else dict(_TEXT)
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    found = getattr(model, field.source, None)
    return hinted(getattr(found, "fget", None) or getattr(found, "func", found)) if found is not None else {}


def _model_field(field: Any, lead: Lead) -> JSON:
    linked = lead.column is not None and lead.column.kind.linked
    return {"type": ["string", "null"], "format": "uri"} if linked else {}


def _choice(field: Any, lead: Lead) -> JSON:
    """The type of the choices. What is stored need not be one of them, and is given as it is."""
    names = {bool: "boolean", int: "integer", str: "string"}
    types = {names.get(type(value), "") for value in field.choices}
    return {"type": sorted(types)[0]} if len(types) == 1 and "" not in types else {}


def _key(field: Any, lead: Lead) -> JSON:
    if field.pk_field is not None:
        return _of_class(field.pk_field, lead)
    return {} if lead.rights is None else dict(lead.rights.primary_key.kind.schema)


def _slug(field: Any, lead: Lead) -> JSON:
    column = None if lead.rights is None else lead.rights.column(field.slug_field)
    if column is None:
        return {}
    return _or_null(dict(column.kind.schema)) if column.nullable else dict(column.kind.schema)


def _uuid(field: Any, lead: Lead) -> JSON:
    if field.uuid_format == "int":
        return dict(kinds.INTEGER.schema)
    return {**_TEXT, "format": "uuid"} if field.uuid_format == "hex_verbose" else dict(_TEXT)


def _moment(kind: kinds.Kind, setting: str) -> Callable[[Any, Lead], JSON]:
    """The schema of a date or a time: of ISO 8601, unless the project sets another format."""

    def schema(field: Any, lead: Lead) -> JSON:
        # A setting that Django REST framework does not have yet names no format.
        given = getattr(field, "format", getattr(api_settings, setting, None))
        is_ours = given is None or (isinstance(given, str) and given.lower() == "iso-8601")
        return dict(kind.schema) if is_ours else dict(_TEXT)

    return schema


def _file(field: Any, lead: Lead) -> JSON:
    is_link = getattr(field, "use_url", api_settings.UPLOADED_FILES_USE_URL)
    return {"type": ["string", "null"], **({"format": "uri"} if is_link else {})}


def _always(schema: Mapping[str, Any]) -> Callable[[Any, Lead], JSON]:
    return lambda field, lead: dict(schema)


#: Schemas by class of field. A subclass has that of its nearest base class.
_TYPES: Mapping[type, Callable[[Any, Lead], JSON]] = {
    drf.BooleanField: _always(kinds.BOOLEAN.schema),
    drf.CharField: _always(_TEXT),
    drf.UUIDField: _uuid,
    drf.IntegerField: _always(kinds.INTEGER.schema),
    drf.FloatField: _always(kinds.NUMBER.schema),
    drf.DecimalField: _always(kinds.DECIMAL.schema),
    drf.DateTimeField: _moment(kinds.DATETIME, "DATETIME_FORMAT"),
    drf.DateField: _moment(kinds.DATE, "DATE_FORMAT"),
    drf.TimeField: _moment(kinds.TIME, "TIME_FORMAT"),
    drf.DurationField: _moment(kinds.DURATION, "DURATION_FORMAT"),
    drf.MultipleChoiceField: lambda field, lead: {"type": "array", "items": _choice(field, lead)},
    drf.FilePathField: _always(_TEXT),
    drf.ChoiceField: _choice,
    drf.FileField: _file,
    drf.JSONField: lambda field, lead: dict(_TEXT) if field.binary else {},
    drf.ReadOnlyField: _read_only,
    drf.SerializerMethodField: _method,
    drf.ModelField: _model_field,
    relations.StringRelatedField: _always(_TEXT),
    relations.PrimaryKeyRelatedField: _key,
    relations.SlugRelatedField: _slug,
    relations.HyperlinkedRelatedField: _always(_LINK),
}
