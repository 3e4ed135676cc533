"""*My agent*: how a person connects one, what acts for that person, what it did, and the changes of it that wait."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import URLPattern, path
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from mcp_django.access import nonces, pauses
from mcp_django.access.permissions import may_connect, may_make_tokens
from mcp_django.access.trail import acting
from mcp_django.bridge.sites import all_sites
from mcp_django.conf import OAUTH_APP, get_conf
from mcp_django.console.credentials import lendings
from mcp_django.console.credentials.lifetimes import SentBefore
from mcp_django.console.credentials.scopes import opened_by, reach_of
from mcp_django.console.pages.connected_apps import clients_of_viewer, disconnect
from mcp_django.console.pages.connecting import client_setups
from mcp_django.console.pages.own_tokens import LISTED, OwnTokenForm, revoke, tokens_of, with_lendings
from mcp_django.console.pages.project_name import server_name, title_of
from mcp_django.core.secret import Secret
from mcp_django.core.web_pages import home_url, login, not_atomic, page
from mcp_django.exchange.audience import CHANGE, CONNECTED, own_page_path, resource_of
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.models import Lending

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite

NAME = "connected"


def url_patterns(site: MCPSite) -> list[URLPattern]:
    """Its URL with a slash behind it and without."""
    view = not_atomic(connected)
    return [path(CONNECTED, view, {"site": site}, name=NAME), path(f"{CONNECTED}/", view, {"site": site})]


@login_not_required
@never_cache
@csrf_protect
@sensitive_post_parameters("token")
@sensitive_variables()
def connected(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """What acts for the person of the request, and what that person may do about it."""
    if not hasattr(request, "user"):
        # The project has no logins.
        raise Http404
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponse(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, POST"})
    if not request.user.is_authenticated:
        return login(request)
    if request.method != "POST":
        if CHANGE in request.GET:
            return _show_change(request, site)
        return _show(request, site, OwnTokenForm(request, site) if may_make_tokens(request.user) else None)
    answer = _ANSWERS.get(request.POST.get("do", ""))
    if answer is None:
        return HttpResponse(status=HTTPStatus.BAD_REQUEST)
    with acting(request):
        return answer(request, site)


def _show(request: HttpRequest, site: MCPSite, form: OwnTokenForm | None) -> HttpResponse:
    # A process that only answers agents has no use for it.
    from mcp_django.console.pages import own_calls, own_changes

    logs_in, tokens = apps.is_installed(OAUTH_APP), tokens_of(request.user)
    can_log_in = logs_in and may_connect(request.user)
    can_connect = can_log_in or form is not None
    # All that any agent of this person could get.
    exposes = can_connect and not opened_by(site, request, expand(SCOPES)).is_empty
    setups = client_setups(resource_of(request), server_name(site), logs_in=can_log_in) if exposes else ()
    context = {
        **_about_site(request, site),
        "pause": pauses.of_user(site, request.user),
        "logs_in": logs_in,
        "can_log_in": can_log_in,
        "can_connect": can_connect,
        "clients": setups,
        "waiting": own_changes.waiting(request),
        "connected": clients_of_viewer(request, site) if logs_in else (),
        "tokens": with_lendings(tokens[:LISTED]),
        "unlisted": max(0, tokens.count() - LISTED),
        "form": form if exposes else None,
        "has_other_endpoints": len(all_sites()) > 1,
        "calls": own_calls.calls_of(request.user),
        "is_written_down": get_conf().AUDIT != "off",
    }
    return page(request, "self_service/connected", context, has_script=True)


def _show_change(request: HttpRequest, site: MCPSite) -> HttpResponse:
    from mcp_django.console.pages import own_changes

    change = own_changes.find(request.user, request.GET[CHANGE])
    if change is None:
        raise Http404
    context = {**_about_site(request, site), **own_changes.about(request, change)}
    return page(request, "self_service/change", context, has_script=True)


def _about_site(request: HttpRequest, site: MCPSite) -> dict[str, Any]:
    return {"site_title": title_of(site), "home_url": home_url(request)}


# What the buttons do.


def _disconnect(request: HttpRequest, site: MCPSite) -> HttpResponse:
    if disconnect(request.user, request.POST.get("client", ""), request.POST.get("resource", "")):
        messages.success(request, _("The app is disconnected."), fail_silently=True)
    else:
        messages.warning(request, _("The app was disconnected already."), fail_silently=True)
    return redirect(request.path)


def _revoke(request: HttpRequest, site: MCPSite) -> HttpResponse:
    token = revoke(request.user, request.POST.get("key", ""))
    if token is not None:
        said = _("The token “%(token)s” was revoked.") % {"token": token}
        messages.success(request, said, fail_silently=True)
    else:
        messages.warning(request, _("This token has already ended."), fail_silently=True)
    return redirect(request.path)


def _end_lending(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """End what was lent to an app or a token of the person, before its time."""
    key = request.POST.get("key", "")
    # Compared here: a form may hold texts that a database cannot take.
    mine = Lending.objects.in_use().filter(user=request.user.pk)
    if lendings.end(request.user, next((one for one in mine if str(one.pk) == key), None)):
        messages.success(request, _("This right has ended."), fail_silently=True)
    else:
        messages.warning(request, _("This right had ended already."), fail_silently=True)
    return redirect(request.path)


def _make(request: HttpRequest, site: MCPSite) -> HttpResponse:
    if not may_make_tokens(request.user):
        raise Http404
    nonces.forget_expired()
    form = OwnTokenForm(request, site, request.POST)
    if not form.is_valid():
        return _show(request, site, form)
    try:
        token, plain = form.make()
    except ValidationError as error:
        form.add_error(None, error)
        return _show(request, site, form)
    except SentBefore:
        return _about_token(request, "token_made", _("The token was already made"))
    clients = client_setups(resource_of(request), server_name(site), token=plain)
    shown = {"object": token, "token": plain, "clients": clients, "test_url": request.path}
    return _about_token(request, "new_token", _("The new token"), back=_("I have copied it"), **shown)


def _test(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """What the token reaches that the person was just shown. The token is neither stored nor shown again."""
    reach = reach_of(request, site, Secret(request.POST.get("token", "")))
    # A token that acts as somebody else is as unknown as any.
    if reach is not None and not tokens_of(request.user).filter(pk=reach.token_id).exists():
        reach = None
    return _about_token(request, "token_test", _("What the token reaches"), reach=reach)


def _about_token(request: HttpRequest, part: str, title: str, **shown: Any) -> HttpResponse:
    """A page about one token: the part that it shares with the page of the admin, and a way back."""
    context = {"title": title, "part": f"mcp_django/{part}.html", "back": _("Back"), **shown}
    return page(request, "self_service/token", context, has_script=True)


def _decide(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """Agree to a change of an agent of the person, or reject it: as the admin does it."""
    from mcp_django.console.changes import deciding
    from mcp_django.console.pages import own_changes

    change = own_changes.find(request.user, request.POST.get(CHANGE, ""))
    if change is None:
        raise Http404
    choice = next((choice for name, choice in own_changes.CHOICES.items() if name in request.POST), None)
    if choice is None or choice not in deciding.offered(request, change):
        return HttpResponse(status=HTTPStatus.BAD_REQUEST)
    if (elsewhere := own_changes.admin_url(request, change)) is not None:
        return redirect(elsewhere)
    digest, note = request.POST.get("digest", ""), request.POST.get("note", "")
    deciding.tell(request, [deciding.decide(request, change, choice, digest, note)])
    return redirect(own_page_path(site.name, change.pk) or request.path)


_ANSWERS: Mapping[str, Callable[[HttpRequest, MCPSite], HttpResponse]] = {
    "decide": _decide,
    "disconnect": _disconnect,
    "revoke": _revoke,
    "end_lending": _end_lending,
    "make": _make,
    "test": _test,
}
