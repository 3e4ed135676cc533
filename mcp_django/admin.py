"""Puts our pages into the Django admin, which imports this module where it is installed."""

from __future__ import annotations

from django.contrib import admin

from mcp_django.console.admin import register
from mcp_django.console.admin.activity import CallAdmin
from mcp_django.console.admin.changes import ChangeAdmin
from mcp_django.console.admin.prompts import PromptAdmin
from mcp_django.console.admin.tokens import AccessTokenAdmin
from mcp_django.console.admin.tools import ToolAdmin

__all__ = ["AccessTokenAdmin", "CallAdmin", "ChangeAdmin", "PromptAdmin", "ToolAdmin", "register"]

# As the admin does it: a project may unregister them.
register(admin.site)
