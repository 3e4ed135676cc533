"""The Django request that handlers and hooks receive, made in the same way for every transport."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import unquote_plus, urlsplit

from django.conf import settings
from django.contrib.auth.models import AnonymousUser
from django.contrib.sites.shortcuts import get_current_site
from django.http import HttpRequest, QueryDict
from django.urls import get_script_prefix
from django.utils.datastructures import MultiValueDict
from django.utils.functional import cached_property

from mcp_django.conf import get_conf
from mcp_django.core.compat.requests import BareRequest
from mcp_django.core.middleware_policy import socket_problem
from mcp_django.core.secret import Secret

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.site import Site

_LONGEST_KNOWN_NAME = 64
_OF_SITES = "django.contrib.sites.middleware.CurrentSiteMiddleware"

#: Attributes of a request that belong to one HTTP exchange and are not carried over from it.
_OWN = frozenset(
    {
        *vars(HttpRequest()),
        "session",
        "user",
        "auser",
        "environ",
        "scope",
        "resolver_match",
        "body_receive_timeout",
        "headers",
        "authorization",
        "cookie",
        "tickets",
        "is_below_middleware",
        "is_api_only",
        "is_of_http",
        "mount",
        "mcp",
        "mcp_fresh",
        "supposed",
        "used_tool",
    }
)


#: How attributes begin that Django, its admin and this package set for themselves; projects use others, as ``_tenant``.
_PRIVATE = (
    "_acached_user", "_body", "_cached_user", "_dont_enforce_csrf", "_encoding", "_files", "_mcp", "_messages", "_post",
    "_read_started", "_stream", "_upload_handlers", "__",
)  # fmt: skip


#: What every request of Django has: pages of the admin, which actions may answer with, ask for SCRIPT_NAME.
_META = {"REQUEST_METHOD": "POST", "SERVER_NAME": "localhost", "SERVER_PORT": "80", "SCRIPT_NAME": ""}


#: Names of headers and variables whose values no report of an error shows.
_HIDDEN = re.compile("API|AUTH|COOKIE|CREDENTIAL|JWT|KEY|PASS|SECRET|SIGNATURE|TICKET|TOKEN")
AUTHORIZATION, COOKIE = "HTTP_AUTHORIZATION", "HTTP_COOKIE"
#: Where ``without_credentials`` puts them in a scope: META's name → value.
_CREDENTIALS = "mcp_django.credentials"
_TICKETS = "mcp_django.tickets"
#: The parameter in the URL of a socket that holds a ticket: see ``access.tickets``.
_TICKET = "ticket"
_CREDENTIAL_HEADERS = {b"authorization": AUTHORIZATION, b"cookie": COOKIE}


_NOTHING = Secret()


def _secret(text: str) -> Secret:
    return text if isinstance(text, Secret) else Secret(text)


class Meta(dict[str, Any]):
    """META, whose ``repr`` hides the values that Django hides in reports of errors."""

    def __repr__(self) -> str:
        return repr({name: Secret() if _HIDDEN.search(name) else value for name, value in self.items()})


class Caller:
    """``request.mcp`` where no client's request is being answered, as before a push: the principal, and a site."""

    __slots__ = ("principal", "site")

    def __init__(self, principal: Principal, site: Site | None = None) -> None:
        self.principal = principal
        self.site = site

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"request.mcp.{name} is there while a client's request is being answered: in a tool, an admin action, a "
            "prompt, a resource, a completer, and in the hooks that are asked during it. No client waits for an answer "
            "here, for example in a check before a push, so request.mcp has only the principal."
        )


