"""The views of django-ninja: which operations are behind one, what they say of themselves, and whom they let in."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

from asgiref.sync import async_to_sync
from django.http import HttpRequest
from django.http.response import HttpResponseBase

from mcp_django.protocol.types import JSON


def is_ninja_api(value: Any) -> bool:
    """Whether it is a NinjaAPI. Nothing is imported for a project without one.

    Private: the module of its class. Seen with: django-ninja 1.7. Public way: ``isinstance``, which imports it.
    """
    return any(cls.__module__ == "ninja.main" and cls.__name__ == "NinjaAPI" for cls in type(value).__mro__)


def operations_behind(callback: Any) -> Sequence[Any]:
    """The operations of a view of django-ninja, each with ``methods``, ``api`` and ``view_func``; none of another view.

    Private: that the view is a closure over its PathView, and ``PathView.operations``. Seen with: django-ninja 1.7.
    Public way: the OpenAPI document, which has neither the views nor what is left out of it.
    """
    if not getattr(callback, "__module__", "").startswith("ninja.") or not inspect.isfunction(callback):
        return ()
    path_view = inspect.getclosurevars(callback).nonlocals.get("self")
    return getattr(path_view, "operations", ())


def details_of(operation: Any) -> tuple[JSON, Mapping[str, Any]]:
    """The OpenAPI Operation object of an operation, and the schemas to which it refers.

    Private: ``OpenAPISchema.get_paths``, ``operation_details`` and ``get_components``. Seen with: django-ninja 1.7.
    Public way: ``NinjaAPI.get_openapi_schema``, which lacks operations that are not in the document, and prints.
    """
    from ninja.openapi.schema import OpenAPISchema

    class OneOperation(OpenAPISchema):
        def get_paths(self) -> dict[str, Any]:
            return {}

    schema: Any = OneOperation(operation.api, "")
    details: JSON = schema.operation_details(operation)
    return details, schema.get_components().get("schemas", {})


def page_size_of(operation: Any) -> int | None:
    """How many rows a page has where the request does not say; None where that is not known.

    Private: that ``paginate`` wraps the function, with the paginator in its closure. Seen with: django-ninja 1.7.
    Public way: none; an answer tells only how many rows there are.
    """
    function = operation.view_func
    while function is not None:
        paginator = inspect.getclosurevars(function).nonlocals.get("paginator")
        if paginator is not None:
            return getattr(paginator, "page_size", None)
        function = getattr(function, "__wrapped__", None)
    return None


def refused_by_authentication(operation: Any, request: HttpRequest) -> HttpResponseBase | None:
    """What ``auth=`` of the operation answers where it refuses the caller; None where it lets the caller in.

    Private: ``Operation._run_authentication``. Seen with: django-ninja 1.7. Public way: ``run``, as below.
    """
    run = operation._run_authentication
    refusal: HttpResponseBase | None = async_to_sync(run)(request) if inspect.iscoroutinefunction(run) else run(request)
    return refusal


def refused_by(operation: Any, request: HttpRequest, values: Mapping[str, Any]) -> HttpResponseBase | None:
    """What the operation answers where it refuses the caller or what was sent; None where it takes it.

    It is not run, and its throttles do not count. Raises what the project raises and its API does not answer.

    Private: ``Operation._get_values``. Seen with: django-ninja 1.7. Public way: ``run``,
    which also runs the function of the project.
    """
    refusal = refused_by_authentication(operation, request)
    if refusal is not None:
        return refusal
    try:
        operation._get_values(request, dict(values), operation.api.create_temporal_response(request))
    except Exception as error:  # noqa: BLE001 - the API says what it answers to it, or raises it
        answered: HttpResponseBase = operation.api.on_exception(request, error)
        return answered
    return None
