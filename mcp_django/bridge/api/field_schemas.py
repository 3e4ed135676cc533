"""JSON Schemas of what the fields of Django's forms, and of serializers, take; and their errors by field."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.types import JSON

#: What a key may be.
KEY_TYPES = ("string", "integer")
#: Choices that are listed.
MOST_CHOICES = 20
#: How deep nested serializers are described.
_DEPTH = 3
_MOST_CHARS = 500
_TEXT: JSON = {"type": "string"}
_INTEGER: JSON = {"type": "integer"}
_OBJECT: JSON = {"type": "object", "additionalProperties": True}


def _text(kind: str) -> JSON:
    return {"type": "string", "format": kind}


FILE: JSON = {"type": "string", "format": "binary"}
#: The name of a class of fields, of forms, serializers or models → the schema. A class has that of its nearest parent.
_OF_CLASSES: Mapping[str, JSON] = {
    "AutoField": _INTEGER, "BigIntegerField": _INTEGER, "IntegerField": _INTEGER,
    "BooleanField": {"type": "boolean"}, "NullBooleanField": {"type": "boolean"},
    "CharField": _TEXT, "TextField": _TEXT, "RegexField": _TEXT, "StringRelatedField": _TEXT, "FilePathField": _TEXT,
    "DateField": _text("date"), "DateTimeField": _text("date-time"), "IsoDateTimeField": _text("date-time"),
    "SplitDateTimeField": _text("date-time"), "TimeField": _text("time"), "DurationField": _text("duration"),
    "DecimalField": {"type": ["string", "number"], "format": "decimal"},
    "FloatField": {"type": "number"}, "EmailField": _text("email"),
    "URLField": _text("uri"), "HyperlinkedIdentityField": _text("uri"), "UUIDField": _text("uuid"),
    "SlugField": _text("slug"), "IPAddressField": _text("ip"), "GenericIPAddressField": _text("ip"),
    "FileField": FILE, "ImageField": FILE, "JSONField": {}, "DictField": _OBJECT, "HStoreField": _OBJECT,
    "ForeignKey": _TEXT,
}  # fmt: skip


def of_class(cls: type) -> JSON:
    """The schema by the class of a field alone; empty, which is anything, for one that is not known."""
    return dict(next((_OF_CLASSES[one.__name__] for one in cls.__mro__ if one.__name__ in _OF_CLASSES), {}))


def choices_of(found: Iterable[Any]) -> JSON:
    """One of a few choices; of many, a text, with the first ones as examples."""
    keys = list(islice((key for key in found if key not in ("", None)), MOST_CHOICES + 1))
    texts = [str(key) for key in keys[:MOST_CHOICES]]
    if len(keys) > MOST_CHOICES:
        return {"type": "string", "examples": texts}
    return {"type": "string", "enum": texts} if texts else dict(_TEXT)


# Forms.


def of_form_field(field: Any) -> JSON:
    """What a field of a form takes."""
    from django import forms

    match field:
        case forms.ModelMultipleChoiceField():
            return {"type": "array", "items": _key(field)}
        case forms.ModelChoiceField():
            return _key(field)
        case forms.MultipleChoiceField() | forms.TypedMultipleChoiceField():
            return {"type": "array", "items": choices_of(_flat(field.choices))}
        case forms.NullBooleanField():
            return {"type": "boolean"}
        case forms.ChoiceField():
            return choices_of(_flat(field.choices))
        case forms.MultiValueField(fields=[first, *_]) if not isinstance(field, forms.SplitDateTimeField):
            return of_form_field(first)
        case forms.JSONField():
            return {}
    return of_class(type(field)) or dict(_TEXT)


def _flat(choices: Any) -> Iterator[Any]:
    for key, label in choices:
        if isinstance(label, list | tuple):
            yield from (one for one, _ in label)
        else:
            yield key


def _key(field: Any) -> JSON:
    return relation("key", field)


def relation(to: str, field: Any) -> JSON:
    """What names a row of another model: its key, its URL, or a value of one of its fields."""
    return {"type": list(KEY_TYPES), "title": f"{to} of {model_name(field)}"}


def model_name(field: Any) -> str:
    """The model to which a relation leads, as people call it."""
    model = getattr(getattr(field, "queryset", None), "model", None)
    return str(model._meta.verbose_name) if model is not None else (getattr(field, "source", None) or "record")


def of_form(fields: Mapping[str, Any]) -> JSON:
    """The schema of an object with the fields of a form."""
    properties = {name: _said(of_form_field(one), one) for name, one in fields.items() if not one.disabled}
    required = [name for name in properties if fields[name].required and fields[name].initial in (None, "")]
    return _object(properties, required)


# Serializers.


def of_serializer(serializer: Any, depth: int = 0) -> JSON:
    """The schema of an object that the serializer reads."""
    fields = {name: one for name, one in serializer.fields.items() if _is_given(one)}
    properties = {name: _said(_nullable(of_serializer_field(one, depth), one), one) for name, one in fields.items()}
    return _object(properties, [name for name, one in fields.items() if one.required])


def _nullable(schema: JSON, field: Any) -> JSON:
    return {"anyOf": [schema, {"type": "null"}]} if schema and field.allow_null else schema


def _is_given(field: Any) -> bool:
    from rest_framework.fields import HiddenField

    return not field.read_only and not isinstance(field, HiddenField)


def of_serializer_field(field: Any, depth: int = 0, *, is_given: bool = True) -> JSON:
    """What a field of a serializer takes, or shows. What reads it in a way of the project's own takes anything."""
    from rest_framework import serializers as rest

    if is_given and reads_in_its_own_way(field):
        return {}
    match field:
        case rest.ListSerializer():
            items = of_serializer(field.child, depth + 1) if depth < _DEPTH else dict(_OBJECT)
            return {"type": "array", "items": items}
        case rest.BaseSerializer():
            return of_serializer(field, depth + 1) if depth < _DEPTH else dict(_OBJECT)
        case rest.ManyRelatedField():
            return {"type": "array", "items": of_serializer_field(field.child_relation)}
        case rest.PrimaryKeyRelatedField():
            return _key(field)
        case rest.SlugRelatedField():
            return relation(field.slug_field, field)
        case rest.HyperlinkedIdentityField():
            return _text("uri")
        case rest.HyperlinkedRelatedField():
            return relation("URL", field)
        case rest.MultipleChoiceField():
            return {"type": "array", "items": choices_of(field.choices)}
        case rest.ChoiceField():
            return choices_of(field.choices)
        case rest.ListField():
            return {"type": "array", "items": of_serializer_field(field.child, depth)}
        case rest.ModelField():
            return of_class(type(field.model_field))
    return of_class(type(field))


