"""What of a change a principal may be told: asked in a worker, with the rows that the principal may see now.

A record is told of while it is visible, and once more when it is deleted or leaves the view. A collection is told of
rows that are visible, and of the going of rows that were. Any exception means: invisible.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model
from django.db import InterfaceError, OperationalError

from mcp_django.access import switches
from mcp_django.access.authentication import authenticate_again, principals
from mcp_django.access.requests import MCPRequest
from mcp_django.conf import get_conf
from mcp_django.models import AccessToken, Session, WatchedResource
from mcp_django.protocol.errors import MCPError, TooSlow
from mcp_django.push import posted, questions
from mcp_django.push.changes import Changes, ModelChange
from mcp_django.push.listeners import Listener, Subscription, watch
from mcp_django.resources import rows
from mcp_django.resources.policy import ModelRights, Rights

if TYPE_CHECKING:
    from mcp_django.push.hub import Member

logger = logging.getLogger("mcp_django")


#: The alias of a change of which nobody knows where it happened: each queryset is asked on its own database.
ANY_DATABASE = ""


#: Credentials that are no tokens of ours cost queries of their own to try, so a sweep tries so many.
_TRIED_AGAIN_PER_TURN = 50


class Group:
    """The subscriptions of principals with equal rights: asked once for all of them."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.subscriptions: dict[Subscription, Listener] = {}


def forget() -> None:
    """Drop what this process remembers of principals and switches."""
    principals.clear()
    switches.forget()


def concerns(subscription: Subscription, change: ModelChange) -> bool:
    """Whether the change may touch the watched resource, before anything is asked of the database."""
    target = subscription.target
    if target is None:
        return False
    if target.kind == "collection" or change.written is None:
        return True
    return subscription.key in change.written or subscription.key in change.deleted


def told(groups: list[Group], changes: Changes) -> list[list[Subscription]]:
    """For each group the subscriptions to notify."""
    return [_told(group, changes) for group in groups]


def _told(group: Group, changes: Changes) -> list[Subscription]:
    site = group.listener.site
    try:
        request = current_request(group.listener)
        with site.call_context(request):
            return [
                subscription
                for subscription in group.subscriptions
                if any(
                    _tell(subscription, Rights.of(site, request), alias, change)
                    for (alias, label), change in changes.items()
                    if label == subscription.concrete and concerns(subscription, change)
                )
            ]
    except TooSlow:
        logger.warning("The check before a push took longer than STATEMENT_SECONDS; nobody is told")
        return []
    except MCPError:
        return []  # The credentials no longer hold; the sweep ends the stream.
    except (OperationalError, InterfaceError):
        raise  # The database is away: nothing is known, and the hub asks again.
    except Exception:
        logger.exception("The check before a push failed; nobody is told")
        return []


def current_request(listener: Listener) -> MCPRequest:
    """A request of the listener's principal, as its credentials give it now. Raises MCPError."""
    request = listener.request.copy()
    return request.for_principal(authenticate_again(listener.principal, request))


def _tell(subscription: Subscription, rights: Rights, alias: str, change: ModelChange) -> bool:
    target = subscription.target
    model = rights.of_label(target.label) if target is not None else None
    if target is None or target.kind == "schema":
        return False
    if target.is_of_record:
        return _tell_record(subscription, model, alias)
    return model is not None and _tell_collection(subscription, model, alias, change)


def _tell_record(subscription: Subscription, model: ModelRights | None, alias: str) -> bool:
    seen = subscription.visible
    # A key that was deleted is asked for too: it may be there again, by what was told before or will be told after.
    subscription.visible = model is not None and bool(rows.visible_keys(model, [subscription.key], using=alias or None))
    return seen or subscription.visible


