"""The page at the endpoint, for people who open it in a browser: what it is, and how each client is connected."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.utils.cache import patch_vary_headers

from mcp_django.access.permissions import may_make_tokens
from mcp_django.conf import OAUTH_APP, get_conf
from mcp_django.console.credentials.scopes import opened_by
from mcp_django.console.pages.connecting import client_setups
from mcp_django.console.pages.project_name import server_name, title_of
from mcp_django.core.web_pages import home_url, login, page
from mcp_django.exchange.audience import own_page_path, resource_of
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.models import AccessToken
from mcp_django.protocol.revisions import REVISIONS

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite


def landing_page(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The page, with nothing on it that a stranger may not know. With LANDING_PAGE "login", only people see it."""
    user: Any = getattr(request, "user", None)
    is_known = user is not None and user.is_authenticated
    if get_conf().LANDING_PAGE == "login" and not is_known:
        return _varied(login(request))
    logs_in = apps.is_installed(OAUTH_APP)
    endpoint, own_url = resource_of(request), own_page_path(site.name)
    context = {
        "title": title_of(site),
        "endpoint": endpoint,
        "oldest": REVISIONS[0],
        "newest": REVISIONS[-1],
        "clients": client_setups(endpoint, server_name(site), logs_in=logs_in),
        "logs_in": logs_in,
        "is_known": is_known,
        "may": opened_by(site, request, expand(SCOPES)).in_words() if is_known else (),
        # It leads strangers to the login.
        "connected_url": own_url,
        "login_url": own_url if get_conf().SELF_SERVICE and not is_known else None,
        "add_token_url": _add_token_url(request, site) if is_known else None,
        "home_url": home_url(request),
    }
    response = page(request, "landing", context, has_script=True)
    if request.method == "HEAD":
        # Not every ASGI server leaves the body out.
        response.content = b""
    return _varied(response)


def _add_token_url(request: HttpRequest, site: MCPSite) -> str | None:
    """Where the viewer makes a token: in the admin, or on a page of one's own. None where neither is allowed."""
    return _admin_url(request) or (own_page_path(site.name) if may_make_tokens(request.user) else None)


def _admin_url(request: HttpRequest) -> str | None:
    if not apps.is_installed("django.contrib.admin"):
        return None
    from django.contrib.admin import site as admin_site

    if not admin_site.has_permission(request) or not admin_site.is_registered(AccessToken):
        return None
    if not admin_site.get_model_admin(AccessToken).has_add_permission(request):
        return None
    try:
        return reverse("admin:mcp_django_accesstoken_add")
    except NoReverseMatch:
        return None


def _varied(response: HttpResponse) -> HttpResponse:
    patch_vary_headers(response, ["Accept", "Cookie"])
    return response
