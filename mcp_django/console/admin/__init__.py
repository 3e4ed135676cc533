"""The pages of tokens, tools, prompts, activity and changes in the admin. ``mcp_django.admin`` registers them."""

from __future__ import annotations

from typing import Any

from django.contrib.admin import AdminSite, ModelAdmin
from django.db.models import Model

from mcp_django.console.admin.later import later
from mcp_django.models import AccessToken, Call, Change, Prompt, Restriction, TokenTemplate, Tool

#: Each AdminSite has these. An app of ours that has models of its own adds them.
MODEL_ADMINS: dict[type[Model], type[ModelAdmin[Any]]] = {
    AccessToken: later("mcp_django.console.admin.tokens.AccessTokenAdmin"),
    Call: later("mcp_django.console.admin.activity.CallAdmin"),
    Change: later("mcp_django.console.admin.changes.ChangeAdmin"),
    Prompt: later("mcp_django.console.admin.prompts.PromptAdmin"),
    Restriction: later("mcp_django.console.admin.restrictions.RestrictionAdmin"),
    TokenTemplate: later("mcp_django.console.admin.token_templates.TokenTemplateAdmin"),
    Tool: later("mcp_django.console.admin.tools.ToolAdmin"),
}


def register(admin_site: AdminSite) -> None:
    """Register our models with an AdminSite, except those that it has registered itself.

    Every AdminSite that exists once the apps are ready has them. Call this for one that is made later, as in
    ``urls.py``, before its ``urls`` are read.
    """
    for model, model_admin in MODEL_ADMINS.items():
        if not admin_site.is_registered(model):
            admin_site.register(model, model_admin)
