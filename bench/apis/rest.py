"""django-rest-framework-mcp: its decorator on each viewset, without those that it cannot describe."""

from __future__ import annotations

from typing import Any

from django.urls import get_resolver
from django.utils.module_loading import import_string
from djangorestframework_mcp.decorators import mcp_viewset  # type: ignore[import-not-found]
from djangorestframework_mcp.registry import registry  # type: ignore[import-not-found]
from djangorestframework_mcp.schema import generate_tool_schema  # type: ignore[import-not-found]
from djangorestframework_mcp.views import MCPView  # type: ignore[import-not-found]
from rest_framework.viewsets import GenericViewSet

from bench.apis.cases import Asked
from bench.apis.views import views_below

PATH = "/mcp/"
PACKAGE = "django-rest-framework-mcp"
NOTES: list[str] = []
_tools: dict[tuple[Any, Any], str] = {}


class View(MCPView):  # type: ignore[misc]
    """The endpoint, for users that it knows."""

    authentication_classes = [import_string("tests.api.project.authentication.BearerAuthentication")]

    def has_mcp_permission(self, request: Any) -> bool:
        return bool(request.user.is_authenticated)


def prepare() -> None:
    classes = {cls for cls in views_below(get_resolver()) if issubclass(cls, GenericViewSet)}
    for cls in sorted(classes, key=lambda cls: str(cls.__name__)):
        mcp_viewset(basename=cls.__name__.removesuffix("ViewSet").lower())(cls)
    undescribed: dict[str, str] = {}
    for one in registry.get_all_tools():
        try:
            generate_tool_schema(one)
        except Exception as error:  # noqa: BLE001 - whatever it raises, tools/list raises
            undescribed.setdefault(one.viewset_class.__name__, f"{type(error).__name__}: {error}")
    if undescribed:
        why = "; ".join(f"{name} ({each})" for name, each in undescribed.items())
        NOTES.append(f"tools/list is an error with {len(undescribed)} of {len(classes)} viewsets, left out: {why}")
        NOTES.append("an @action would need a decorator of its own and a serializer, and has none here")
    for name, one in list(registry._tools.items()):
        if one.viewset_class.__name__ in undescribed:
            del registry._tools[name]
        else:
            _tools[one.viewset_class, one.action] = name


def tool(one: Asked) -> str | None:
    view: Any = one.match.func
    action = getattr(view, "actions", {}).get(one.case.method.lower())
    return _tools.get((getattr(view, "cls", None), action))


def arguments(one: Asked) -> dict[str, Any]:
    """It has no place for a query, which is sent as those would who guess."""
    return {"kwargs": dict(one.kwargs), "body": one.body() or {}, "query": dict(one.query)}