class MCPRequest(BareRequest):
    """A POST request as a ModelAdmin knows it: a user, messages, empty GET and POST, and no session, on purpose."""

    #: The principal; and while a client's request is being answered, the means to tell that client and to ask it.
    #: Elsewhere a Caller, which has the principal alone.
    mcp: Exchange | Caller
    #: The tool that is listed or called right now by a principal whose credential has its scope ``tool:NAME``.
    used_tool = ""
    #: While it is found out what more scopes would allow: those that were needed so far. See ``permissions.supposing``.
    supposed: set[str] | None = None
    #: What the headers Authorization and Cookie said. META does not have them, so that no hook and no report of an
    #: error can tell them; a project's own authentication class finds them there: see ``with_credentials``.
    authorization: Secret
    cookie: Secret
    #: Whether it came over HTTP, so that a request like it may pass the project's middleware.
    is_of_http = False
    #: Whether it has passed the project's middleware.
    is_below_middleware = False
    #: Whether it reaches the project's API alone, whose calls pass the middleware that it has not: see ``restrict``.
    is_api_only = False
    #: The part of the path below which the project is mounted, whatever middleware says in SCRIPT_NAME.
    mount = ""
    #: The tickets in the URL of a socket that is being opened.
    tickets: Sequence[Secret] = ()

    def __init__(self, *, path: str, scheme: str, meta: Mapping[str, Any], attributes: Mapping[str, Any]) -> None:
        super().__init__(scheme)
        self.__dict__.update(attributes)
        self.method = "POST"
        self.path = self.path_info = path
        self.META = Meta(_META)
        self.META.update(meta)
        self.authorization = _secret(self.META.pop(AUTHORIZATION, _NOTHING))
        self.cookie = _secret(self.META.pop(COOKIE, _NOTHING))
        self.user = AnonymousUser()

    def get_host(self) -> str:
        """As Django's. A request that did not come over HTTP has the host of BASE_URL, which no client chooses.

        ALLOWED_HOSTS may lack it.
        """
        host = None if self.is_of_http else self.META.get("HTTP_HOST")
        return host or super().get_host()

    @cached_property
    def site(self) -> Any:  # type: ignore[override]
        """The site of the host, where CurrentSiteMiddleware would have set it."""
        if _OF_SITES not in settings.MIDDLEWARE:
            raise AttributeError("site")
        return get_current_site(self)

    @cached_property
    def GET(self) -> QueryDict:  # type: ignore[override]
        return QueryDict(mutable=True)

    @cached_property
    def POST(self) -> QueryDict:  # type: ignore[override]
        return QueryDict(mutable=True)

    @cached_property
    def COOKIES(self) -> dict[str, str]:  # type: ignore[override]
        return {}

    @cached_property
    def FILES(self) -> MultiValueDict[str, Any]:  # type: ignore[override]
        return MultiValueDict()

    def for_principal(self, principal: Principal, site: Site | None = None) -> MCPRequest:
        """Make it a request of this principal to the site, and forget the rights that were read for another one."""
        for name in ("_mcp_rights", "_mcp_viewers"):
            self.__dict__.pop(name, None)
        self.user = principal.user  # type: ignore[assignment]
        self.auth = principal.auth
        self.mcp = Caller(principal, site)
        return self

    def restrict(self, site: Site) -> MCPRequest:
        """Let it reach nothing but the project's API where it has not passed middleware that may guard the rest."""
        self.is_api_only = socket_problem(site.has_call_context) is not None
        return self

    def copy(self) -> MCPRequest:
        """A fresh request of the same origin, for the next message of a connection or for a check before a push."""
        made = MCPRequest(path=self.path, scheme=self._mcp_scheme, meta=self.META, attributes=self.attributes())
        for name in ("authorization", "cookie", "is_of_http", "is_below_middleware", "is_api_only", "mount"):
            setattr(made, name, getattr(self, name))
        return made

    def with_credentials(self) -> MCPRequest:
        """A copy with Authorization and Cookie in its META, as authentication classes read them."""
        made = self.copy()
        for name, value in ((AUTHORIZATION, self.authorization), (COOKIE, self.cookie)):
            if value:
                made.META[name] = value.reveal()
        return made

    def attributes(self) -> dict[str, Any]:
        """The attributes that the project's middleware and hooks have set."""
        own = vars(self)
        # Mostly none is left: the difference of two sets is the fastest way to see it.
        return {name: own[name] for name in own.keys() - _OWN if not name.startswith(_PRIVATE)}


def from_view(request: HttpRequest) -> MCPRequest:
    """From the request of a Django view, with the attributes that the project's middleware has set: a tenant, say."""
    attributes = {key: one for key, one in vars(request).items() if key not in _OWN and not key.startswith(_PRIVATE)}
    made = MCPRequest(path=request.path, scheme=request.scheme or "http", meta=request.META, attributes=attributes)
    made.is_of_http = made.is_below_middleware = True
    made.mount = get_script_prefix().rstrip("/")
    return made


