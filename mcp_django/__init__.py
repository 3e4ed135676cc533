"""Makes a Django project an MCP server that obeys the permissions the project already has.

The names below are loaded at first use, since Django imports this package before its models are ready. What a project
imports is listed in docs/reference-imports.md.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp_django import routing as routing
    from mcp_django.bridge.declared.consent import Approval as Approval
    from mcp_django.bridge.declared.object_actions import ObjectAction as ObjectAction
    from mcp_django.bridge.declared.options import ModelMCP as ModelMCP
    from mcp_django.bridge.declared.project_hooks import ignores_object as ignores_object
    from mcp_django.bridge.decorators import expose as expose
    from mcp_django.bridge.decorators import expose_form as expose_form
    from mcp_django.bridge.decorators import prompt as prompt
    from mcp_django.bridge.decorators import register as register
    from mcp_django.bridge.decorators import resource as resource
    from mcp_django.bridge.decorators import tool as tool
    from mcp_django.bridge.prompts.messages import PromptMessage as PromptMessage
    from mcp_django.bridge.sites import MCPSite as MCPSite
    from mcp_django.bridge.sites import site as site
    from mcp_django.bridge.tools.actions import action as action
    from mcp_django.exchange.questions import Elicitation as Elicitation
    from mcp_django.exchange.questions import Roots as Roots
    from mcp_django.exchange.questions import Sampling as Sampling
    from mcp_django.exchange.questions import URLElicitation as URLElicitation
    from mcp_django.exchange.requests import MCPRequest as MCPRequest
    from mcp_django.push import flush as flush
    from mcp_django.push.bulk import WatchedManager as WatchedManager
    from mcp_django.push.bulk import WatchedQuerySet as WatchedQuerySet
    from mcp_django.push.bulk import WatchedQuerySetMixin as WatchedQuerySetMixin
    from mcp_django.push.bulk import changed as changed
    from mcp_django.push.bulk import updated as updated

    __version__: str

#: The name of the distribution: "mcp-django" is another project.
_DISTRIBUTION = "django-admin-mcp-server"
#: The version of a checkout that is not installed.
_NOT_INSTALLED = "0+source"

_HOMES = {
    "Elicitation": "mcp_django.exchange.questions",
    "MCPRequest": "mcp_django.exchange.requests",
    "MCPSite": "mcp_django.bridge.sites",
    "Approval": "mcp_django.bridge.declared.consent",
    "ModelMCP": "mcp_django.bridge.declared.options",
    "ObjectAction": "mcp_django.bridge.declared.object_actions",
    "PromptMessage": "mcp_django.bridge.prompts.messages",
    "Roots": "mcp_django.exchange.questions",
    "Sampling": "mcp_django.exchange.questions",
    "URLElicitation": "mcp_django.exchange.questions",
    "WatchedManager": "mcp_django.push.bulk",
    "WatchedQuerySet": "mcp_django.push.bulk",
    "WatchedQuerySetMixin": "mcp_django.push.bulk",
    "action": "mcp_django.bridge.tools.actions",
    "changed": "mcp_django.push.bulk",
    "expose": "mcp_django.bridge.decorators",
    "expose_form": "mcp_django.bridge.decorators",
    "flush": "mcp_django.push",
    "ignores_object": "mcp_django.bridge.declared.project_hooks",
    "prompt": "mcp_django.bridge.decorators",
    "register": "mcp_django.bridge.decorators",
    "resource": "mcp_django.bridge.decorators",
    "site": "mcp_django.bridge.sites",
    "tool": "mcp_django.bridge.decorators",
    "updated": "mcp_django.push.bulk",
}

__all__ = [
    "Approval",
    "Elicitation",
    "MCPRequest",
    "MCPSite",
    "ModelMCP",
    "ObjectAction",
    "PromptMessage",
    "Roots",
    "Sampling",
    "URLElicitation",
    "WatchedManager",
    "WatchedQuerySet",
    "WatchedQuerySetMixin",
    "__version__",
    "action",
    "changed",
    "expose",
    "expose_form",
    "flush",
    "ignores_object",
    "prompt",
    "register",
    "resource",
    "routing",
    "site",
    "tool",
    "updated",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return globals().setdefault(name, _version())
    if name == "routing":
        return import_module("mcp_django.routing")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'mcp_django' has no attribute {name!r}")


def _version() -> str:
    """The version as the installed distribution has it from pyproject.toml."""
    from importlib import metadata

    try:
        return metadata.version(_DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return _NOT_INSTALLED
