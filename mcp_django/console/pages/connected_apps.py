"""The OAuth clients that a person has let in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from mcp_django.console.credentials.scopes import describe
from mcp_django.exchange.audience import resource_of
from mcp_django.exchange.scopes import known, parse
from mcp_django.models import Grant

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


@dataclass
class ConnectedClient:
    """A client with the grants that one person has given it for one resource."""

    client: str
    resource: str
    name: str
    host: str
    since: datetime
    last_used_at: datetime | None = None
    granted: set[str] = field(default_factory=set)
    #: What they mean, each in words.
    labels: Sequence[str] = ()


def clients_of_viewer(request: HttpRequest, site: MCPSite) -> list[ConnectedClient]:
    """The clients that the person of the request has let in, the latest first, once for each resource."""
    found, ours = _clients_of(request.user), resource_of(request)
    for one in found:
        # Only the site of a resource knows what its scopes mean.
        is_ours = one.resource == ours
        described = describe(site, request, parse(known(one.granted))) if is_ours else ()
        one.labels = [scope.label for scope in described] or sorted(one.granted)
    return found


def _clients_of(user: Any) -> list[ConnectedClient]:
    found: dict[tuple[str, str], ConnectedClient] = {}
    for grant in Grant.objects.current().filter(user=user).order_by("-created_at", "-pk"):
        named = grant.client, grant.resource
        made = ConnectedClient(*named, grant.client_name, grant.client_host, grant.created_at)
        one = found.setdefault(named, made)
        one.since = min(one.since, grant.created_at)
        used = [moment for moment in (one.last_used_at, grant.last_used_at) if moment is not None]
        one.last_used_at = max(used, default=None)
        one.granted.update(grant.scopes)
    return list(found.values())


def disconnect(user: Any, client: str, resource: str) -> int:
    """End what the user has granted to the client for the resource. Returns the number of grants that ended."""
    mine = Grant.objects.filter(user=user, ended_at__isnull=True)
    # Compared here: a form may hold texts that a database cannot take.
    meant = [grant for grant in mine if (grant.client, grant.resource) == (client, resource)]
    return sum(grant.end(Grant.Ended.REVOKED) for grant in meant)