def _tell_collection(subscription: Subscription, model: ModelRights, alias: str, change: ModelChange) -> bool:
    if change.written is None:
        subscription.remember(model)
        return True
    if subscription.unscoped and not model.scoped:
        return True
    touched = change.written | change.deleted
    visible = rows.visible_keys(model, list(touched), using=alias or None)
    known = subscription.keys
    if known is None:
        known_gone = model.model_mcp.tell_unseen_deletes and bool(change.deleted)
        return bool(visible) or known_gone
    gone = (known & touched) - visible
    known = (known - gone) | visible
    subscription.keys = known if len(known) <= get_conf().MAX_WATCHED_KEYS else None
    return bool(visible or gone)


def subscriptions(listener: Listener, uris: Iterable[str]) -> list[Subscription]:
    found = (watch(listener.site, uri) for uri in sorted(uris))
    return [subscription for subscription in found if subscription is not None]


def unseen(listener: Listener, added: list[Subscription]) -> list[Subscription]:
    """Those of the subscriptions that the principal may not see."""
    try:
        request = current_request(listener)
        with listener.site.call_context(request):
            return [subscription for subscription in added if not subscription.look(listener.site, request)]
    except MCPError:
        return added  # The credentials no longer hold; the sweep ends the stream.
    except Exception:
        logger.exception("What a session watches could not be looked at; it counts as invisible")
        return added


def session_uris(key: str | None) -> set[str] | None:
    """What a stored session watches; None if it has ended."""
    if key is None or not Session.objects.live().filter(pk=key).exists():
        return None
    return set(WatchedResource.objects.filter(session=key).values_list("uri", flat=True))


def arrived(addresses: Collection[str]) -> list[str]:
    """Those of the addresses for which something came that the bus may not have told of."""
    asked = {address.removeprefix("question:") for address in addresses if address.startswith("question:")}
    found = [f"question:{question_id}" for question_id in questions.answered(asked)] if asked else []
    return [*found, *(posted.arrived(addresses) if addresses else ())]


def ended(members: list[Member], turn: int) -> tuple[list[Member], dict[Listener, set[str]]]:
    """The members whose credentials or session no longer hold, and what the stored sessions of the others watch.

    One query for all tokens, one for all other users, and a few for all sessions, whatever the number of streams. Other
    credentials than tokens are tried again, some of them at each ``turn``.
    """
    tokens = AccessToken.objects.filter(
        pk__in={m.principal.token_id for m in members if m.principal.token_id is not None}
    ).select_related("user")
    valid_tokens = {token.pk for token in tokens if token.is_valid()}
    others = [m for m in members if m.principal.token_id is None and m.principal.user.is_authenticated]
    # An authentication class may make users of its own, whom only their credentials can prove.
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
            return principal.token_id in valid_tokens
        is_stored = isinstance(principal.user, user_model)
        return member not in refused and (not is_stored or principal.user.pk in valid_users)

    over = {member for member in members if not holds(member)}
    sessions = {
        member: watched.get(member.session_key, set())
        for member in members
        if isinstance(member, Listener) and member.session_key is not None and member not in over
    }
    return list(over), sessions


def _refused(members: list[Member], turn: int) -> set[Member]:
    """Those of some of the members whose login or whose project-made credential is over."""
    if not members:
        return set()
    start = turn * _TRIED_AGAIN_PER_TURN % len(members)
    refused = set()
    for member in (members + members)[start : start + min(_TRIED_AGAIN_PER_TURN, len(members))]:
        try:
            authenticate_again(member.principal, member.request.copy())
        except MCPError:
            refused.add(member)
    return refused


def _sessions(keys: set[str]) -> tuple[set[str], dict[str, set[str]]]:
    """Those of the stored sessions that live, and what they watch. An open stream keeps its session alive."""
    if not keys:
        return set(), {}
    live = list(Session.objects.live().filter(pk__in=keys))
    for session in live:
        session.renew()
    watched: dict[str, set[str]] = {}
    for key, uri in WatchedResource.objects.filter(session__in=keys).values_list("session", "uri"):
        watched.setdefault(key, set()).add(uri)
    return {session.pk for session in live}, watched
