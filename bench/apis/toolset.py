"""django-mcp-server: its functions on each view with the mixin that they need."""

from __future__ import annotations

from typing import Any

from django.urls import get_resolver
from rest_framework import mixins
from rest_framework.viewsets import ViewSetMixin

from bench.apis.cases import Asked
from bench.apis.views import views_below

PATH = "/mcp"
PACKAGE = "django-mcp-server"
NOTES: list[str] = []
_MIXINS: tuple[tuple[str, str, type], ...] = (
    ("GET", "list", mixins.ListModelMixin),
    ("POST", "create", mixins.CreateModelMixin),
    ("PUT", "update", mixins.UpdateModelMixin),
    ("DELETE", "destroy", mixins.DestroyModelMixin),
)
_tools: dict[tuple[Any, str], str] = {}


def prepare() -> None:
    import mcp_server  # type: ignore[import-not-found]
    from mcp_server.djangomcp import init  # type: ignore[import-not-found]

    refused: list[str] = []
    for cls in dict.fromkeys(views_below(get_resolver())):
        for method, action, mixin in _MIXINS:
            if not issubclass(cls, mixin):
                continue
            name = f"{cls.__name__}_{action}"
            options: dict[str, Any] = {"name": name, "instructions": name}
            if issubclass(cls, ViewSetMixin):
                options["actions"] = {method.lower(): action}
            try:
                getattr(mcp_server, f"drf_publish_{action}_mcp_tool")(cls, **options)
            except Exception as error:  # noqa: BLE001 - the table says how many
                refused.append(f"{name}: {type(error).__name__}: {error}")
            else:
                _tools[cls, method] = name
    if refused:
        NOTES.append(f"{len(refused)} views are refused, as {refused[0]}")
    init()


def tool(one: Asked) -> str | None:
    view: Any = one.match.func
    method = one.case.method
    action = next((action for verb, action, _ in _MIXINS if verb == method), "")
    if getattr(view, "actions", {}).get(method.lower(), action) != action:
        return None
    return _tools.get((getattr(view, "cls", None), method))


def arguments(one: Asked) -> dict[str, Any]:
    """A list has no arguments, and the others have ``id`` and ``body``; a query is sent as those would who guess."""
    keys = list(one.kwargs.values())
    return {**({"id": keys[-1]} if keys else {}), **one.query, **({} if one.is_safe else {"body": one.body() or {}})}