def reads_in_its_own_way(field: Any) -> bool:
    """Whether a field takes what only the project's own code knows."""
    return not type(field).to_internal_value.__module__.startswith("rest_framework.")


# Both.


def _object(properties: Mapping[str, JSON], required: list[str]) -> JSON:
    more = {"required": required} if required else {}
    return {"type": "object", "properties": dict(properties), **more, "additionalProperties": False}


def _said(schema: JSON, field: Any) -> JSON:
    """The schema with what the author of the field says of it."""
    said = [str(schema.get("description") or ""), str(getattr(field, "help_text", None) or "").strip()[:200]]
    text = " ".join(filter(None, said))
    return {**schema, "description": text} if text else schema


def errors_in(detail: Any, place: str = "") -> Iterator[FieldError]:
    """What is wrong, field by field, as ``lines.0.amount``, from the errors of a form or a serializer."""
    match detail:
        case Mapping():
            for name, one in detail.items():
                at = "" if name in ("non_field_errors", "detail", "__all__") else str(name)
                yield from errors_in(one, ".".join(filter(None, [place, at])))
        case list() | tuple():
            for index, one in enumerate(detail):
                if isinstance(one, Mapping | list | tuple):
                    yield from errors_in(one, ".".join(filter(None, [place, str(index)])))
                elif one is not None:
                    yield field_error(place, str(one)[:_MOST_CHARS])
        case None | bool():
            pass
        case _:
            yield field_error(place, str(detail)[:_MOST_CHARS])
