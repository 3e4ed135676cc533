"""Answers for clients that need more scopes or a login, so that they can ask their user (step-up)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.db import router
from django.urls import reverse
from django.utils import timezone

from mcp_django.access import challenges, overrides
from mcp_django.access.authentication import CHALLENGE
from mcp_django.access.permissions import has_declined
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.results import error_result
from mcp_django.conf import OAUTH_APP
from mcp_django.exchange.exchange import Exchange, inspection_exchange
from mcp_django.models import Grant
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InsufficientScope, Unauthenticated
from mcp_django.protocol.revisions import STEP_UP_REVISIONS
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

#: Clients of OpenAI read challenges in results, and schemes in the tool list
#: (https://developers.openai.com/apps-sdk/build/auth).
_OPENAI = "https://chatgpt.com/oauth/"
_RESULT_META_KEY = "mcp/www_authenticate"


def result_of(exchange: Exchange, error: InsufficientScope) -> JSON | None:
    """The result of a call in the place of the error. None: the error itself is sent, as a 403 if it has a challenge.

    The 403 is for revisions that know it. What the user has declined is not asked for a second time.
    """
    is_call = exchange.method == "tools/call"
    if has_declined(exchange.request, error.needed, exchange.params.get("name")):
        text = f"{error.lacks} {_declined(exchange)}"
        return error_result(text) if is_call else None
    if wants_schemes(exchange.principal):
        challenge = _challenge(exchange.site, exchange.request, error)
        return {**error_result(error.message), "_meta": {_RESULT_META_KEY: [challenge]}} if is_call else None
    if exchange.connection.can_challenge and exchange.revision in STEP_UP_REVISIONS:
        add_challenge(exchange.site, exchange.request, error)
        return None
    return error_result(error.message) if is_call else None


def _declined(exchange: Exchange) -> str:
    page = exchange.request.build_absolute_uri(reverse("mcp_django:connected", current_app=exchange.site.name))
    return (
        "The user declined this when the app was connected, so do not try it again. To allow it, the user disconnects "
        f"the app under 'My agent' ({page}), and connects it again with that box ticked."
    )


def check_message(site: Site, request: MCPRequest, value: Any) -> None:
    """Raises InsufficientScope, with its challenge, for a call whose answer will come by another connection."""
    message = jsonrpc.parse(value)
    principal: Principal = request.mcp.principal
    if principal.grant_id is None or not isinstance(message, jsonrpc.Request) or message.method != "tools/call":
        return
    exchange = inspection_exchange(site, request.for_principal(principal, site), message.method)
    name = str(message.params.get("name"))
    try:
        catalog.exists(exchange, name)
    except InsufficientScope as error:
        if not has_declined(request, error.needed, name):
            add_challenge(site, request, error)
            raise


def check_login(exchange: Exchange) -> None:
    """Raises Unauthenticated for a tool that an anonymous caller has not, where logging in may help.

    It does so for any name, so that nobody learns which tools there are for others.
    """
    is_anonymous = exchange.principal.user.pk is None and exchange.principal.auth is None
    if is_anonymous and exchange.connection.can_challenge and apps.is_installed(OAUTH_APP):
        raise Unauthenticated("There is no such tool for callers who are not logged in.", CHALLENGE)


def wants_schemes(principal: Principal) -> bool:
    """Whether the client is one of OpenAI's."""
    return principal.grant_id is not None and str(principal.auth.client).startswith(_OPENAI)


def add_schemes(exchange: Exchange, listed: list[JSON]) -> None:
    """Say of each tool of a list which scope it needs."""
    tools = catalog.all_tools(exchange.site, overrides.tools.of(exchange))
    for one in listed:
        schemes = [{"type": "oauth2", "scopes": [tools[one["name"]].scope]}]
        one["securitySchemes"] = schemes
        one["_meta"] = {**one.get("_meta", {}), "securitySchemes": schemes}


def add_challenge(site: Site, request: MCPRequest, error: InsufficientScope) -> None:
    """Have the error answered with a 403 that asks for the scopes, and note in the grant that its client knows."""
    error.challenge = _challenge(site, request, error)
    alias = router.db_for_write(Grant)
    Grant.objects.using(alias).filter(pk=request.mcp.principal.auth.grant_id).update(challenged_at=timezone.now())


def _challenge(site: Site, request: MCPRequest, error: InsufficientScope) -> str:
    described = f'{CHALLENGE}, error="insufficient_scope", error_description="{error.message}"'
    return challenges.complete(described, site, request, error.wanted)
