"""The authorization endpoint: checks what a client asks for, lets its person log in, and asks for consent."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING

from django.contrib.auth import logout
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.encoding import iri_to_uri
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_protect

from mcp_django.access import trail
from mcp_django.access.permissions import can_be_granted, may_connect, scopes_to_ask_for
from mcp_django.console.credentials.scopes import describe
from mcp_django.core.web_pages import guarded, login, page
from mcp_django.exchange.scopes import READ, common, expand, known, parse
from mcp_django.oauth import clients, durations, grants, openid, redirects, registration, throttling
from mcp_django.oauth.client_metadata import ClientMetadata
from mcp_django.oauth.errors import OAuthError, UnusableRequest
from mcp_django.oauth.paths import issuer_of, resource_at
from mcp_django.oauth.views import check_resource, check_single
from mcp_django.protocol.errors import Throttled

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.models import Grant

logger = logging.getLogger("mcp_django")

#: An S256 challenge: a SHA-256 in base64url (RFC 7636 §4.2).
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


@dataclass
class Authorization:
    """One request to authorize, as far as it was checked."""

    site: MCPSite
    request: HttpRequest
    #: The query, which is the whole request: the form of the consent page is sent to the same URL.
    query: QueryDict
    client: ClientMetadata
    redirect_uri: str
    challenge: str = ""
    scopes: list[str] = field(default_factory=list)

    def value(self, name: str) -> str:
        return str(self.query.get(name) or "")

    @property
    def resource(self) -> str:
        """What the client will get tokens for."""
        return resource_at(issuer_of(self.request))

    @property
    def client_key(self) -> str:
        return clients.key_of(self.client)

    @property
    def is_local(self) -> bool:
        """Whether the answer stays on the person's machine or network, where any program may claim to be the client."""
        return redirects.is_local(self.redirect_uri)

    @property
    def is_silent(self) -> bool:
        """Whether the person is to see nothing (``prompt=none``)."""
        return "none" in openid.prompts(self.query)

    @property
    def wants_login(self) -> bool:
        """Whether the person, who is logged in, must log in once more."""
        return openid.wants_login(self.query)

    # Checking.

    def check(self) -> None:
        """Check what the client asks for. Raises OAuthError, which the client gets by a redirect."""
        check_single(self.query)
        if not self.value("response_type"):
            raise OAuthError("invalid_request", "Send response_type=code.")
        if self.value("response_type") != "code":
            raise OAuthError("unsupported_response_type", "response_type is code.")
        self.challenge = self.value("code_challenge")
        if self.value("code_challenge_method") != "S256" or not _CHALLENGE.fullmatch(self.challenge):
            raise OAuthError("invalid_request", "Send code_challenge with code_challenge_method=S256 (RFC 7636).")
        openid.check(self.query)
        check_resource(self.request, self.query)
        self.scopes = _asked_for(self.site, self.value("scope"))

    # Answering.

    def redirect(self, **params: str) -> HttpResponse:
        """Send the person back to the client, with the parameters, ``state`` and ``iss`` (RFC 9207)."""
        state = {"state": self.value("state")} if self.value("state") else {}
        url = redirects.with_params(self.redirect_uri, {**params, **state, "iss": issuer_of(self.request)})
        # Django's own response refuses the schemes of programs, which were compared with a list of ours.
        response = HttpResponse(status=HTTPStatus.FOUND, headers={"Location": iri_to_uri(url.reveal())})
        return guarded(response)

    def fail(self, error: OAuthError) -> HttpResponse:
        """Tell the client what went wrong, by a redirect if the browser may be sent there unasked."""
        answer = self.redirect(error=error.code, error_description=error.description)
        if self.may_redirect():
            return answer
        context = {
            "reason": _("The app that sent you here asked for something wrong."),
            "detail": error.description,
            "back_url": answer["Location"],
            "redirect_host": redirects.host_of(self.redirect_uri),
        }
        return page(self.request, "oauth/error", context, status=HTTPStatus.BAD_REQUEST)

    def may_redirect(self) -> bool:
        """Whether a browser may be sent to the client before its person has decided anything (RFC 9700 §4.11.2).

        Anybody can publish a document, and lead people from this site to wherever it says.
        """
        return (
            redirects.is_loopback(self.redirect_uri)
            or registration.is_known(self.redirect_uri)
            or self.current_grant() is not None
        )

    def allow(self, granted: Iterable[str], decision: str = "agreed", *, until: datetime | None = None) -> HttpResponse:
        """Let the client get tokens with the scopes. The others that it asked for are declined.

        It gets what is ``added`` to what it has ``until`` a moment alone, where there is one.
        """
        given = [scope for scope in self.scopes if scope in set(granted)]
        lent = {} if until is None else {scope: until.timestamp() for scope in given if scope in self.added()}
        with trail.acting(self.request):
            told = {"scopes": " ".join(given)}
            if until is not None and lent:
                told |= {"lent": " ".join(lent), "until": until.isoformat()}
            trail.note_consent(self.client_key, self.client.name, decision, **told)
        code = grants.issue_code(
            grants.Consent(
                user=self.request.user,
                client=clients.keep(self.client),
                redirect_uri=self.redirect_uri,
                code_challenge=self.challenge,
                resource=self.resource,
                scopes=[scope for scope in given if scope not in lent],
                lent=lent,
                declined=[scope for scope in self.scopes if scope not in given],
            )
        )
        return self.redirect(code=code)

    def current_grant(self) -> Grant | None:
        """The grant of the person to the client that holds now, if there is one."""
        if not self.request.user.is_authenticated:
            return None
        return grants.current_grant(self.request.user, self.client_key, self.resource)

    def added(self) -> list[str]:
        """What it asks for beside what it has for good; nothing where the person lets it in for the first time."""
        found = self.current_grant()
        held = frozenset() if found is None else expand(found.scopes)
        return [] if found is None else [one for one in self.scopes if common(held, expand([one])) < expand([one])]

    def granted_scopes(self) -> Sequence[str]:
        """The scopes that the person has given the client, and need not be asked for again.

        Empty for a program on the person's machine, and for a client that has registered itself: anybody can send what
        such a client sends.
        """
        if self.is_local or self.client.registered_by != "document":
            return ()
        found = self.current_grant()
        return () if found is None else found.scopes


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
        trail.count_refusal(site.name, request, "unusable request")
        return page(
            request, "oauth/error", {"reason": str(error), "detail": error.detail}, status=HTTPStatus.BAD_REQUEST
        )
    except Throttled as error:
        trail.count_refusal(site.name, request, error.reason)
        reason = _("Too many people log in from your address at the moment. Try again later.")
        response = page(request, "oauth/error", {"reason": reason}, status=HTTPStatus.TOO_MANY_REQUESTS)
        response["Retry-After"] = str(error.retry_after)
        return response
    if isinstance(asked, HttpResponse):
        return asked
    if not request.user.is_authenticated and not asked.is_silent:
        return _log_in(request)
    try:
        asked.check()
        return _answer(asked)
    except OAuthError as error:
        trail.count_refusal(site.name, request, error.code)
        return asked.fail(error)


