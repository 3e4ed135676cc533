"""The tools that a client switches on for itself."""

from __future__ import annotations

from collections.abc import Iterable

from mcp_django.access import overrides
from mcp_django.bridge.sites import MCPSite, superusers_request
from mcp_django.bridge.tools import catalog
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.unknown_names import nearest


def check_names(site: MCPSite, request: MCPRequest, names: Iterable[str]) -> frozenset[str]:
    """The names, each of a tool of the site. Raises ValueError for another one, with the name that may be meant.

    Only for a name that no declared tool has, the database is asked for queries that people saved.
    """
    wanted = dict.fromkeys([names] if isinstance(names, str) else names)
    if all(name in site.tools for name in wanted):
        return frozenset(wanted)
    # Some actions are offered for the requests of some users alone.
    for one in (request.copy().for_principal(request.mcp.principal, site), superusers_request()):
        with site.in_context(one):
            site.find_actions(one)
    known = catalog.all_tools(site, overrides.tools.of_site(site, fresh=True))
    for name in wanted:
        if name not in known:
            raise ValueError(f"switched_on: there is no tool {name!r}.{nearest(name, known)}")
    return frozenset(wanted)
