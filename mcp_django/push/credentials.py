"""Whether the credentials and sessions of open streams and sockets still hold: looked up in a worker."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model

from mcp_django.access import overrides
from mcp_django.access.authentication import authenticate_again, may_come_from, principals
from mcp_django.db.outages import is_outage
from mcp_django.exceptions import MCPError
from mcp_django.models import AccessToken, Session, WatchedResource
from mcp_django.push.listeners import Listener

if TYPE_CHECKING:
    from mcp_django.push.hub import Member

logger = logging.getLogger("mcp_django")

#: Each credential that is no token of ours costs queries of its own to try, so one sweep tries this many of them.
_TRIED_AGAIN_PER_TURN = 50


def forget() -> None:
    """Drop what this process remembers of principals and overrides."""
    principals.clear()
    overrides.forget()


def ended(members: list[Member], turn: int) -> tuple[list[Member], dict[Listener, set[str]]]:
    """The members whose credentials or session no longer hold, and the URIs that the others' stored sessions watch.

    There is one query for all tokens, one for all other users, and a few for all sessions, whatever the number of
    streams. Credentials other than tokens are tried again, some of them at each ``turn``.
    """
    valid_tokens = _valid_tokens({m.principal.token_id for m in members if m.principal.token_id is not None})
    others = [m for m in members if m.principal.token_id is None and m.principal.user.is_authenticated]
    # An authentication class may create users that are not in the database: only their credentials can be tried.
    user_model = get_user_model()
    stored = {m.principal.user.pk for m in others if isinstance(m.principal.user, user_model)}
    # Not every user model has a column is_active.
    valid_users = {user.pk for user in user_model._default_manager.filter(pk__in=stored) if user.is_active}
    refused = _refused(others, turn)
    keys = {member: member.session_key for member in members}
    live, watched = _sessions({key for key in keys.values() if key is not None})

    def holds(member: Member) -> bool:
        if keys[member] is not None and keys[member] not in live:
            return False
        principal = member.principal
        if principal.token_id is not None:
            addresses = valid_tokens.get(principal.token_id)
            return addresses is not None and may_come_from(addresses, member.request)
        is_stored = isinstance(principal.user, user_model)
        return member not in refused and (not is_stored or principal.user.pk in valid_users)

    over = {member for member in members if not holds(member)}
    sessions = {
        member: watched.get(member.session_key, set())
        for member in members
        if isinstance(member, Listener) and member.session_key is not None and member not in over
    }
    return list(over), sessions


def _valid_tokens(keys: set[int]) -> dict[int, list[str]]:
    """The tokens that are valid still, each with the addresses that it is bound to.

    This runs every second, so it reads no more than it must.
    """
    tokens = AccessToken.objects.current().filter(pk__in=keys)
    if any(field.name == "is_active" for field in get_user_model()._meta.concrete_fields):
        return dict(tokens.filter(user__is_active=True).order_by().values_list("pk", "addresses"))
    return {token.pk: token.addresses for token in tokens.select_related("user") if token.user.is_active}


def _refused(members: list[Member], turn: int) -> set[Member]:
    """The members whose login or other credential is no longer accepted. Each turn tries some of them."""
    if not members:
        return set()
    start = turn * _TRIED_AGAIN_PER_TURN % len(members)
    refused = set()
    for member in (members + members)[start : start + min(_TRIED_AGAIN_PER_TURN, len(members))]:
        try:
            authenticate_again(member.principal, member.request.copy())
        except MCPError:
            refused.add(member)
        except BaseException as error:
            # This says nothing of the other members.
            logger.warning("Credentials could not be tried again: %s", error, exc_info=not is_outage(error))
    return refused


def _sessions(keys: set[str]) -> tuple[set[str], dict[str, set[str]]]:
    """The stored sessions that are live, and the URIs that they watch. An open stream keeps its session alive."""
    if not keys:
        return set(), {}
    live = list(Session.objects.live().filter(pk__in=keys))
    for session in live:
        session.renew()
    watched: dict[str, set[str]] = {}
    for key, uri in WatchedResource.objects.filter(session__in=keys).values_list("session", "uri"):
        watched.setdefault(key, set()).add(uri)
    return {session.pk for session in live}, watched
