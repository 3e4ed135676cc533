"""The endpoints that programs call: metadata, tokens, registration, revocation. JSON, every origin, no cookies."""

from __future__ import annotations

import base64
import binascii
import functools
import json
import logging
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import unquote_plus

from django.core.exceptions import DisallowedHost, RequestDataTooBig, SuspiciousOperation
from django.db import DatabaseError
from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.http.response import HttpResponseBase
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from mcp_django.access import trail
from mcp_django.access.permissions import scopes_to_ask_for
from mcp_django.conf import get_conf
from mcp_django.core.db.outages import is_outage
from mcp_django.core.secret import Secret
from mcp_django.exchange.scopes import known
from mcp_django.oauth import clients, grants, metadata, paths, registration, throttling
from mcp_django.oauth.client_metadata import InvalidMetadata
from mcp_django.oauth.errors import OAuthError
from mcp_django.protocol.errors import Throttled
from mcp_django.protocol.types import JSON
from mcp_django.transports.http.views import unguarded

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite

logger = logging.getLogger("mcp_django")

#: No request of a client is longer.
_MAX_BODY_BYTES = 64_000
_MAX_AGE = 3_600
#: The parameters of a form that no report of an error may show.
_SECRETS = frozenset({"code", "code_verifier", "refresh_token", "token", "client_secret", "client_assertion"})
#: A verifier of RFC 7636 §4.1.
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")

View = Callable[..., HttpResponseBase]
Answer = Callable[[HttpRequest, "MCPSite"], HttpResponse]


def _for_programs(*methods: str, is_secret: bool = True) -> Callable[[Answer], View]:
    """Decorator: a view for programs on every origin, without cookies. ``is_secret``: its answer is never stored."""

    def decorate(answer: Answer) -> View:
        @functools.wraps(answer)
        def view(request: HttpRequest, site: MCPSite) -> HttpResponse:
            response = _answer(answer, request, site, methods)
            response["Access-Control-Allow-Origin"] = "*"
            response["Access-Control-Allow-Methods"] = ", ".join(methods)
            response["Access-Control-Allow-Headers"] = "Authorization, Content-Type, MCP-Protocol-Version"
            response["X-Content-Type-Options"] = "nosniff"
            if is_secret or response.status_code >= HTTPStatus.BAD_REQUEST:
                response["Cache-Control"] = "no-store"
            return response

        return unguarded(sensitive_post_parameters()(view))

    return decorate


