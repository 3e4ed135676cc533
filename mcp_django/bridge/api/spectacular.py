"""What ``extend_schema`` and ``extend_schema_field`` of drf-spectacular declare, where a project has it."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_django.bridge.api import field_schemas
from mcp_django.core.compat.rest_views import declaring_alone
from mcp_django.protocol.types import JSON


@dataclass(frozen=True, slots=True)
class Declared:
    """What is declared of one operation."""

    #: For what it is; empty where nothing is declared.
    what: str
    #: The parameters of its query, as OpenApiParameters or as serializers.
    query: Sequence[Any]
    #: The serializers of what it takes and of what it answers; None where none is declared.
    takes: Any
    returns: Any


def declared(view: Any, handler: str, method: str) -> Declared | None:
    """What is declared of the operation of a made view; None where nothing can be. Raises what the project raises."""
    action = getattr(type(view), handler, None)
    found: Any = getattr(action, "kwargs", {}).get("schema") or getattr(view, "schema", None)
    schema = found() if isinstance(found, type) else found
    if not hasattr(schema, "get_override_parameters"):
        return None
    schema = declaring_alone(schema)
    schema.view, schema.method = view, method
    return Declared(
        schema.get_summary() or schema.get_description() or "",
        schema.get_override_parameters(),
        _serializer(schema.get_request_serializer()),
        _serializer(_of_success(schema.get_response_serializers())),
    )


def _of_success(declared: Any) -> Any:
    """Of answers by their status, or by status and media type, that of the first that is no error."""
    if not isinstance(declared, Mapping):
        return declared
    return next((one for key, one in declared.items() if "200" <= str(_first(key)) < "300"), None)


def _first(key: Any) -> Any:
    return key[0] if isinstance(key, tuple) else key


def _serializer(declared: Any) -> Any:
    """The serializer that is declared: by itself, with examples, or as the first of several media types."""
    from rest_framework.serializers import BaseSerializer

    if isinstance(declared, Mapping):
        declared = next(iter(declared.values()), None)
    for name in ("request", "response"):
        declared = getattr(declared, name, declared)
    if isinstance(declared, type) and issubclass(declared, BaseSerializer):
        return declared()
    return declared if isinstance(declared, BaseSerializer) else None


def declared_field(field: Any) -> JSON | None:
    """The schema that ``extend_schema_field`` declares of a field of a serializer; None where it declares none.

    It is for people and models to read: a call is not checked by it. Raises what the project raises.
    """
    from rest_framework.fields import Field, SerializerMethodField

    drainage = sys.modules.get("drf_spectacular.drainage")
    if drainage is None:
        return None
    of_method = isinstance(field, SerializerMethodField)
    said = drainage.get_override(getattr(field.parent, str(field.method_name), None) if of_method else field, "field")
    if said is None or isinstance(said, dict):
        return said
    made = said() if isinstance(said, type) and issubclass(said, Field) else said
    return field_schemas.of_serializer_field(made, is_given=False) if isinstance(made, Field) else of_type(said)


def of_type(kind: Any) -> JSON:
    """The schema of what may stand for a type in a declaration: a type, a hint, a schema, or one of OpenApiTypes."""
    from drf_spectacular import plumbing

    if isinstance(kind, dict):
        return kind
    schema_of = plumbing.build_basic_type if plumbing.is_basic_type(kind) else plumbing.resolve_type_hint
    found: JSON = schema_of(kind) or {}
    return found
