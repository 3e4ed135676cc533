"""Puts the pages of OAuth clients and grants into the Django admin, beside ours."""

from __future__ import annotations

from django.contrib import admin

from mcp_django.console.admin import MODEL_ADMINS, register
from mcp_django.console.admin.later import later
from mcp_django.models import Grant
from mcp_django.oauth.models import Client

MODEL_ADMINS |= {
    Client: later("mcp_django.oauth.model_admins.ClientAdmin"),
    Grant: later("mcp_django.oauth.model_admins.GrantAdmin"),
}
register(admin.site)
