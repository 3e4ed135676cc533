"""The pages of tokens, tools, prompts and activity in the admin. They import oauth, sites and rooms below."""

from django.apps import apps

from mcp_django.admin.activity import CallAdmin
from mcp_django.admin.overrides import ToolAdmin
from mcp_django.admin.prompts import PromptAdmin
from mcp_django.admin.tokens import AccessTokenAdmin
from mcp_django.conf import OAUTH_APP

if apps.is_installed(OAUTH_APP):
    from mcp_django.admin import oauth  # noqa: F401

__all__ = ["AccessTokenAdmin", "CallAdmin", "PromptAdmin", "ToolAdmin"]
