"""Which scopes a client may ask for, and what each means for the person who is asked, in words with numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from mcp_django.access.permissions import can_be_granted, scopes_to_ask_for
from mcp_django.exchange.exchange import inspection_exchange
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import from_view
from mcp_django.exchange.scopes import ACTIONS, READ, known, parse
from mcp_django.resources.policy import Rights
from mcp_django.tools import catalog

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.sites import MCPSite


@dataclass(frozen=True, slots=True)
class OfferedScope:
    """A scope as the consent page shows it."""

    name: str
    #: Such as "Read 6 models".
    label: str
    #: What these are, by their titles.
    items: Sequence[str]
    #: Whether its box starts ticked.
    is_ticked: bool

    @property
    def changes_data(self) -> bool:
        return self.name == ACTIONS or self.name.startswith("tool:")


def asked_for(site: MCPSite, text: str) -> list[str]:
    """The scopes of a request, without those that are unknown or not given to clients; if none is left, the default.

    ``openid``, ``email`` and ``offline_access`` are dropped by that: some clients ask for them wherever they log in.
    """
    wanted = [scope for scope in known(text.split()) if can_be_granted(site, scope)]
    return parse(wanted or scopes_to_ask_for(site))


def describe(site: MCPSite, request: HttpRequest, names: Iterable[str], held: Iterable[str]) -> list[OfferedScope]:
    """The scopes for the person of the request. Those that a grant has already start ticked, and ``read``."""
    ticked = {READ, *held}
    return [_describe(site, request, name, is_ticked=name in ticked) for name in names]


def _describe(site: MCPSite, request: HttpRequest, name: str, *, is_ticked: bool) -> OfferedScope:
    models, tools = _reach(site, request, {name} | ({READ} if name == ACTIONS else set()))
    if name == ACTIONS:
        label = ngettext("Run %(count)d action", "Run %(count)d actions", len(tools)) % {"count": len(tools)}
        return OfferedScope(name, label, tools, is_ticked)
    if name.startswith("tool:"):
        return OfferedScope(name, _("Run one action: %(name)s") % {"name": ", ".join(tools) or name[5:]}, [], is_ticked)
    if name == READ:
        label = ngettext("Read %(count)d model", "Read %(count)d models", len(models)) % {"count": len(models)}
        return OfferedScope(name, label, models, is_ticked)
    return OfferedScope(name, _("Read one model: %(name)s") % {"name": ", ".join(models) or name}, [], is_ticked)


def _reach(site: MCPSite, request: HttpRequest, held: set[str]) -> tuple[list[str], list[str]]:
    """The titles of the models that the person may read with these scopes, and of the tools that change data."""
    user: Any = request.user
    ours = from_view(request).for_principal(Principal(user, frozenset(held), source=Source.COMMAND), site)
    exchange = inspection_exchange(site, ours, "tools/list")
    with site.call_context(ours):
        models = [str(capfirst(one.model._meta.verbose_name_plural)) for one in Rights.of(site, ours).models()]
        found = [one.tool for one in catalog.available(exchange)]
        return models, [tool.get_title() for tool in found if tool.scope == ACTIONS]
