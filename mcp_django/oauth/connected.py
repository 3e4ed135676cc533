"""Connected apps: where each person sees the clients that they have let in, and disconnects them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from mcp_django.access.trail import acting
from mcp_django.models import Grant
from mcp_django.oauth import scopes
from mcp_django.oauth.paths import issuer_of, resource_at
from mcp_django.web_pages import login, page

if TYPE_CHECKING:
    from mcp_django.sites import MCPSite


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


@login_not_required
@never_cache
@csrf_protect
def connected(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The page, and what its buttons do."""
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponse(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, POST"})
    if not request.user.is_authenticated:
        return login(request)
    if request.method == "POST":
        with acting(request):
            disconnect(request.user, str(request.POST.get("client") or ""), str(request.POST.get("resource") or ""))
        messages.success(request, _("The app is disconnected."), fail_silently=True)
        return redirect(request.path)
    found, ours = clients_of(request.user), resource_at(issuer_of(request))
    for one in found:
        # Only the site of a resource knows what its scopes mean.
        is_ours = one.resource == ours
        described = scopes.describe(site, request, sorted(one.granted), ()) if is_ours else ()
        one.labels = [scope.label for scope in described] or sorted(one.granted)
    return page(request, "oauth/connected", {"connected": found})


def clients_of(user: Any) -> list[ConnectedClient]:
    """The clients that the user has let in, the latest first, once for each resource."""
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
    """End what the user has granted to the client for the resource. Gives the number of grants that ended."""
    mine = Grant.objects.filter(user=user, ended_at__isnull=True)
    # Compared here, since no database has to read what a form may hold.
    meant = [grant for grant in mine if (grant.client, grant.resource) == (client, resource)]
    return sum(grant.end(Grant.Ended.REVOKED) for grant in meant)