def from_scope(scope: Mapping[str, Any]) -> MCPRequest:
    """From an ASGI scope of type http or websocket; ``ws`` counts as ``http`` and ``wss`` as ``https``."""
    scope = without_credentials(scope)
    scheme = {"ws": "http", "wss": "https"}.get(scope.get("scheme") or "http", scope.get("scheme") or "http")
    meta: dict[str, Any] = {"QUERY_STRING": scope.get("query_string", b"").decode("latin-1")}
    if scope.get("root_path"):
        meta["SCRIPT_NAME"] = scope["root_path"]
    if scope.get("client"):
        meta["REMOTE_ADDR"] = meta["REMOTE_HOST"] = scope["client"][0]
    if scope.get("server"):
        meta["SERVER_NAME"] = scope["server"][0]
        meta["SERVER_PORT"] = str(scope["server"][1] or 0)
    for name, raw_value in scope.get("headers", ()):
        key = _meta_key(name) if len(name) <= _LONGEST_KNOWN_NAME else _meta_key.__wrapped__(name)
        if key is None:
            continue
        value = raw_value.decode("latin-1")
        if key in meta:
            value = f"{meta[key]},{value}"
        meta[key] = value
    meta.update(scope[_CREDENTIALS])
    request = MCPRequest(path=scope["path"], scheme=scheme, meta=meta, attributes={})
    request.tickets, request.is_of_http = scope.get(_TICKETS, ()), "type" in scope
    return request


def without_credentials(scope: Mapping[str, Any]) -> dict[str, Any]:
    """The scope with its credentials apart from the headers, so that its ``repr`` does not show them."""
    if _CREDENTIALS in scope:
        return dict(scope)
    kept: list[tuple[bytes, bytes]] = []
    found: dict[str, str] = {}
    for header in scope.get("headers", ()):
        name = _CREDENTIAL_HEADERS.get(header[0].lower())
        if name is None:
            kept.append(header)
            continue
        value = header[1].decode("latin-1")
        # As Django joins headers that come twice.
        found[name] = f"{found[name]}{'; ' if name is COOKIE else ','}{value}" if name in found else value
    without = {**scope, "headers": kept, _CREDENTIALS: {name: Secret(value) for name, value in found.items()}}
    if scope.get("type") == "websocket":
        without["query_string"], without[_TICKETS] = _without_tickets(scope.get("query_string", b""))
    return without


def _without_tickets(query: bytes) -> tuple[bytes, list[Secret]]:
    """The query of a socket's URL without its tickets, and the tickets."""
    pairs = [(unquote_plus(pair.partition(b"=")[0].decode("latin-1")), pair) for pair in query.split(b"&")]
    tickets = [pair.partition(b"=")[2].decode("latin-1") for name, pair in pairs if name == _TICKET]
    return b"&".join(pair for name, pair in pairs if name != _TICKET), list(map(Secret, map(unquote_plus, tickets)))


@lru_cache(maxsize=1_000)
def _meta_key(raw_name: bytes) -> str | None:
    """The key of a header in META. None for one that Django's handler drops too, since it could pose as another."""
    if b"_" in raw_name:
        return None
    name = raw_name.decode("latin-1").upper().replace("-", "_")
    return name if name in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{name}"


def looking(request: HttpRequest | None) -> MCPRequest:
    """A request to look at what a principal may do: below the middleware of a person's request, if there is one.

    That of a client is of the same origin.
    """
    if isinstance(request, MCPRequest):
        return request.copy()
    return from_settings() if request is None else from_view(request)


def _let_in() -> str:
    """A URL of this site whose requests Django neither refuses nor redirects."""
    hosts = [host.removeprefix(".") for host in settings.ALLOWED_HOSTS]
    host = "localhost" if not hosts or {"localhost", "*"} & {*hosts} else hosts[0]
    return f"{'https' if settings.SECURE_SSL_REDIRECT else 'http'}://{host}"


def from_settings() -> MCPRequest:
    """The request of a client that has not come over HTTP: to ``MCP["BASE_URL"]``, or else to what Django lets in."""
    url = urlsplit(get_conf().BASE_URL or _let_in())
    meta = {
        "HTTP_HOST": url.netloc,
        "SERVER_NAME": url.hostname or "localhost",
        "SERVER_PORT": str(url.port or (443 if url.scheme == "https" else 80)),
    }
    return MCPRequest(path=url.path or "/", scheme=url.scheme or "http", meta=meta, attributes={})