def _read(request: HttpRequest, site: MCPSite) -> Authorization | HttpResponse:
    """The authorization that is asked for; a response where its person must log in first, or may not connect clients.

    Raises UnusableRequest. Nothing is sent to the redirect URI before it is known to be the client's own.
    """
    query = _query_of(request)
    client_id, redirect_uri = str(query.get("client_id") or ""), str(query.get("redirect_uri") or "")
    if len(query.getlist("client_id")) != 1 or len(query.getlist("redirect_uri")) != 1:
        raise UnusableRequest(_("The app that sent you here did not say who it is, or where to send you back."))
    if clients.needs_fetch(client_id, redirect_uri):
        if not request.user.is_authenticated:
            return _log_in(request)
        if not may_connect(request.user):
            return _other_account(request) or _not_allowed(request, site)
    client = clients.find(client_id, redirect_uri, person=str(request.user.pk))
    return Authorization(site, request, query, client, redirect_uri)


def _answer(asked: Authorization) -> HttpResponse:
    """The answer to a checked request. Raises OAuthError."""
    request = asked.request
    if asked.is_silent and (asked.wants_login or not request.user.is_authenticated):
        raise OAuthError("login_required", "The person would have to log in.")
    if (other := _other_account(request)) is not None:
        return other
    if not may_connect(request.user):
        if asked.is_silent:
            raise OAuthError("access_denied", "The person may not connect clients.")
        return _not_allowed(request, asked.site, back_url=asked.redirect(error="access_denied")["Location"])
    if len(asked.site.persons_of(request)) > 1:
        raise OAuthError("access_denied", "Somebody acts as this user, and cannot agree in the user's place.")
    if request.method == "POST":
        return _decide(asked)
    asks_nobody = not (asked.wants_login or openid.prompts(asked.query) - {"none"} or _comes_from_form(request))
    if asks_nobody and set(asked.scopes) <= set(asked.granted_scopes()):
        return asked.allow(asked.scopes, "remembered")
    if asked.is_silent:
        raise OAuthError("consent_required", "The person has not agreed to this yet.")
    return _consent(asked)


