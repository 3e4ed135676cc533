"""Permissions that a project names and nobody can have, because no model declares them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from django.apps import apps
from django.contrib.auth import get_permission_codename
from django.core.checks import CheckMessage, Warning

from mcp_django.bridge.changes.approvals import are_told_by_tables, declared_approvals
from mcp_django.bridge.declared.consent import GROUP
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import OAUTH_APP, get_conf
from mcp_django.protocol.unknown_names import nearest


def check_permissions(sites: Sequence[MCPSite]) -> Iterator[CheckMessage]:
    """Check the names of permissions, where Django's own backends alone say who has one."""
    if not are_told_by_tables():
        return
    known = _declared_permissions()
    for where, rule in chain.from_iterable(map(declared_approvals, sites)):
        if isinstance(rule.by, str) and rule.by and not rule.by.startswith(GROUP) and rule.by not in known:
            yield Warning(
                f"People with the permission {rule.by!r} must approve {where}, and no model declares it.",
                hint="Correct its name, or declare it in Meta.permissions. Nobody has one that does not exist.",
                id="mcp_django.W030",
            )
    for where, permission in _needed(sites):
        if permission and permission not in known:
            yield Warning(
                f"{where} needs the permission {permission!r}, and no model declares it: superusers alone have it.",
                hint=f"Correct its name, or declare it in Meta.permissions.{nearest(permission, sorted(known))} If it "
                "is made elsewhere, add 'mcp_django.W032' to SILENCED_SYSTEM_CHECKS.",
                id="mcp_django.W032",
            )


def _declared_permissions() -> set[str]:
    return {
        f"{model._meta.app_label}.{codename}"
        for model in apps.get_models()
        for codename in (
            *(get_permission_codename(verb, model._meta) for verb in model._meta.default_permissions),
            *(codename for codename, _ in model._meta.permissions),
        )
    }


def _needed(sites: Sequence[MCPSite]) -> Iterator[tuple[str, str]]:
    """What the project has declared with a permission, and the permission of each."""
    for site in sites:
        for name, tool in site.tools.items():
            yield f"The tool {name}", getattr(tool, "permission", "")
        for name, prompt in site.prompts.items():
            yield f"The prompt {name}", prompt.permission
        for uri, resource in site.resources.items():
            yield f"The resource {uri}", resource.permission
    users = get_conf().OAUTH_USERS
    if isinstance(users, str) and apps.is_installed(OAUTH_APP):
        yield "Whoever connects a client, by MCP['OAUTH_USERS'],", users
