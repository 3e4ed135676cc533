"""The scopes that a person may give to a token: those that name nothing the person may not know of."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext as _

from mcp_django.access import overrides
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.sites import all_sites, names_nothing
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.writes.access import writable_models
from mcp_django.core.hooks import call_hook
from mcp_django.exchange.exchange import inspection_exchange
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest, from_view
from mcp_django.exchange.scopes import SCOPES, WRITE, expand, groups, known, of_api, of_model, of_tool

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import ModelMCP, Operation
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.bridge.tools.base import BaseTool


_NOTHING: Collection[Operation] = frozenset()


@dataclass(frozen=True, slots=True, order=True)
class ModelChoice:
    """A model, or a resource of the project's API, with the scopes for it alone."""

    title: str
    label: str
    #: Empty for a resource that cannot be read.
    read: str
    #: Empty where agents change nothing of it.
    write: str


@dataclass(frozen=True, slots=True, order=True)
class ToolChoice:
    """A tool, with the scope for it alone."""

    name: str
    title: str
    scope: str
    may_change: bool


@dataclass(frozen=True, slots=True)
class BroadChoice:
    """A scope for more than one thing: one of SCOPES, or a group of the settings."""

    scope: str
    text: str


@dataclass(frozen=True)
class ScopeChoices:
    """What a form offers."""

    models: Sequence[ModelChoice] = ()
    tools: Sequence[ToolChoice] = ()
    resources: Sequence[ModelChoice] = ()

    @property
    def broad(self) -> Iterator[BroadChoice]:
        yield from (BroadChoice(scope, str(text)) for scope, text in SCOPES.items())
        for name in groups():
            yield BroadChoice(name, _("Everything in the group %(name)s of the settings") % {"name": name})

    @cached_property
    def every_scope(self) -> frozenset[str]:
        """All of the scopes that are offered, broad ones and those for one model or tool."""
        models = {scope for one in (*self.models, *self.resources) for scope in (one.read, one.write) if scope}
        return frozenset({*SCOPES, *groups(), *models, *(one.scope for one in self.tools)})


def offered_to(request: HttpRequest, *, sees_tools: bool) -> ScopeChoices:
    """What the person of the request may choose from, at all endpoints, since a token is valid at each of them.

    Superusers know of everything. Others know of what their own agents could reach, and with ``sees_tools`` of every
    tool.
    """
    user: Any = request.user
    models: dict[str, ModelChoice] = {}
    tools: dict[str, ToolChoice] = {}
    resources: dict[str, ModelChoice] = {}
    for site in all_sites():
        ours = from_view(request).for_principal(Principal(user, expand(SCOPES), source=Source.COMMAND), site)
        with site.in_context(ours):
            for declared, may_be_written in _models(site, ours, user):
                before = models.get(declared.label)
                has_write = may_be_written or (before is not None and bool(before.write))
                models[declared.label] = _model(declared, has_write=has_write)
            for one in _resources(site, ours, sees_all=user.is_superuser):
                resources.setdefault(one.label, one)
            for tool in _tools(site, ours, sees_all=sees_tools or user.is_superuser):
                tools.setdefault(tool.name, _tool(tool))
    # Not every model has a name that a scope can have.
    found = sorted(one for one in models.values() if known([one.read]))
    return ScopeChoices(found, sorted(tools.values()), sorted(resources.values()))


def _models(site: MCPSite, request: MCPRequest, user: Any) -> Iterator[tuple[ModelMCP, bool]]:
    """The models that the user may know of, each with whether agents may write it."""
    if not user.is_superuser:
        rights = Rights.of(site, request)
        writable = {one.label for one in writable_models(rights)}
        yield from ((one.model_mcp, one.label in writable) for one in rights.models())
        return
    for declared in site.models.values():
        written = call_hook(partial(declared.get_writable, request), _NOTHING, declared, "get_writable")
        yield declared, declared.model_admin is not None and bool(written)


def _resources(site: MCPSite, request: MCPRequest, *, sees_all: bool) -> Iterator[ModelChoice]:
    """The resources of the project's API that the user may know of: those of which some operation lets the user in."""
    if not site.api_resources:
        return
    from mcp_django.bridge.api import calling

    every = list(site.api.operations.values())
    scopes = {one.scope for one in (every if sees_all else calling.allowed(request, every))}
    for name in site.api_resources:
        read, write = of_api(name), of_api(name, WRITE)
        if {read, write} & scopes:
            yield ModelChoice(name, name, read if read in scopes else "", write if write in scopes else "")


def _tools(site: MCPSite, request: MCPRequest, *, sees_all: bool) -> Iterable[BaseTool]:
    exchange = inspection_exchange(site, request, "tools/list")
    rows = overrides.tools.of(exchange)
    # Actions that the project offers for some requests alone are found by these first.
    own = [one.tool for one in catalog.available(exchange, rows)]
    return [*own, *catalog.all_tools(site, rows).values()] if sees_all else own


def _model(declared: ModelMCP, *, has_write: bool) -> ModelChoice:
    label = declared.label
    title = str(capfirst(declared.model._meta.verbose_name_plural))
    return ModelChoice(title, label, of_model(label), of_model(label, WRITE) if has_write else "")


def _tool(tool: BaseTool) -> ToolChoice:
    return ToolChoice(tool.name, tool.get_title(), of_tool(tool.name), tool.may_change)


def why_not_offered(scope: str) -> str:
    """What a page says of a scope that a token has, and that is not offered to whoever edits it."""
    if not known([scope]):
        return _("no longer a scope here")
    if ":" in scope and names_nothing(scope):
        return _("no longer exists")
    return ""
