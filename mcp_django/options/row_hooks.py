"""Whether a project restricts the rows of a model, as far as that can be seen without a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.db import models

if TYPE_CHECKING:
    from mcp_django.options.model_mcp import ModelMCP


def hook_of(owner: object, name: str) -> Any:
    """The function behind ``owner.name()``: one that was put on the object itself, or that of its class."""
    return vars(owner).get(name, getattr(type(owner), name))


def row_hook(model_mcp: ModelMCP) -> str:
    """The project's ``get_queryset`` behind the rows, as ``FlightAdmin.get_queryset``; empty where every row is shown.

    Whether it really hides a row depends on the request.
    """
    from mcp_django.options.model_mcp import ModelMCP

    hook = hook_of(model_mcp, "get_queryset")
    if hook is ModelMCP.get_queryset and model_mcp.model_admin is not None:
        hook = hook_of(model_mcp.model_admin, "get_queryset")
    if hook in (ModelMCP.get_queryset, ModelAdmin.get_queryset):
        return ""
    return str(getattr(hook, "__qualname__", "get_queryset"))


def shows_every_row(model_mcp: ModelMCP) -> bool:
    """Whether every row is surely shown: no code of the project, and no model with the same key, can restrict them."""
    key, admin, manager = model_mcp.opts.pk, model_mcp.model_admin, model_mcp.model._default_manager
    return (
        type(manager) is models.Manager
        and hook_of(manager, "get_queryset") is models.Manager.get_queryset
        and not isinstance(key, models.ForeignKey)
        and not row_hook(model_mcp)
        # An order that fails would make the queryset fail.
        and (admin is None or hook_of(admin, "get_ordering") is ModelAdmin.get_ordering)
    )