def _comes_from_form(request: HttpRequest) -> bool:
    """Whether a page of this site has sent the browser here, as the login page does.

    If that page has the policy ``form-action 'self'``, Chromium would not go on to the client: the policy covers every
    redirect after a form. The consent page begins a new form.
    """
    return request.headers.get("Sec-Fetch-Site") == "same-origin"


def _other_account(request: HttpRequest) -> HttpResponse | None:
    """A redirect to the login page, for a person who wants to log in as another user; else None."""
    if request.POST.get("decision") != "switch":
        return None
    logout(request)
    return _log_in(request)


def _query_of(request: HttpRequest) -> QueryDict:
    # As UTF-8, whatever the browser says.
    return QueryDict(request.META.get("QUERY_STRING", ""), encoding="utf-8")


def _log_in(request: HttpRequest) -> HttpResponse:
    """The way to the login page, for nobody who is logged in, and back to a request that asks for no other login."""
    return login(request, f"{request.path}?{openid.after_login(_query_of(request)).urlencode()}")


def _decide(asked: Authorization) -> HttpResponse:
    """The answer to the button that the person has pressed."""
    request, form = asked.request, asked.request.POST
    at = durations.shown_at(form.get("person"), request.user)
    if at is None:
        # Somebody has logged in as another user since the page was shown.
        return _consent(asked)
    match form.get("decision"):
        case "allow" if not asked.wants_login:
            given = form.getlist("scope")
            if not set(given) & set(asked.scopes):
                return _consent(asked, problem=_("Choose at least one of them, or cancel."))
            try:
                until = durations.end_of(form.get("lasts", ""), at) if set(given) & set(asked.added()) else None
            except LookupError:
                return _consent(asked, problem=_("Choose for how long it may do what is new."))
            return asked.allow(given, until=until)
        case "deny":
            with trail.acting(request):
                trail.note_consent(asked.client_key, asked.client.name, "declined")
            return asked.redirect(error="access_denied", error_description="The person did not agree.")
    return _consent(asked)


# Pages.


def _consent(asked: Authorization, *, problem: str = "") -> HttpResponse:
    offered = describe(asked.site, asked.request, asked.scopes, {READ, *asked.granted_scopes()})
    added = set(asked.added())
    context = {
        "server_name": _name_of(asked.site, asked.request),
        "client_name": asked.client.name,
        "client_host": asked.client.host,
        "claimed_host": asked.client.claimed_host,
        "redirect_host": redirects.host_of(asked.redirect_uri),
        "is_local": asked.is_local,
        "offered": offered,
        "added": [one.label for one in offered if one.name in added],
        "durations": [(value, text) for value, (_length, text) in durations.CHOICES.items()],
        "person": durations.sign_page(asked.request.user),
        "wants_login": asked.wants_login,
        "problem": problem,
    }
    return page(asked.request, "oauth/consent", context)


def _not_allowed(request: HttpRequest, site: MCPSite, *, back_url: str = "") -> HttpResponse:
    """The page for a person who may not connect clients, with a link back to the client if it is known."""
    back = {"back_url": back_url, "redirect_host": redirects.host_of(back_url)} if back_url else {}
    context = {"server_name": _name_of(site, request), **back}
    return page(request, "oauth/not_allowed", context, status=HTTPStatus.FORBIDDEN)


def _asked_for(site: MCPSite, text: str) -> list[str]:
    """The scopes of a request, without those that are unknown or not given to clients; if none is left, the default.

    ``openid``, ``email`` and ``offline_access`` are dropped by that: some clients ask for them wherever they log in.
    """
    wanted = [scope for scope in known(text.split()) if can_be_granted(site, scope)]
    return parse(wanted or scopes_to_ask_for(site))


def _name_of(site: MCPSite, request: HttpRequest) -> str:
    return str(site.implementation().get("title") or request.get_host())
