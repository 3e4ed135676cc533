"""Tickets: each stands for an access token in the URL of a socket, once and for a short time.

Browsers and some clients cannot set a header on a WebSocket. URLs are kept in histories and logs, so no access token
belongs in one, while a used ticket is worth nothing there.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from mcp_django.access.authentication import CHALLENGE, address_key, known_key, principals
from mcp_django.access.refused_tokens import TokenRefused, unauthenticated
from mcp_django.access.throttling import failures
from mcp_django.access.throttling.failures import KnownCallers
from mcp_django.core.secret import Secret
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import AccessToken, Ticket, digest
from mcp_django.protocol.errors import Forbidden, Unauthenticated

SECONDS = 30
#: The most tickets that one token may have open. A new one displaces the oldest.
_MAX_OPEN = 100
_FORM = re.compile(r"[A-Za-z0-9_-]{43}")

#: The users of the tickets that this process has issued. They have a list of their own, since a caller who asks for
#: many tickets would otherwise displace the tokens of others.
_issued = KnownCallers(seconds=SECONDS)


def issue(principal: Principal) -> Secret:
    """A new ticket, of which only the hash is stored. Raises Unauthenticated and Forbidden without an access token."""
    if not principal.has_own_token:
        if not principal.user.is_authenticated:
            raise Unauthenticated("A ticket needs a token: send Authorization: Bearer <token>.", CHALLENGE)
        raise Forbidden("Only an access token of this site can get a ticket, and these credentials are another kind.")
    now = timezone.now()
    Ticket.objects.filter(expires_at__lte=now).delete()
    plain = Secret(secrets.token_urlsafe(32))
    Ticket.objects.create(
        hash=digest(plain), line=principal.lineage, grant_id=principal.grant_id, scopes=sorted(principal.scopes),
        expires_at=now + timedelta(seconds=SECONDS),
    )  # fmt: skip
    surplus = Ticket.objects.filter(line=principal.lineage).order_by("-expires_at", "-pk").values_list("pk", flat=True)
    Ticket.objects.filter(pk__in=list(surplus[_MAX_OPEN:])).delete()
    _issued.note(digest(plain), principal.key)
    return plain


def queue_key(plain: Secret, request: MCPRequest) -> str:
    """Names the bearer of a ticket for queues: by its user, if this process has issued it, or else by address."""
    return known_key(digest(plain), _issued) or address_key(request)


def burn(plain: Secret) -> None:
    """Delete the ticket of a request that is refused: somebody else may have read its URL."""
    Ticket.objects.filter(hash=digest(plain)).delete()


def redeem(plain: Secret, request: MCPRequest) -> Principal:
    """The principal that a ticket stands for: the token that asked for it, or the one that succeeded that token.

    It never has more scopes than the token that asked. A second use raises Unauthenticated, in whatever process.
    """
    has_form = _FORM.fullmatch(plain) is not None
    if failures.throttled and known_key(digest(plain), _issued) is None:
        failures.check(request)
    ticket = _claim(plain) if has_form else None
    found = None if ticket is None else principals.find_line(ticket.line, ticket.grant_id, request)
    if ticket is None or found is None:
        if has_form:
            failures.note(request)
        ended = TokenRefused(None if ticket is None else _newest(ticket), request)
        raise unauthenticated(ended, CHALLENGE, "The ticket is unknown, used or expired.")
    return replace(found.within(frozenset(ticket.scopes)), source=Source.TICKET)


def _claim(plain: Secret) -> Ticket | None:
    """The ticket, if it is used now for the first time."""
    found = Ticket.objects.filter(hash=digest(plain), expires_at__gt=timezone.now()).first()
    # Deleting the row claims the ticket: only one caller can.
    return found if found is not None and Ticket.objects.filter(pk=found.pk).delete()[0] else None


def _newest(ticket: Ticket) -> AccessToken | None:
    """The newest token of what asked for the ticket, whether or not it lets its user in."""
    tokens = AccessToken.objects.select_related("user").filter(line=ticket.line, grant=ticket.grant_id)
    return tokens.order_by("-pk").first()


def take(request: MCPRequest) -> Secret | None:
    """The ticket of the request that opens a socket, if it has any. Two count as a wrong one."""
    found = request.tickets
    return None if not found else found[0] if len(found) == 1 else Secret()
