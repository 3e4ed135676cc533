"""System checks: what is wrong, or will be, with how the project uses us, each with its remedy."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import FieldDoesNotExist, ImproperlyConfigured
from django.db import connections, models

from mcp_django.access.authentication import authenticators
from mcp_django.conf import Conf, get_conf, unknown_keys
from mcp_django.middleware import has_call_context, skips_middleware, unknown_middleware
from mcp_django.options import ModelMCP
from mcp_django.push.bus import layer_config
from mcp_django.push.changes import watch
from mcp_django.resources.kinds import kind_of
from mcp_django.resources.policy import nearest
from mcp_django.sites import MCPSite
from mcp_django.tasks import framework
from mcp_django.tools.actions import AdminActionTool, declared_actions


@register("mcp_django")
def check_settings(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """The dictionary MCP, and the settings of others that we lean on."""
    found: list[CheckMessage] = []
    known = [field.name for field in fields(Conf)]
    unknown = unknown_keys(getattr(settings, "MCP", {}))
    if unknown:
        # Nothing else can be read.
        return [
            Error(f"MCP has no key {key!r}.", hint=nearest(key, known).strip() or None, id="mcp_django.E001")
            for key in unknown
        ]
    try:
        layer_config()
    except ImproperlyConfigured as error:
        found.append(Error(str(error), id="mcp_django.E002"))
    try:
        authenticators(get_conf().AUTHENTICATION_CLASSES)
    except (ImproperlyConfigured, ImportError) as error:
        found.append(Error(f"No call can be answered: {error}", id="mcp_django.E008"))
    for alias, database in settings.DATABASES.items():
        if database.get("AUTOCOMMIT") is False:
            found.append(
                Warning(
                    f"Changes on the database {alias!r} are not pushed: with AUTOCOMMIT off nobody sees a commit.",
                    hint="Leave AUTOCOMMIT on, or tell subscribers yourself.",
                    id="mcp_django.W001",
                )
            )
    return found


@register(Tags.database, "mcp_django")
def check_databases(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """What only the database itself can tell; asked by ``check --database`` and by ``migrate``."""
    found: list[CheckMessage] = []
    for alias in databases or ():
        if connections[alias].vendor != "mysql" or not settings.USE_TZ:
            continue
        with connections[alias].cursor() as cursor:
            cursor.execute("SELECT CONVERT_TZ('2013-01-01', 'UTC', %s)", [settings.TIME_ZONE])
            if cursor.fetchone() == (None,):
                found.append(
                    Warning(
                        f"The database {alias!r} knows no time zones: filters by parts of a datetime find nothing.",
                        hint="Load them: mariadb-tzinfo-to-sql /usr/share/zoneinfo | mariadb mysql",
                        id="mcp_django.W003",
                    )
                )
    return found


@register("mcp_django")
def check_sites(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """What each site exposes, as far as it is declared and not asked for."""
    if unknown_keys(getattr(settings, "MCP", {})):
        return []
    return [message for site in watch.all_sites() for message in _check_site(site)]


def _check_site(site: MCPSite) -> Iterator[CheckMessage]:
    yield from _check_doors(site)
    yield from _check_tasks(site)
    names = {name: f"tool {name}" for name, tool in site.tools.items() if not isinstance(tool, AdminActionTool)}
    for model_mcp in site.models.values():
        yield from _check_model(model_mcp)
        for tool in declared_actions(model_mcp):
            declared = f"action {model_mcp.label}.{tool.action_name}"
            if names.setdefault(tool.name, declared) != declared:
                yield Error(
                    f"The {declared} has the same tool name as the {names[tool.name]}: {tool.name}.",
                    hint="Rename one of them.",
                    id="mcp_django.E003",
                )


def _check_doors(site: MCPSite) -> Iterator[CheckMessage]:
    unknown = unknown_middleware()
    if unknown and not skips_middleware() and not has_call_context(site) and site.is_served:
        yield Warning(
            f"WebSocket and stdio are refused, and HTTP goes through Django: {', '.join(unknown)} may choose a tenant "
            "or guard the site.",
            hint="Do its work in MCPSite.call_context, or set MCP['ASGI_DOOR'] = True if agents can do without it.",
            id="mcp_django.W002",
        )


def _check_tasks(site: MCPSite) -> Iterator[CheckMessage]:
    tools = [tool for tool in site.tools.values() if tool.task]
    problem = framework.problem(site) if tools else None
    if problem is None:
        return
    lost = [tool.name for tool in tools if tool.task == "required"]
    yield Warning(
        f"Nothing runs as a task: {tools[0].name} is declared with task=, and is run while its caller waits"
        + (f"; {', '.join(lost)} does not exist for anybody." if lost else "."),
        hint=problem,
        id="mcp_django.W004",
    )


def _check_model(model_mcp: ModelMCP) -> Iterator[CheckMessage]:
    if isinstance(model_mcp.opts.pk, models.CompositePrimaryKey):
        yield Error(
            f"{model_mcp.label} has a composite primary key, which has no URI yet.",
            hint="Leave it out: unregister it, or name what is exposed with MCP['EXPOSE_ADMIN'] = False.",
            id="mcp_django.E004",
        )
        return
    if not model_mcp.bridged and model_mcp.fields is None and model_mcp.model_admin is None:
        yield Error(
            f"{type(model_mcp).__name__} names no fields, and {model_mcp.label} has no ModelAdmin to ask.",
            hint='Set fields = [...], or fields = "__all__" for all that are not secrets.',
            id="mcp_django.E005",
        )
    primary_key = model_mcp.opts.pk
    if kind_of(primary_key, named=model_mcp.names(primary_key)) is None or model_mcp.hides(primary_key):
        yield Error(
            f"The primary key of {model_mcp.label} cannot be read, so that no agent is shown the model.",
            hint=f"Name {primary_key.name} in fields, if agents may know it; else leave the model out.",
            id="mcp_django.E007",
        )
    for attribute in ("fields", "exclude", "filter_fields"):
        declared = getattr(model_mcp, attribute)
        for name in () if declared in (None, "__all__") else declared:
            if not _is_concrete(model_mcp.model, name):
                allowed = [field.name for field in model_mcp.opts.concrete_fields]
                yield Error(
                    f"{type(model_mcp).__name__}.{attribute} names {name!r}, which is no column of {model_mcp.label}.",
                    hint=nearest(name, allowed).strip() or f"Columns: {', '.join(allowed)}.",
                    id="mcp_django.E006",
                )


def _is_concrete(model: type[models.Model], name: str) -> bool:
    try:
        return bool(getattr(model._meta.get_field(name), "concrete", False))
    except FieldDoesNotExist:
        return False
