"""The pages of tokens, tools, prompts, activity and changes. They import oauth, server, sites and rooms below."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.apps import apps
from django.contrib import admin
from django.contrib.admin import AdminSite
from django.db.models import Model

from mcp_django.admin.activity import CallAdmin
from mcp_django.admin.changes import ChangeAdmin
from mcp_django.admin.prompts import PromptAdmin
from mcp_django.admin.tokens import AccessTokenAdmin
from mcp_django.admin.tools import ToolAdmin
from mcp_django.conf import OAUTH_APP
from mcp_django.models import AccessToken, Call, Change, Prompt, Tool

__all__ = ["AccessTokenAdmin", "CallAdmin", "ChangeAdmin", "PromptAdmin", "ToolAdmin", "register"]


def _model_admins() -> Mapping[type[Model], type[admin.ModelAdmin[Any]]]:
    found: dict[type[Model], type[admin.ModelAdmin[Any]]] = {
        AccessToken: AccessTokenAdmin, Call: CallAdmin, Change: ChangeAdmin, Prompt: PromptAdmin, Tool: ToolAdmin,
    }  # fmt: skip
    if apps.is_installed(OAUTH_APP):
        from mcp_django.admin.oauth import ClientAdmin, GrantAdmin
        from mcp_django.models import Grant
        from mcp_django.oauth.models import Client

        found |= {Client: ClientAdmin, Grant: GrantAdmin}
    return found


def register(admin_site: AdminSite) -> None:
    """Register our models with an AdminSite, except those that it has registered itself.

    Every AdminSite that exists once the apps are ready has them. Call this for one that is made later, as in
    ``urls.py``, before its ``urls`` are read.
    """
    for model, model_admin in _model_admins().items():
        if not admin_site.is_registered(model):
            admin_site.register(model, model_admin)


# As the admin does it: a project may unregister them.
register(admin.site)