def _answer(answer: Answer, request: HttpRequest, site: MCPSite, methods: tuple[str, ...]) -> HttpResponse:
    if request.method == "OPTIONS":
        return HttpResponse(status=HTTPStatus.NO_CONTENT, headers={"Access-Control-Max-Age": "600"})
    if request.method not in methods:
        return _error("invalid_request", f"Use {methods[0]}.", HTTPStatus.METHOD_NOT_ALLOWED, Allow=", ".join(methods))
    try:
        return answer(request, site)
    except (OAuthError, InvalidMetadata, Throttled) as error:
        trail.count_refusal(site.name, request, error.reason if isinstance(error, Throttled) else error.code)
        return _refusal(error)
    except DisallowedHost:
        return _error("invalid_request", "This host is not served here (ALLOWED_HOSTS).", HTTPStatus.BAD_REQUEST)
    except SuspiciousOperation:
        return _error(
            "invalid_request", "The body is too long, or has too many parameters.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
    except DatabaseError as error:
        if not is_outage(error):
            raise
        logger.exception("The authorization server cannot reach its database")
        said = "The server cannot reach its database. Try again in a moment."
        return _error("temporarily_unavailable", said, HTTPStatus.SERVICE_UNAVAILABLE)


def _refusal(error: OAuthError | InvalidMetadata | Throttled) -> HttpResponse:
    if isinstance(error, Throttled):
        headers = {"Retry-After": str(error.retry_after)}
        return _error("temporarily_unavailable", error.message, HTTPStatus.TOO_MANY_REQUESTS, **headers)
    status = error.status if isinstance(error, OAuthError) else HTTPStatus.BAD_REQUEST
    return _error(error.code, str(error), status)


def _error(code: str, description: str, status: HTTPStatus, **headers: str) -> HttpResponse:
    return JsonResponse({"error": code, "error_description": description}, status=status, headers=headers)


# Metadata.


@_for_programs("GET", "HEAD", is_secret=False)
def resource_metadata(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The metadata of the endpoint (RFC 9728)."""
    return _document(metadata.of_resource(site, paths.issuer_of(request), scopes_to_ask_for(site)))


@_for_programs("GET", "HEAD", is_secret=False)
def server_metadata(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The metadata of the authorization server (RFC 8414), as ``openid-configuration`` too."""
    return _document(metadata.of_server(paths.issuer_of(request), scopes_to_ask_for(site)))


@_for_programs("GET", "HEAD", is_secret=False)
def keys(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The JWK set that clients of OpenID want: empty, since no token is signed."""
    return _document({"keys": []})


def _document(document: JSON) -> HttpResponse:
    # The document names the host of the request, which a shared cache might give to everybody.
    shared = "public" if get_conf().OAUTH_ORIGIN else "private"
    return JsonResponse(document, headers={"Cache-Control": f"{shared}, max-age={_MAX_AGE}", "Vary": "Host"})


# Tokens.


@_for_programs("POST")
@sensitive_variables()
def token(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The token endpoint (RFC 6749 §3.2): ``authorization_code`` with PKCE, and ``refresh_token``."""
    throttling.admit(request)
    form = _form(request)
    names, resource = clients.keys_of(_client_id(request, form)), check_resource(request, form)
    match _value(form, "grant_type"):
        case "authorization_code":
            verifier = Secret(_value(form, "code_verifier"))
            if not _VERIFIER.fullmatch(verifier):
                raise OAuthError("invalid_request", "code_verifier must have 43 to 128 characters (RFC 7636).")
            found = grants.redeem_code(
                Secret(_needed(form, "code")),
                clients=names,
                redirect_uri=_value(form, "redirect_uri"),
                verifier=verifier,
                resource=resource,
            )
        case "refresh_token":
            found = grants.refresh(
                Secret(_needed(form, "refresh_token")),
                site=site,
                clients=names,
                scopes=known(_value(form, "scope").split()),
                resource=resource,
            )
        case "":
            raise OAuthError("invalid_request", "Send grant_type.")
        case _:
            raise OAuthError("unsupported_grant_type", "grant_type is authorization_code or refresh_token.")
    return JsonResponse({
        "access_token": found.access,
        "token_type": "Bearer",
        "expires_in": grants.TOKEN_SECONDS,
        "refresh_token": found.refresh,
        "scope": " ".join(found.scopes),
    })  # fmt: skip


@_for_programs("POST")
@sensitive_variables()
def revoke(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The revocation endpoint (RFC 7009 §2): ends the grant of the token. A token that is not known is no error."""
    throttling.admit(request)
    form = _form(request)
    plain = Secret(_needed(form, "token"))
    client_id = _client_id(request, form)
    grants.revoke(plain, clients.keys_of(client_id) if client_id else None)
    return HttpResponse(status=HTTPStatus.OK)


@_for_programs("POST")
def register(request: HttpRequest, site: MCPSite) -> HttpResponse:
    """The registration endpoint (RFC 7591 §3). It stores nothing: the client_id is the registration itself."""
    mode = get_conf().OAUTH_REGISTRATION
    if mode == "off":
        raise OAuthError("access_denied", "Clients cannot register here. Publish a client ID metadata document.")
    throttling.admit(request)
    try:
        payload = json.loads(_body(request))
    except (ValueError, RecursionError):
        raise InvalidMetadata("invalid_client_metadata", "Send a JSON object.") from None
    if not isinstance(payload, dict):
        raise InvalidMetadata("invalid_client_metadata", "Send a JSON object.")
    _, answer = registration.register(payload, mode)
    return JsonResponse(answer, status=HTTPStatus.CREATED)


def _body(request: HttpRequest) -> bytes:
    body = request.read(_MAX_BODY_BYTES + 1)
    if len(body) > _MAX_BODY_BYTES:
        raise RequestDataTooBig
    return body


def _form(request: HttpRequest) -> QueryDict:
    """The parameters, of which none comes twice (RFC 6749 §3.2). Raises OAuthError."""
    if request.content_type != "application/x-www-form-urlencoded":
        raise OAuthError("invalid_request", "Send application/x-www-form-urlencoded.")
    form = QueryDict(_body(request), encoding="utf-8", mutable=True)
    for name in _SECRETS.intersection(form):
        form.setlist(name, map(Secret, form.getlist(name)))
    check_single(form)
    return form


def check_single(form: QueryDict) -> None:
    """Raises OAuthError for a parameter that came twice, which only ``resource`` may (RFC 8707 §2)."""
    if any(len(values) > 1 and name != "resource" for name, values in form.lists()):
        raise OAuthError("invalid_request", "A parameter came twice.")


def _value(form: QueryDict, name: str) -> str:
    """A parameter; a Secret, if it is one. Empty where it is missing."""
    return form.get(name) or ""


def _needed(form: QueryDict, name: str) -> str:
    """A parameter that must be there. Raises OAuthError."""
    if not _value(form, name):
        raise OAuthError("invalid_request", f"Send {name}.")
    return _value(form, name)


def _client_id(request: HttpRequest, form: QueryDict) -> str:
    """The client that claims to ask: in the body, or as the name of Basic credentials, whose secret is ignored."""
    scheme, _, encoded = map(Secret, (request.META.get("HTTP_AUTHORIZATION") or "").partition(" "))
    if _value(form, "client_id") or scheme.lower() != "basic":
        return _value(form, "client_id")
    try:
        # Ids have colons of their own, or come encoded (RFC 6749 §2.3.1).
        return unquote_plus(base64.b64decode(encoded, validate=True).decode().rpartition(":")[0])
    except (binascii.Error, ValueError):
        return ""


def check_resource(request: HttpRequest, form: QueryDict) -> str:
    """Our resource. Raises OAuthError if the client names another one (RFC 8707 §2)."""
    ours = paths.resource_at(paths.issuer_of(request))
    if any(paths.normalized(asked) != paths.normalized(ours) for asked in form.getlist("resource") if asked):
        raise OAuthError("invalid_target", "This server issues tokens for its own MCP endpoint alone.")
    return ours
