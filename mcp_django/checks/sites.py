"""Each site: its admin sites, its middleware, its tasks and its resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from django.apps import AppConfig, apps
from django.conf import settings
from django.contrib.admin import AdminSite
from django.core.checks import CheckMessage, Error, Warning

from mcp_django.bridge.declared.secrets import is_ours
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.sites import MCPSite, all_sites, superusers_request
from mcp_django.bridge.tasks import framework
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.actions import declared_actions
from mcp_django.bridge.tools.object_actions import object_action_tools
from mcp_django.checks.api import check_api
from mcp_django.checks.endpoint import check_endpoints
from mcp_django.checks.models import check_model, check_orderings
from mcp_django.checks.permissions import check_permissions
from mcp_django.checks.settings import problem_of_admin_site
from mcp_django.conf import get_conf, unknown_keys
from mcp_django.core.compat.admin import model_admins, served_admin_sites
from mcp_django.core.middleware_policy import chosen_tenants, skips_middleware, unknown_middleware


def check_sites(app_configs: Sequence[AppConfig] | None, **kwargs: Any) -> list[CheckMessage]:
    """Check what each site declares. What hooks answer at request time cannot be checked."""
    if unknown_keys(getattr(settings, "MCP", {})) or problem_of_admin_site() is not None:
        return []
    sites = all_sites()
    models = [model_mcp for site in sites for model_mcp in site.models.values()]
    found = [message for site in sites for message in _check_site(site)]
    return [
        *check_endpoints(sites),
        *_check_middleware(sites),
        *check_permissions(sites),
        *found,
        *check_orderings(models),
    ]


def _check_site(site: MCPSite) -> Iterator[CheckMessage]:
    yield from _check_admin_sites(site)
    yield from _check_tasks(site)
    yield from _check_resources(site)
    yield from _check_schemas(site)
    yield from _check_returned(site)
    yield from check_api(site)
    names = {name: f"tool {name}" for name, tool in site.tools.items() if not isinstance(tool, ActingTool)}
    for model_mcp in site.models.values():
        yield from check_model(model_mcp)
        for tool in (*declared_actions(model_mcp), *object_action_tools(model_mcp)):
            declared = f"action {model_mcp.label}.{tool.action_name}"
            if names.setdefault(tool.name, declared) != declared:
                text = f"The {declared} has the same tool name as the {names[tool.name]}: {tool.name}."
                if names[tool.name].startswith("action "):
                    yield Warning(f"{text} It is not offered.", hint="Rename one of them.", id="mcp_django.W015")
                else:
                    yield Error(text, hint="Rename one of them.", id="mcp_django.E003")


#: Keywords of alternatives, which some providers of models refuse at the top of a tool's schema.
_ALTERNATIVES = ("anyOf", "oneOf", "allOf")


def _check_schemas(site: MCPSite) -> Iterator[CheckMessage]:
    for tool in site.tools.values():
        for keyword in (one for one in _ALTERNATIVES if one in tool.declared_schema):
            yield Warning(
                f"The input_schema of the tool {tool.name} has {keyword} at its top, which some providers of models "
                "refuse: their clients lose the tool.",
                hint="Say it of an argument, or check it in the function.",
                id="mcp_django.W029",
            )


def _check_returned(site: MCPSite) -> Iterator[CheckMessage]:
    for tool in site.tools.values():
        model = tool.returned_model
        declared = None if model is None else site.models.get(Rights.label_of(model))
        if model is not None and (declared is None or not declared.rows):
            why = "agents never see" if declared is None else "is shown in groups alone"
            yield Warning(
                f"The tool {tool.name} returns rows of {model._meta.label}, which {why}: every call is refused.",
                hint="Register the model with rows, or return a dict or a dataclass with the values to be shown.",
                id="mcp_django.W035",
            )


def _check_admin_sites(site: MCPSite) -> Iterator[CheckMessage]:
    if not site.is_served:
        return
    exposes = get_conf().EXPOSE_ADMIN
    if exposes and not site.admin_sites and apps.is_installed("django.contrib.admin"):
        yield Warning(
            "The URLconf serves no AdminSite, so agents see no model of the admin.",
            hint="Include the URLs of the admin, name an AdminSite in MCP['ADMIN_SITE'], or set MCP['EXPOSE_ADMIN'] = "
            "False.",
            id="mcp_django.W016",
        )
    withheld = {model_mcp.model for model_mcp in site.withheld_models}
    for model, admin_sites in site.undecided_models.items():
        if model in withheld or (exposes and site.admin_sites):
            names = " and ".join(admin_site.name for admin_site in admin_sites)
            where = f"the AdminSites {names}" if site.admin_sites else f"the AdminSite {names}, which nobody serves"
            yield Warning(
                f"{model._meta.label_lower} is in {where}. Agents do not see it until one is named.",
                hint="Name one in MCP['ADMIN_SITE'], or as MCPSite(admin_site=...). A ModelMCP with use_admin = False "
                "does without.",
                id="mcp_django.W017",
            )
    for admin_site in served_admin_sites() if apps.is_installed("django.contrib.admin") else ():
        if not any(is_ours(model) for model in model_admins(admin_site)):
            yield Warning(
                f"The AdminSite {admin_site.name} has no pages of mcp_django: it is made after the apps are ready.",
                hint="Call mcp_django.admin.register(site) where it is made, or silence this check.",
                id="mcp_django.W026",
            )
    if not exposes:
        return
    for admin_site in site.admin_sites:
        if not _lets_in(admin_site):
            yield Warning(
                f"The AdminSite {admin_site.name} lets no token in, not even a superuser's, so agents see none of its "
                "models.",
                hint="Its has_permission may ask for a second factor, which a token does not have. Let it accept "
                "requests with request.mcp, or name another AdminSite in MCP['ADMIN_SITE'].",
                id="mcp_django.W018",
            )


def _lets_in(admin_site: AdminSite) -> bool:
    try:
        return admin_site.has_permission(superusers_request())
    except Exception:  # noqa: BLE001 - in a request this is a refusal, which is logged
        return False


def _check_middleware(sites: Iterable[MCPSite]) -> Iterator[CheckMessage]:
    unknown = unknown_middleware()
    is_below = any(site.is_served and not site.has_call_context for site in sites)
    if unknown and not skips_middleware() and is_below:
        yield Warning(
            f"{', '.join(unknown)} may choose a tenant or guard the site, so calls run below it: over HTTP they are "
            "answered by Django, one in a thread, as under WSGI. WebSocket, gRPC, stdio, HTTP+SSE, push and tasks are "
            "refused, but for the operations of an API that is exposed.",
            hint="Do its work in MCPSite.call_context, or set MCP['BYPASS_MIDDLEWARE'] = True if agents can do without "
            "it.",
            id="mcp_django.W002",
        )


def check_tenants(app_configs: Any, **kwargs: Any) -> list[CheckMessage]:
    """Of ``check --deploy``: middleware that chooses a tenant for certain, and a site that does not."""
    found = [] if skips_middleware() else chosen_tenants()
    sites = [site for site in all_sites() if site.is_served and not site.has_call_context]
    if not found or not sites:
        return []
    return [
        Error(
            f"{found[0]} chooses the tenant of a request, and the site {site.name!r} does not: agents have neither "
            "sockets nor push nor tasks.",
            hint="Choose the tenant in MCPSite.call_context (docs/sites.md).",
            id="mcp_django.E032",
        )
        for site in sites
    ]


def _check_tasks(site: MCPSite) -> Iterator[CheckMessage]:
    tools = [tool for tool in site.tools.values() if tool.task]
    problem = framework.problem(site) if tools else None
    if problem is None:
        return
    lost = [tool.name for tool in tools if tool.task == "required"]
    yield Warning(
        f"Nothing runs as a task: {tools[0].name} is declared with task=, and its callers wait while it runs"
        + (f"; nobody can see or call {', '.join(lost)}." if lost else "."),
        hint=problem,
        id="mcp_django.W004",
    )


def _check_resources(site: MCPSite) -> Iterator[CheckMessage]:
    for resource in site.resources.values():
        for model in resource.watched_models:
            model_mcp = site.models.get(Rights.label_of(model))
            if model_mcp is None or not model_mcp.watch:
                why = "agents never see" if model_mcp is None else "has watch = False"
                yield Warning(
                    f"The resource {resource.uri} is declared with watch= for {model._meta.label}, which {why}: its "
                    "subscribers are not notified of changes of that model.",
                    hint="Expose and watch the model, or declare watch=True and call mcp_django.updated(uri).",
                    id="mcp_django.W019",
                )
