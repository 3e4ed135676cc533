"""The OAuth clients that a person has let in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from django.http import HttpRequest

from mcp_django.console.credentials.lendings import ShownLending
from mcp_django.console.credentials.scopes import describe
from mcp_django.exchange.audience import resource_of
from mcp_django.exchange.scopes import known, parse
from mcp_django.models import Grant, Lending

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
    #: The keys of the grants, and what these are lent.
    grants: list[int] = field(default_factory=list)
    lent: Sequence[ShownLending] = ()


def clients_of_viewer(request: HttpRequest, site: MCPSite) -> list[ConnectedClient]:
    """The clients that the person of the request has let in, the latest first, once for each resource."""
    found, ours = _clients_of(request.user), resource_of(request)
    lent = list(Lending.objects.in_use().filter(user=request.user.pk, grant_id__isnull=False))
    for one in found:
        # Only the site of a resource knows what its scopes mean.
        is_ours = one.resource == ours
        described = describe(site, request, parse(known(one.granted))) if is_ours else ()
        one.lent = [ShownLending.of(row) for row in lent if row.grant_id in one.grants]
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
        one.grants.append(grant.pk)
    return list(found.values())


def disconnect(user: Any, client: str, resource: str) -> int:
    """End what the user has granted to the client for the resource. Returns the number of grants that ended."""
    mine = Grant.objects.filter(user=user, ended_at__isnull=True)
    # Compared here: a form may hold texts that a database cannot take.
    meant = [grant for grant in mine if (grant.client, grant.resource) == (client, resource)]
    return sum(grant.end(Grant.Ended.REVOKED) for grant in meant)
