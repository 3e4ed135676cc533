"""What the bearer of a token may reach, found as the endpoint would find it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from mcp_django.access.authentication import authenticate
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tools import catalog
from mcp_django.exceptions import MCPError
from mcp_django.exchange.exchange import inspection_exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest, from_view
from mcp_django.exchange.scopes import known, parse
from mcp_django.exchange.token_format import is_well_formed

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


@dataclass(frozen=True)
class Reach:
    token_id: int
    user: Any
    scopes: Sequence[str]
    tools: int
    models: int


def reach_of(request: HttpRequest, site: MCPSite, token: str) -> Reach | None:
    """What the token reaches at the site, from the request's address; None if it is not ours, or lets nobody in."""
    if not is_well_formed(token):
        return None
    asked = from_view(request)
    asked.META["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    try:
        principal = authenticate(asked, fresh=True)
    except MCPError:
        return None
    return None if principal.token_id is None else _count(asked.for_principal(principal, site), site, principal)


def _count(request: MCPRequest, site: MCPSite, principal: Principal) -> Reach:
    exchange = inspection_exchange(site, request, "tools/list")
    with site.call_context(request):
        tools, models = len(catalog.available(exchange)), len(Rights.of(site, request).models())
    return Reach(principal.token_id or 0, principal.user, parse(known(principal.scopes)), tools, models)
