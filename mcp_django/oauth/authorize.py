"""The authorization endpoint: checks what a client asks for, lets its person log in, and asks for consent."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import REDIRECT_FIELD_NAME, logout
from django.contrib.auth.decorators import login_not_required
from django.core.signing import BadSignature, Signer
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import render, resolve_url
from django.urls import NoReverseMatch, Resolver404, resolve, reverse
from django.utils.cache import patch_vary_headers
from django.utils.encoding import iri_to_uri
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from mcp_django.access import trail
from mcp_django.conf import get_conf
from mcp_django.oauth import clients, grants, redirects, scopes, throttling
from mcp_django.oauth.client_metadata import ClientMetadata
from mcp_django.oauth.errors import OAuthError, UnusableRequest
from mcp_django.oauth.paths import issuer_of
from mcp_django.oauth.views import check_single, named_resource
from mcp_django.protocol.errors import Throttled

if TYPE_CHECKING:
    from mcp_django.models import Grant
    from mcp_django.sites import MCPSite

logger = logging.getLogger("mcp_django")

#: An S256 challenge: a SHA-256 in base64url (RFC 7636 §4.2).
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_SIGNER = Signer(salt="mcp_django.oauth.consent")


@dataclass
class Authorization:
    """One request to authorize, as far as it was checked."""

    site: MCPSite
    request: HttpRequest
    #: The query, which is the whole request: the form of the consent page is sent to the same URL.
    query: QueryDict
    client: ClientMetadata
    redirect_uri: str
    resource: str = ""
    challenge: str = ""
    scopes: list[str] = field(default_factory=list)

    def value(self, name: str) -> str:
        return str(self.query.get(name) or "")

    @property
    def is_local(self) -> bool:
        """Whether the answer goes to a program on the person's machine, where any may claim to be the client."""
        return redirects.is_local(self.redirect_uri)

    # Checking.

    def check(self) -> None:
        """Check what the client asks for. Raises OAuthError, which the client gets by a redirect."""
        check_single(self.query)
        if self.value("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type is code.")
        self.challenge = self.value("code_challenge")
        if self.value("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(self.challenge):
            raise OAuthError("invalid_request", "Send code_challenge with code_challenge_method=S256 (RFC 7636).")
        self.resource = named_resource(self.request, self.query)
        self.scopes = scopes.asked_for(self.site, self.value("scope"))

    # Answering.

    def redirect(self, **params: str) -> HttpResponse:
        """Send the person back to the client, with the parameters, ``state`` and ``iss`` (RFC 9207)."""
        state = {"state": self.value("state")} if self.value("state") else {}
        url = redirects.with_params(self.redirect_uri, {**params, **state, "iss": issuer_of(self.request)})
        # Django's own response refuses the schemes of programs, which were compared with a list of ours.
        response = HttpResponse(status=HTTPStatus.FOUND, headers={"Location": iri_to_uri(url)})
        return _guarded(response)

    def fail(self, error: OAuthError) -> HttpResponse:
        return self.redirect(error=error.code, error_description=error.description)

    def allow(self, granted: Iterable[str]) -> HttpResponse:
        """Let the client get tokens with the scopes. Those that it asked for beside them are declined."""
        given = [scope for scope in self.scopes if scope in set(granted)]
        code = grants.issue_code(
            grants.Consent(
                user=self.request.user,
                client=clients.keep(self.client),
                redirect_uri=self.redirect_uri,
                code_challenge=self.challenge,
                resource=self.resource,
                scopes=given,
                declined=[scope for scope in self.scopes if scope not in given],
            )
        )
        return self.redirect(code=code)

    def held(self) -> Grant | None:
        """What the person lets the client do by now."""
        return grants.remembered(self.request.user, clients.key_of(self.client.client_id), self.resource)

    def is_remembered(self) -> bool:
        """Whether the person has agreed to all of this before, so that nobody need be asked again.

        Never for a program on the person's machine, and never for a client that has registered itself: anybody can
        send what such a client sends.
        """
        if self.is_local or self.client.registered_by != "document":
            return False
        held = self.held()
        return held is not None and set(self.scopes) <= set(held.scopes)


@login_not_required
@never_cache
@csrf_protect
def authorize(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The authorization endpoint (RFC 6749 §3.1), for a person's browser."""
    if request.method not in ("GET", "HEAD", "POST"):
        return HttpResponse(status=HTTPStatus.METHOD_NOT_ALLOWED, headers={"Allow": "GET, POST"})
    try:
        throttling.admit(request)
        asked = _read(request, site)
    except UnusableRequest as error:
        return page(request, "error", {"reason": str(error)}, status=HTTPStatus.BAD_REQUEST)
    except Throttled as error:
        response = page(request, "error", {"reason": error.message}, status=HTTPStatus.TOO_MANY_REQUESTS)
        response["Retry-After"] = str(error.retry_after)
        return response
    if isinstance(asked, HttpResponse):
        return asked
    try:
        asked.check()
        return _answer(asked)
    except OAuthError as error:
        return asked.fail(error)


def _read(request: HttpRequest, site: MCPSite) -> Authorization | HttpResponse:
    """Who asks, or the way to the login page where that must be known first. Raises UnusableRequest.

    Until the client is known and the redirect is its own, nothing is sent there.
    """
    query = request.GET
    client_id, redirect_uri = str(query.get("client_id") or ""), str(query.get("redirect_uri") or "")
    if len(query.getlist("client_id")) != 1 or len(query.getlist("redirect_uri")) != 1:
        raise UnusableRequest(_("The app that sent you here did not say who it is, or where to send you back."))
    if not request.user.is_authenticated and clients.needs_fetch(client_id, redirect_uri):
        return login(request)
    return Authorization(site, request, query, clients.find(client_id, redirect_uri), redirect_uri)


def _answer(asked: Authorization) -> HttpResponse:
    """The answer to a checked request. Raises OAuthError."""
    request, prompts = asked.request, asked.value("prompt").split()
    if not request.user.is_authenticated:
        if "none" in prompts:
            raise OAuthError("login_required", "The person is not logged in.")
        return login(request)
    if not may_connect(request.user):
        if "none" in prompts:
            raise OAuthError("access_denied", "The person may not connect clients.")
        return _consent(asked, template="not_allowed", status=HTTPStatus.FORBIDDEN)
    if request.method == "POST":
        return _decide(asked)
    if asked.is_remembered() and "consent" not in prompts and "login" not in prompts:
        return asked.allow(asked.scopes)
    if "none" in prompts:
        raise OAuthError("consent_required", "The person has not agreed to this yet.")
    return _consent(asked)


def _decide(asked: Authorization) -> HttpResponse:
    """What the person has pressed. Raises OAuthError."""
    request, form = asked.request, asked.request.POST
    if not _is_for(form.get("person"), request.user):
        # Somebody has logged in as another user since the page was shown.
        return _consent(asked)
    match form.get("decision"):
        case "allow":
            given = form.getlist("scope")
            if not set(given) & set(asked.scopes):
                return _consent(asked, problem=_("Choose at least one of them, or cancel."))
            return asked.allow(given)
        case "switch":
            logout(request)
            return login(request)
        case "deny":
            with trail.acting(request):
                trail.note_refused_consent(clients.key_of(asked.client.client_id), asked.client.name)
            raise OAuthError("access_denied", "The person did not agree.")
    return _consent(asked)


def may_connect(user: Any) -> bool:
    """Whether the user may connect clients (OAUTH_USERS)."""
    rule: str | Callable[[Any], bool] = get_conf().OAUTH_USERS
    if not user.is_active:
        return False
    if callable(rule):
        return bool(rule(user))
    return not rule or bool(user.has_perm(rule))


def login_url() -> str:
    """The login page of the project: LOGIN_URL if there is such a page, or else that of the admin."""
    url = resolve_url(settings.LOGIN_URL)
    try:
        resolve(urlsplit(url).path)
    except Resolver404:
        try:
            return reverse("admin:login")
        except NoReverseMatch:
            pass
    return str(url)


def login(request: HttpRequest) -> HttpResponse:
    """The way to the login page, and back to what was asked for."""
    where = login_url()
    mark = "&" if "?" in where else "?"
    url = f"{where}{mark}{urlencode({REDIRECT_FIELD_NAME: request.get_full_path()})}"
    return _guarded(HttpResponse(status=HTTPStatus.FOUND, headers={"Location": url}))


# Pages.


def _consent(
    asked: Authorization, *, template: str = "consent", problem: str = "", status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    held = asked.held()
    offered = scopes.describe(asked.site, asked.request, asked.scopes, [] if held is None else held.scopes)
    context = {
        "server_name": asked.site.implementation().get("title") or asked.request.get_host(),
        "client_name": asked.client.name,
        "client_host": asked.client.host,
        "redirect_host": redirects.host_of(asked.redirect_uri),
        "is_local": asked.is_local,
        "offered": offered,
        "person": _SIGNER.sign(str(asked.request.user.pk)),
        "problem": problem,
        "denied_url": asked.redirect(error="access_denied")["Location"],
    }
    return page(asked.request, template, context, status=status)


def _is_for(person: Any, user: Any) -> bool:
    """Whether a consent page was made for this user."""
    try:
        return _SIGNER.unsign(str(person)) == str(user.pk)
    except BadSignature:
        return False


def page(
    request: HttpRequest, template: str, context: dict[str, Any], *, status: HTTPStatus = HTTPStatus.OK
) -> HttpResponse:
    """One of our pages, with the headers that guard it."""
    return _guarded(render(request, f"mcp_django/oauth/{template}.html", context, status=status))


def _guarded(response: HttpResponse) -> HttpResponse:
    """The response with the headers that keep other pages and caches away from it.

    The policy has no ``form-action``: in Chromium that would forbid the redirect to the client too. Neither Django's
    middleware nor django-csp replaces a policy that is there.
    """
    response["Content-Security-Policy"] = (
        "default-src 'self'; script-src 'none'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        f"style-src 'self'{_static_origin()}; img-src 'self' data:{_static_origin()}; font-src 'self'{_static_origin()}"
    )
    response["X-Frame-Options"] = "DENY"
    # Other origins are told nothing. With "no-referrer" a form would be sent as from nowhere, and Django refuses that.
    response["Referrer-Policy"] = "same-origin" if response.status_code < HTTPStatus.MULTIPLE_CHOICES else "no-referrer"
    response["Cache-Control"] = "no-store"
    patch_vary_headers(response, ["Cookie"])
    return response


def _static_origin() -> str:
    """The origin of static files, where it is not that of the site, with a space before it."""
    parts = urlsplit(settings.STATIC_URL or "")
    return f" {parts.scheme}://{parts.netloc}" if parts.netloc else ""
