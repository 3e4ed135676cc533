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
from mcp_django.oauth.authorize import login, page
from mcp_django.oauth.scopes import OfferedScope

if TYPE_CHECKING:
    from mcp_django.sites import MCPSite


@dataclass
class ConnectedClient:
    """A client with the grants that one person has given it."""

    client: str
    name: str
    host: str
    since: datetime
    last_used_at: datetime | None = None
    resources: set[str] = field(default_factory=set)
    granted: set[str] = field(default_factory=set)
    offered: Sequence[OfferedScope] = ()


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
            disconnect(request.user, str(request.POST.get("client") or ""))
        messages.success(request, _("The app is disconnected."), fail_silently=True)
        return redirect(request.path)
    found = clients_of(request.user)
    for one in found:
        one.offered = scopes.describe(site, request, sorted(one.granted), one.granted)
    return page(request, "connected", {"connected": found})


def clients_of(user: Any) -> list[ConnectedClient]:
    """The clients that the user has let in, the latest first."""
    found: dict[str, ConnectedClient] = {}
    for grant in Grant.objects.current().filter(user=user).order_by("-created_at", "-pk"):
        one = found.setdefault(
            grant.client, ConnectedClient(grant.client, grant.client_name, grant.client_host, grant.created_at)
        )
        one.since = min(one.since, grant.created_at)
        used = [moment for moment in (one.last_used_at, grant.last_used_at) if moment is not None]
        one.last_used_at = max(used, default=None)
        one.resources.add(grant.resource)
        one.granted.update(grant.scopes)
    return list(found.values())


def disconnect(user: Any, client: str) -> int:
    """End what the user has granted to the client. Gives the number of grants that ended."""
    mine = Grant.objects.filter(user=user, ended_at__isnull=True)
    # Compared here, since no database has to read what a form may hold.
    return sum(grant.end(Grant.Ended.REVOKED) for grant in mine if grant.client == client)
