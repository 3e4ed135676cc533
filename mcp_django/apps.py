"""The app: ``mcp.py`` of every installed app is imported, receivers are connected, and nothing is read or started."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from mcp_django.transports.stdio.standard import claim_early


class MCPConfig(AppConfig):
    name = "mcp_django"
    verbose_name = _("Model Context Protocol")
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, app_name: str, app_module: Any) -> None:
        super().__init__(app_name, app_module)
        # Before any app has loaded its models or is told that it is ready.
        claim_early("mcp_stdio")

    def ready(self) -> None:
        from mcp_django import checks  # noqa: F401
        from mcp_django.access import signals
        from mcp_django.push.receivers import watch

        signals.connect()
        watch.prime()
        autodiscover_modules("mcp")
        post_migrate.connect(_make_rows, sender=self)


def _make_rows(*, using: str, **kwargs: Any) -> None:
    """Give every tool and every declared prompt its row, so that an administrator finds it."""
    from mcp_django.prompts import rows as prompts
    from mcp_django.tools import rows as tools

    tools.make_rows(using)
    prompts.make_rows(using)
