"""Puts our pages into the Django admin, which imports this module where it is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin

from mcp_django.console.admin import MODEL_ADMINS, register
from mcp_django.console.admin.later import imported

if TYPE_CHECKING:
    from mcp_django.console.admin.activity import CallAdmin
    from mcp_django.console.admin.changes import ChangeAdmin
    from mcp_django.console.admin.prompts import PromptAdmin
    from mcp_django.console.admin.restrictions import RestrictionAdmin
    from mcp_django.console.admin.token_templates import TokenTemplateAdmin
    from mcp_django.console.admin.tokens import AccessTokenAdmin
    from mcp_django.console.admin.tools import ToolAdmin

__all__ = [
    "AccessTokenAdmin",
    "CallAdmin",
    "ChangeAdmin",
    "PromptAdmin",
    "RestrictionAdmin",
    "TokenTemplateAdmin",
    "ToolAdmin",
    "register",
]

# As the admin does it: a project may unregister them.
register(admin.site)


def __getattr__(name: str) -> Any:
    for model_admin in MODEL_ADMINS.values():
        if model_admin.__name__ == name:
            return imported(model_admin)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
