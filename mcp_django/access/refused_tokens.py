"""Why an access token lets nobody in: what its holder is told, and what stands in the audit trail alone.

Whoever sends a token has its secret, and is told that it has expired or was revoked. That its user is inactive, or that
it is for another address or endpoint, is not theirs to know: to them it looks like a token that does not exist.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from django.core.exceptions import DisallowedHost
from django.utils import timezone
from rest_framework.exceptions import AuthenticationFailed

from mcp_django.access.permissions import page_for_tokens
from mcp_django.exchange.addresses import client_address, is_within
from mcp_django.exchange.audience import origin, resource_of
from mcp_django.protocol.errors import Unauthenticated

if TYPE_CHECKING:
    from django.http import HttpRequest

    from mcp_django.models import AccessToken

UNKNOWN = "The token is unknown, expired or revoked."
#: What a text within quotes of WWW-Authenticate may not hold (RFC 6750 §3).
_NOT_IN_QUOTES = re.compile(r"[^\x20\x21\x23-\x5b\x5d-\x7e]")


def admits(addresses: Collection[str], resource: str, request: HttpRequest | None) -> bool:
    """Whether a token that is bound to these addresses and to this resource may be used by the request.

    Every way to a principal asks here. Without addresses it may come from anywhere, and without a resource it may go to
    every endpoint.
    """
    if addresses and (request is None or not is_within(client_address(request), addresses)):
        return False
    return not resource or (request is not None and _goes_to(resource, request))


def _goes_to(resource: str, request: HttpRequest) -> bool:
    try:
        return resource == resource_of(request)
    except DisallowedHost:
        return False


class RefusedToken(NamedTuple):
    """One way in which a token may be refused."""

    #: As the trail has it: see ``models.reasons``.
    reason: str
    holds: Callable[[AccessToken, Any], bool]
    #: What its holder is told, with the moment of its end; None: what is told of an unknown token.
    told: Callable[[AccessToken], str] | None = None


#: The first that holds counts. Those that the holder is not told come first, so that nothing is told beside them.
REFUSALS: Sequence[RefusedToken] = (
    RefusedToken("INACTIVE", lambda token, request: not token.user.is_active),
    RefusedToken("WRONG_ADDRESS", lambda token, request: not admits(token.addresses, "", request)),
    RefusedToken("WRONG_RESOURCE", lambda token, request: not admits((), token.resource, request)),
    RefusedToken(
        "REVOKED", lambda token, request: token.revoked_at is not None,
        lambda token: f"This token was revoked on {_moment(token.revoked_at)}",
    ),
    RefusedToken(
        "EXPIRED", lambda token, request: not token.is_current(),
        lambda token: f"This token expired on {_moment(token.expires_at)}",
    ),
)  # fmt: skip


class TokenRefused(AuthenticationFailed):
    """A token lets nobody in. The detail is for its holder; reason and token are for the audit trail."""

    def __init__(self, token: AccessToken | None, request: Any) -> None:
        found = None if token is None else next((one for one in REFUSALS if one.holds(token, request)), None)
        self.token = None if found is None else token
        self.reason = "" if found is None else found.reason
        self.is_told = found is not None and found.told is not None
        told = UNKNOWN
        if token is not None and found is not None and found.told is not None:
            told = f"{found.told(token)}; {_what_then(token, request)}"
        super().__init__(told)


def unauthenticated(refused: AuthenticationFailed, challenge: str, message: str = "") -> Unauthenticated:
    """The error of the protocol for a refusal. A ``message`` takes the place of what is told of an unknown token."""
    told, challenge = str(refused.detail), f'{challenge}, error="invalid_token"'
    if not isinstance(refused, TokenRefused):
        return Unauthenticated(told, challenge)
    if refused.is_told and challenge.startswith("Bearer"):
        challenge += f', error_description="{_NOT_IN_QUOTES.sub("?", told)}"'
    told = told if refused.is_told else message or told
    return Unauthenticated(told, challenge, trail_reason=refused.reason, token=refused.token)


def _what_then(token: AccessToken, request: Any) -> str:
    """What the holder of a token can do that has ended."""
    if token.grant_id is not None:
        return "log in again"
    page = page_for_tokens(token.user)
    if page is not None:
        with suppress(DisallowedHost):
            return f"make a new one at {origin(request)}{page}"
    return "ask an administrator for a new one"


def _moment(at: datetime | None) -> str:
    """A time in words that every reader understands, whatever zone it is in."""
    if at is None:
        return "an unknown day"
    return f"{at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC" if timezone.is_aware(at) else f"{at:%Y-%m-%d at %H:%M}"
