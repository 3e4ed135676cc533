"""What a field of a serializer or a filter takes or gives, in a few words: ``integer``, ``open | paid``."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, get_args, get_type_hints

from mcp_django.bridge.api import field_schemas
from mcp_django.bridge.api.spectacular import declared_field
from mcp_django.bridge.api.views import asked
from mcp_django.bridge.declared.secrets import is_secret_name

#: The title of a schema of ours for what names a row.
_RELATION = re.compile(r"(URL|[a-z_]+) of ")
#: What some formats are called.
_FORMATS = {"binary": "file", "uri": "URL", "ip": "IP address"}
#: How deep nested serializers are described.
_DEPTH = 3
ANY = "any"

_OF_TYPES: Mapping[Any, str] = {
    bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "list",
}  # fmt: skip
#: Converters of paths.
OF_CONVERTERS: Mapping[str, str] = {
    "IntConverter": "integer", "UUIDConverter": "uuid", "SlugConverter": "slug", "PathConverter": "path",
}  # fmt: skip


def of_field(field: Any, *, is_given: bool, depth: int = 0) -> Any:
    """What a serializer's field shows, or takes where it ``is_given``: a text, or a dict of a nested serializer."""
    from rest_framework import serializers as rest

    if (declared := asked(str(field.field_name), lambda: declared_field(field))) is not None:
        return of_schema(declared)
    match field:
        case rest.ListSerializer():
            return [of_serializer(field.child, is_given=is_given, depth=depth + 1)] if depth < _DEPTH else ["object"]
        case rest.BaseSerializer() if not (is_given and field_schemas.reads_in_its_own_way(field)):
            return of_serializer(field, is_given=is_given, depth=depth + 1) if depth < _DEPTH else "object"
        case rest.ListField():
            inner = of_field(field.child, is_given=is_given, depth=depth)
            return [inner] if isinstance(inner, dict) else f"list of {inner}"
        case rest.SerializerMethodField():
            return _of_hint(getattr(field.parent, str(field.method_name), None))
        case rest.ReadOnlyField():
            return _of_read_only(field)
        case rest.ManyRelatedField() if not is_given and field_schemas.reads_in_its_own_way(field.child_relation):
            return "list"
    return of_schema(field_schemas.of_serializer_field(field, is_given=is_given))


def choices_of(found: Iterable[Any]) -> str:
    """``open | paid | cancelled``; more than twenty are cut."""
    schema = field_schemas.choices_of(found)
    return str(of_schema(schema)) if len(schema) > 1 else ""


def of_type(cls: type) -> str:
    """What values of a type are called."""
    return _OF_TYPES.get(cls, cls.__name__)


def _of_hint(function: Callable[..., Any] | None) -> str:
    try:
        hint = get_type_hints(function).get("return") if function is not None else None
    except Exception:  # noqa: BLE001 - an annotation may name what is not there
        return ANY
    return _OF_TYPES.get(hint) or next((_OF_TYPES[one] for one in get_args(hint) if one in _OF_TYPES), ANY)


def _of_read_only(field: Any) -> str:
    model = getattr(getattr(field.parent, "Meta", None), "model", None)
    found: Any = inspect.getattr_static(model, field.source or "", None) if model is not None else None
    column = getattr(found, "field", None)
    if column is not None:
        return str(of_schema(field_schemas.of_class(type(column))))
    return _of_hint(getattr(found, "fget", found)) if found is not None else ANY


def of_serializer(serializer: Any, *, is_given: bool, depth: int = 0, shown: Collection[str] = ()) -> Any:
    """Name → what its field shows, or takes. Of fields that are named like secrets, there are only those ``shown``."""
    fields = getattr(serializer, "fields", None)
    if fields is None:
        return "object"
    return {
        name: described(one, of_field(one, is_given=is_given, depth=depth), is_given=is_given)
        for name, one in fields.items()
        if _takes_part(one, is_given=is_given) and (name in shown or not is_secret_name(name))
    }


def _takes_part(field: Any, *, is_given: bool) -> bool:
    from rest_framework.fields import HiddenField

    if isinstance(field, HiddenField):
        return False
    return not field.read_only if is_given else not field.write_only


def described(field: Any, words: Any, *, is_given: bool) -> Any:
    """The words, whether it must be given, and what its author says of it."""
    if not is_given or not isinstance(words, str):
        return words
    said = [words]
    if field.allow_null:
        said.append("or null")
    if field.required:
        said.append("required")
    if help_text := str(getattr(field, "help_text", None) or "").strip():
        said.append(help_text[:200])
    return ", ".join(said)


def of_form_field(field: Any) -> Any:
    """What a field of a form takes."""
    return of_schema(field_schemas.of_form_field(field))


def of_schema(schema: Any, definitions: Mapping[str, Any] = MappingProxyType({}), depth: int = 0) -> Any:
    """What a JSON Schema says, in these words: one of ours, or of OpenAPI."""
    if not isinstance(schema, dict) or depth > _DEPTH + 1:
        return ANY
    if "$ref" in schema:
        return of_schema(definitions.get(schema["$ref"].rpartition("/")[2]), definitions, depth + 1)
    if _RELATION.match(title := str(schema.get("title", ""))):
        return title
    if "enum" in schema:
        return " | ".join(str(one) for one in schema["enum"] if one is not None)
    if schema.get("type") == "string" and len(schema.get("examples", ())) == field_schemas.MOST_CHOICES:
        return f"{' | '.join(map(str, schema['examples']))} | …"
    for key in ("anyOf", "oneOf", "allOf"):
        if key in schema:
            options = [of_schema(one, definitions, depth + 1) for one in schema[key] if one != {"type": "null"}]
            texts = [one for one in options if isinstance(one, str)]
            return options[0] if len(options) == 1 else " or ".join(dict.fromkeys(texts)) or ANY
    match schema.get("type"):
        case "object":
            properties = schema.get("properties")
            if not properties:
                return "object"
            return {name: of_schema(one, definitions, depth + 1) for name, one in properties.items()}
        case "array":
            inner = of_schema(schema.get("items"), definitions, depth + 1)
            return [inner] if isinstance(inner, dict) else f"list of {inner}"
        case str(kind) | [str(kind), *_]:
            known = schema.get("format", "")
            return _FORMATS.get(known, known or kind)
    return ANY
