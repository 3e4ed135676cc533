"""The app imports ``mcp.py`` of every installed app and connects receivers. It reads no data and starts no threads."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.apps import AppConfig, apps
from django.apps.registry import Apps
from django.db.models.signals import post_delete, post_migrate
from django.utils.module_loading import autodiscover_modules
from django.utils.translation import gettext_lazy as _

from mcp_django.conf import OAUTH_APP
from mcp_django.transports.stdio.standard import claim_early

if TYPE_CHECKING:
    from django.urls import URLPattern

    from mcp_django.bridge.sites import MCPSite


logger = logging.getLogger("mcp_django")


class MCPConfig(AppConfig):
    name = "mcp_django"
    verbose_name = _("Model Context Protocol")
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, app_name: str, app_module: Any) -> None:
        super().__init__(app_name, app_module)
        # This runs before any app loads its models or gets ready, because either may print.
        claim_early("mcp_stdio")

    def ready(self) -> None:
        """Import no more than a command needs that serves nothing: the rest comes with what first uses it."""
        from mcp_django import checks  # noqa: F401
        from mcp_django.access import signals
        from mcp_django.bridge.site_signals import actions_found
        from mcp_django.bridge.tasks import framework
        from mcp_django.push import first_sign

        signals.connect()
        first_sign.wait()
        actions_found.connect(_make_tool_rows, dispatch_uid="mcp_django.override_rows")
        post_delete.connect(_wake_tasks, sender=self.get_model("Restriction"), dispatch_uid="mcp_django.tasks")
        # A package imports only from packages below it, so a function of a higher package is handed in here.
        framework.load_job = _load_job
        autodiscover_modules("mcp")
        if apps.is_installed("django.contrib.admin"):
            _register_pages()
        post_migrate.connect(_make_rows, sender=self)

    def url_patterns(self, site: MCPSite) -> list[URLPattern]:
        """The URLs of a site, with those of logging in where that app is installed."""
        from mcp_django.console.pages.landing import landing_page
        from mcp_django.console.pages.own_page import url_patterns as self_service_patterns
        from mcp_django.transports.http.routes import url_patterns as undiscovered
        from mcp_django.transports.http.views import url_patterns as endpoint

        own = [*endpoint(site, landing_page), *self_service_patterns(site)]
        if apps.is_installed(OAUTH_APP):
            from mcp_django.oauth.urls import url_patterns as oauth_patterns

            own += oauth_patterns(site)
        return [*own, *undiscovered()]


def _register_pages() -> None:
    """Put our pages into the AdminSites that the project has made beside the default one."""
    from django.contrib.admin import site as default

    from mcp_django import admin
    from mcp_django.core.compat.admin import existing_admin_sites

    if apps.is_installed(OAUTH_APP):
        import_module(f"{OAUTH_APP}.admin")  # It adds its models to ours.

    for admin_site in existing_admin_sites():
        # A project that has taken them out of the default one has done so on purpose.
        if admin_site.name != default.name:
            admin.register(admin_site)


def _make_rows(*, using: str, apps: Apps = apps, **kwargs: Any) -> None:
    """Make a row for every tool and every declared prompt, so that an administrator finds it.

    There may be no tables, or older ones, after ``migrate mcp_django zero``.
    """
    from mcp_django.bridge.override_rows import make_prompt_rows, make_tool_rows
    from mcp_django.models import Prompt, Tool

    if not all(_is_migrated(model, apps) for model in (Tool, Prompt)):
        return
    make_tool_rows(using)
    make_prompt_rows(using)


def _is_migrated(model: Any, apps: Apps) -> bool:
    """Whether the table of a model has the columns that it shall have."""
    try:
        found = apps.get_model(model._meta.label)._meta.local_fields
    except LookupError:
        return False
    return {one.name for one in found} == {one.name for one in model._meta.local_fields}


def _make_tool_rows(**kwargs: Any) -> None:
    """Make a row for every tool that has none. The request that found a new tool goes on even if that fails."""
    from django.db import router, transaction

    from mcp_django.bridge.override_rows import make_tool_rows
    from mcp_django.models import Tool

    using = router.db_for_write(Tool)
    try:
        with transaction.atomic(using=using):
            make_tool_rows(using)
    except Exception:
        logger.exception("Administrators do not find the new actions yet")


def _wake_tasks(*, instance: Any, using: str, **kwargs: Any) -> None:
    """Give workers the tasks that have waited for the end of a pause."""
    from django.db import transaction

    from mcp_django.bridge.tasks.task_rows import enqueue_waiting

    if instance.is_pause:
        transaction.on_commit(enqueue_waiting, using=using)


def _load_job() -> Any:
    """The job that workers of a tasks framework run. It can be imported only if such a framework is installed."""
    from mcp_django.server.jobs import run_task

    return run_task
