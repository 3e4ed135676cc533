"""The pages of tokens, tools, prompts and activity in the admin. They import sites and rooms below it."""

from mcp_django.admin.activity import CallAdmin
from mcp_django.admin.overrides import ToolAdmin
from mcp_django.admin.prompts import PromptAdmin
from mcp_django.admin.tokens import AccessTokenAdmin

__all__ = ["AccessTokenAdmin", "CallAdmin", "PromptAdmin", "ToolAdmin"]
