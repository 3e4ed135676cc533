"""The version of the API that a project has chosen by ``version=``: where it stands in a request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_django.bridge.api.operations import Operation

JSON_TYPE = "application/json"


def _versioning(operation: Operation) -> Any:
    return operation.option("versioning_class") if operation.is_rest else None


def _is_versioned_by(operation: Operation, name: str) -> bool:
    from rest_framework import versioning

    found = _versioning(operation)
    return isinstance(found, type) and issubclass(found, getattr(versioning, name))


def fixed_path(operation: Operation) -> Mapping[str, str]:
    """The variables of the path that the project has chosen."""
    version = operation.exposure.version
    if not version or not _is_versioned_by(operation, "URLPathVersioning"):
        return {}
    name = _versioning(operation).version_param
    return {name: version} if name in operation.route.names else {}


def asked_for(operation: Operation) -> Sequence[str]:
    """The variables of the path that an agent gives."""
    fixed = fixed_path(operation)
    return [name for name in operation.route.names if name not in fixed]


def fixed_query(operation: Operation) -> Mapping[str, str]:
    """What the query has for it."""
    version = operation.exposure.version
    if not version or not _is_versioned_by(operation, "QueryParameterVersioning"):
        return {}
    return {_versioning(operation).version_param: version}


def accepted(operation: Operation) -> str:
    """JSON where the view has it, and otherwise what it has."""
    version = operation.exposure.version
    if version and _is_versioned_by(operation, "AcceptHeaderVersioning"):
        named = f"; {_versioning(operation).version_param}={version}"
        return f"{JSON_TYPE}{named}, */*{named}; q=0.1"
    return f"{JSON_TYPE}, */*; q=0.1"
