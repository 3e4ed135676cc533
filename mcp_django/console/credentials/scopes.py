"""What each scope means for the person who gives it, and what the bearer of a token may reach."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mcp_django.access.authentication import authenticate
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.writes.access import writable_models
from mcp_django.core.secret import Secret
from mcp_django.exceptions import MCPError
from mcp_django.exchange.exchange import inspection_exchange
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest, from_view
from mcp_django.exchange.scopes import ACTIONS, READ, WRITE, expand, groups, known, parse
from mcp_django.exchange.token_format import is_well_formed

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.sites import MCPSite


@dataclass(frozen=True, slots=True)
class OfferedScope:
    """A scope as a page offers it."""

    name: str
    #: Such as "Read 6 models".
    label: str
    #: The titles of those models and actions.
    items: Sequence[str]
    #: Whether its box starts ticked.
    is_ticked: bool
    #: Whether it lets the client change data.
    changes_data: bool = False


def describe(
    site: MCPSite, request: HttpRequest, names: Iterable[str], ticked: Iterable[str] = ()
) -> list[OfferedScope]:
    """The scopes as a page offers them to the person of the request. Those in ``ticked`` start ticked."""
    ticked = frozenset(ticked)
    return [_describe(site, request, name, is_ticked=name in ticked) for name in names]


def _describe(site: MCPSite, request: HttpRequest, name: str, *, is_ticked: bool) -> OfferedScope:
    held = expand([name])
    models, tools, written = _reach(site, request, held | _read_by(name))
    changes_data = bool(tools or written) or name in (ACTIONS, WRITE)
    described = partial(OfferedScope, name, is_ticked=is_ticked, changes_data=changes_data)
    reads = ngettext("Read %(count)d model", "Read %(count)d models", len(models)) % {"count": len(models)}
    writes = ngettext(
        "Create, change and delete records of %(count)d model",
        "Create, change and delete records of %(count)d models",
        len(written),
    ) % {"count": len(written)}
    runs = ngettext("Run %(count)d action", "Run %(count)d actions", len(tools)) % {"count": len(tools)}
    if name in groups():
        parts = [reads, runs, *([writes] if written else [])]
        return described(f"{capfirst(name)}: {', '.join(parts)}", [*models, *tools])
    if name == ACTIONS:
        return described(runs, tools)
    if name == WRITE:
        return described(writes, written)
    if name == READ:
        return described(reads, models)
    if name.startswith("tool:"):
        return described(_("Run one action: %(name)s") % {"name": ", ".join(tools) or name[5:]}, [])
    if name.endswith(f":{WRITE}"):
        named = {"name": ", ".join(written) or name}
        return described(_("Create, change and delete records of one model: %(name)s") % named, [])
    return described(_("Read one model: %(name)s") % {"name": ", ".join(models) or name}, [])


def _read_by(name: str) -> Set[str]:
    """The scopes that read what a scope lets change: an agent cannot change rows that it may not read."""
    if name in (ACTIONS, WRITE):
        return {READ}
    return {f"{name.removesuffix(WRITE)}{READ}"} if name.endswith(f":{WRITE}") else set()


def _reach(site: MCPSite, request: HttpRequest, held: Set[str]) -> tuple[list[str], list[str], list[str]]:
    """The titles of the models that the person may read with these scopes, of actions, and of models to write."""
    user: Any = request.user
    ours = from_view(request).for_principal(Principal(user, frozenset(held), source=Source.COMMAND), site)
    exchange = inspection_exchange(site, ours, "tools/list")
    with site.in_context(ours):
        rights = Rights.of(site, ours)
        found = [one.tool for one in catalog.available(exchange)]
        actions = [tool.get_title() for tool in found if tool.may_change and tool.scope != WRITE]
        writes = any(tool.may_change and tool.scope == WRITE for tool in found)
        return _titles(rights.models()), actions, _titles(writable_models(rights) if writes else [])


def _titles(models: Iterable[ModelRights]) -> list[str]:
    return [str(capfirst(one.model._meta.verbose_name_plural)) for one in models]


@dataclass(frozen=True)
class Reach:
    token_id: int
    user: Any
    scopes: Sequence[str]
    tools: int
    models: int


def reach_of(request: HttpRequest, site: MCPSite, token: Secret) -> Reach | None:
    """What the token reaches at the site, from the request's address; None if it is not ours, or lets nobody in."""
    if not is_well_formed(token):
        return None
    asked = from_view(request)
    asked.authorization = Secret("Bearer " + token)
    try:
        principal = authenticate(asked, fresh=True)
    except MCPError:
        return None
    return None if principal.token_id is None else _count(asked.for_principal(principal, site), site, principal)


def _count(request: MCPRequest, site: MCPSite, principal: Principal) -> Reach:
    exchange = inspection_exchange(site, request, "tools/list")
    with site.in_context(request):
        tools, models = len(catalog.available(exchange)), len(Rights.of(site, request).models())
    return Reach(principal.token_id or 0, principal.user, parse(known(principal.scopes)), tools, models)
