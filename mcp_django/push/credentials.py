"""Whether the credentials and sessions of open streams and sockets still hold: looked up in a worker."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from django.contrib.auth import get_user_model
from django.utils import timezone

from mcp_django.access import overrides, pauses
from mcp_django.access.authentication import authenticate_again, principals
from mcp_django.access.refused_tokens import admits
from mcp_django.core.db.outages import is_outage
from mcp_django.core.events.controls import Control, ControlKind, ControlSet
from mcp_django.exceptions import MCPError
from mcp_django.models import AccessToken, Grant, Session, WatchedResource
from mcp_django.protocol.errors import Paused
from mcp_django.push.listeners import Listener

if TYPE_CHECKING:
    from mcp_django.push.hub import Member

logger = logging.getLogger("mcp_django")

#: Each credential that is no token of ours costs queries of its own to try, so one sweep tries this many of them.
_TRIED_AGAIN_PER_TURN = 50


def forget(controls: ControlSet) -> None:
    """Drop what this process remembers of the principals and overrides that the controls concern."""
    users = controls.keys_of(ControlKind.ACCESS)
    if any(not control.key for control in controls):
        principals.clear()
        overrides.forget()
    elif users:
        principals.forget_users(users)


#: Scopes that a token is lent, each with its end, and whether that is still to come.
Lent = frozenset[tuple[str, float, bool]]


class Compared(NamedTuple):
    """What a sweep has found in the database."""

    #: The members whose credentials or session no longer hold.
    ended: list[Member]
    #: The URIs that the stored sessions of the others watch.
    sessions: dict[Listener, set[str]]
    #: What each of their tokens is lent.
    lent: dict[int, Lent]
    #: Those of the others that a person has paused.
    paused: list[tuple[Member, Paused]]


def compared(members: list[Member], turn: int) -> Compared:
    """Compare the members with the database.

    There is one query for all tokens, one for all other users, and a few for all sessions, whatever the number of
    streams. Credentials other than tokens are tried again, some of them at each ``turn``.
    """
    by_token: dict[int, list[Member]] = defaultdict(list)
    by_session: dict[str, list[Member]] = defaultdict(list)
    others: list[Member] = []
    # Thousands of sockets may be open: while this thread computes, the loop writes hardly anything.
    for member in members:
        principal, session_key = member.principal, member.session_key
        if principal.token_id is not None:
            by_token[principal.token_id].append(member)
        elif principal.user.is_authenticated:
            others.append(member)
        if session_key is not None:
            by_session[session_key].append(member)
    valid = _valid(by_token)
    over = set(_ended_tokens(by_token, valid)) | set(_ended_logins(others, turn))
    live, watched = _sessions(set(by_session))
    sessions: dict[Listener, set[str]] = {}
    for key, open_ones in by_session.items():
        if key not in live:
            over.update(open_ones)
        sessions |= {one: watched.get(key, set()) for one in open_ones if isinstance(one, Listener) and one not in over}
    now = timezone.now().timestamp()
    lent = {key: frozenset((name, end, end > now) for name, end in one.lent.items()) for key, one in valid.items()}
    return Compared(list(over), sessions, lent, pauses.among([one for one in members if one not in over]))


def changed_rights(members: Iterable[Member], before: Mapping[int, Lent], found: Compared) -> list[Control]:
    """Controls for the users of tokens that are lent something else than ``before``: one has begun, or has ended."""
    moved = {key for key, lent in found.lent.items() if lent != before.get(key, frozenset())}
    asked = [member.principal for member in members] if moved else []
    users = {str(one.user.pk) for one in asked if one.token_id in moved}
    return [Control(ControlKind.ACCESS, user) for user in sorted(users)]


def _valid(by_token: Mapping[int, list[Member]]) -> dict[int, _Held]:
    """The tokens that hold, or what they opened."""
    by_grant = {key: members[0].principal.grant_id for key, members in by_token.items()}
    valid = _valid_tokens({key for key, grant in by_grant.items() if grant is None})
    return valid | _continued_tokens({key: grant for key, grant in by_grant.items() if grant is not None})


def _ended_tokens(by_token: Mapping[int, list[Member]], valid: Mapping[int, _Held]) -> Iterator[Member]:
    """The members whose token is no longer valid, or not for the address or the endpoint of their request."""
    for key, members in by_token.items():
        held = valid.get(key)
        if held is None:
            yield from members
        elif held.addresses or held.resource:
            yield from (one for one in members if not admits(held.addresses, held.resource, one.request))


def _ended_logins(members: list[Member], turn: int) -> Iterator[Member]:
    """The members whose credential is no token of ours, and no longer accepted; those of inactive users too."""
    # An authentication class may create users that are not in the database: only their credentials can be tried.
    user_model = get_user_model()
    stored = {m.principal.user.pk for m in members if isinstance(m.principal.user, user_model)}
    # Not every user model has a column is_active.
    active = {user.pk for user in user_model._default_manager.filter(pk__in=stored) if user.is_active}
    refused = _refused(members, turn)
    for member in members:
        is_stored = isinstance(member.principal.user, user_model)
        if member in refused or (is_stored and member.principal.user.pk not in active):
            yield member


class _Held(NamedTuple):
    """What a token is bound to, and what it is lent."""

    addresses: list[str]
    resource: str
    lent: Mapping[str, float]


def _valid_tokens(keys: set[int]) -> dict[int, _Held]:
    """The tokens that are valid still.

    This runs every second, so it reads no more than it must.
    """
    tokens = AccessToken.objects.current().filter(pk__in=keys)
    if any(field.name == "is_active" for field in get_user_model()._meta.concrete_fields):
        rows = tokens.filter(user__is_active=True).order_by().values_list("pk", "addresses", "resource", "lent")
        return {key: _Held(*held) for key, *held in rows}
    found = (one for one in tokens.select_related("user") if one.user.is_active)
    return {one.pk: _Held(one.addresses, one.resource, one.lent) for one in found}


def _continued_tokens(grants: Mapping[int, int]) -> dict[int, _Held]:
    """The same for tokens of grants: what they opened goes on while the grant holds. ``grants``: token → its grant."""
    if not grants:
        return {}
    current = Grant.objects.current().select_related("user").filter(pk__in=set(grants.values()))
    held = {grant.pk: _Held([], grant.resource, grant.lent) for grant in current if grant.user.is_active}
    revoked = set(AccessToken.objects.filter(pk__in=grants, revoked_at__isnull=False).values_list("pk", flat=True))
    return {key: held[grant] for key, grant in grants.items() if grant in held and key not in revoked}


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
