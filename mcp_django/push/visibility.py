"""What of a change a principal may be told: asked in a worker, with the rows that the principal may see now.

A record is told of while it is visible, and once more when it is deleted or leaves the view. A collection is told of
rows that are visible, and of the going of rows that were. Any exception means: invisible.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from django.contrib.auth import get_user_model

from mcp_django.access import overrides
from mcp_django.access.authentication import authenticate_again, principals
from mcp_django.db.outages import is_outage
from mcp_django.events.changes import Changes, ModelChange
from mcp_django.exchange.requests import MCPRequest
from mcp_django.models import AccessToken, Session, WatchedResource
from mcp_django.options.row_hooks import shows_every_row
from mcp_django.protocol.errors import MCPError, TooSlow
from mcp_django.push.listeners import Listener, Subscription, watch, watched_keys
from mcp_django.push.prefetch import Together, Visible
from mcp_django.resources import rows
from mcp_django.resources.policy import ModelRights, Rights

if TYPE_CHECKING:
    from mcp_django.push.hub import Member

logger = logging.getLogger("mcp_django")
#: The alias of a change of which nobody knows where it happened: each queryset is asked on its own database.
ANY_DATABASE = ""
#: Credentials that are no tokens of ours cost queries of their own to try, so a sweep tries so many.
_TRIED_AGAIN_PER_TURN = 50
_KEYS_PER_QUERY = 1_000


class Group:
    """The subscriptions of principals with equal rights: asked once for all of them."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.subscriptions: dict[Subscription, Listener] = {}


def forget() -> None:
    """Drop what this process remembers of principals and switches."""
    principals.clear()
    overrides.forget()


def concerns(subscription: Subscription, change: ModelChange) -> bool:
    """Whether the change may touch the watched resource, before anything is asked of the database."""
    target = subscription.target
    if target is None:
        return False
    if target.kind == "collection" or change.written is None:
        return True
    return subscription.key in change.written or subscription.key in change.deleted


#: Label of a model, and whether the question is about records.
Kind = tuple[str, bool]


def kind_of(subscription: Subscription) -> Kind:
    """Of the questions of a kind one takes as long as another."""
    return subscription.concrete, subscription.target is not None and subscription.target.is_of_record


@dataclass(slots=True)
class Checked:
    """What was found out of a group."""

    #: The subscriptions to notify.
    tell: list[Subscription] = field(default_factory=list)
    #: Those of which it could not be found out: they are to be asked about again, in this order.
    later: list[Subscription] = field(default_factory=list)
    #: The kinds of questions that took too long: see ``kind_of``.
    slow: set[Kind] = field(default_factory=set)
    #: The database is away.
    is_away: bool = False


def told(groups: list[Group], changes: Changes) -> list[Checked]:
    """For each group what to tell. After a question that took too long all others are left for later.

    Everybody else's events wait behind this call. What is asked about later already is left to that.
    """
    found: list[Checked] = []
    is_late = False
    together = Together([group.listener for group in groups])
    for group in groups:
        waiting = [subscription for subscription in group.subscriptions if subscription.is_waiting]
        if is_late:
            found.append(Checked(later=list(group.subscriptions)))
            continue
        asked = group.subscriptions.keys() - set(waiting) if waiting else group.subscriptions
        checked = _check(group, asked, changes, together)
        is_late = bool(checked.later)
        checked.later += waiting
        found.append(checked)
    return found


def asked_again(group: Group, changes: Changes) -> Checked:
    """What to tell a group of which that could not be found out before."""
    return _check(group, group.subscriptions, changes, Together())


def _check(group: Group, subscriptions: Collection[Subscription], changes: Changes, together: Together) -> Checked:
    listener, checked = group.listener, Checked()
    waiting = deque(subscriptions)
    if not waiting:
        return checked
    try:
        request = together.request_of(listener)
        with listener.site.call_context(request):
            sight = Sight(Rights.of(listener.site, request), subscriptions, together.visible(listener))
            while waiting and not checked.slow:
                try:
                    if _is_told(waiting[0], sight, changes):
                        checked.tell.append(waiting[0])
                    waiting.popleft()
                except TooSlow:
                    checked.slow.add(kind_of(waiting[0]))
                    waiting = deque(sorted(waiting, key=lambda subscription: kind_of(subscription) in checked.slow))
    except MCPError:
        return checked  # The credentials no longer hold; the sweep ends the stream.
    except BaseException as error:
        if not is_outage(error):
            logger.exception("The check before a push failed; nobody is told")
            return checked
        logger.warning("What may be told cannot be found out yet: %s", error)
        checked.is_away = True
    if checked.slow:
        logger.warning("The check before a push took longer than STATEMENT_SECONDS; it is made again")
    checked.later = list(waiting)
    return checked


def _is_told(subscription: Subscription, sight: Sight, changes: Changes) -> bool:
    """Whether a change is told. Raises TooSlow, and what a database raises that is away."""
    for (alias, label), change in changes.items():
        if label != subscription.concrete or not concerns(subscription, change):
            continue
        try:
            if _tell(subscription, sight, alias, change):
                return True
        except MCPError:
            raise
        except BaseException as error:
            if is_outage(error):
                raise
            # Of the other changes it is told all the same: this one may be forged.
            logger.exception("The check of %s before a push failed; it is not told", subscription.uri)
    return False


def presumed(group: Group, changes: Changes) -> list[Subscription]:
    """Those of a group to tell, whose rows the database does not let us look at: by what was visible the last time.

    Only their right to the model is asked anew. Of rows that nobody knows to have been visible, nobody is told.
    """
    site = group.listener.site
    try:
        request = current_request(group.listener)
        with site.call_context(request):
            rights = Rights.of(site, request)
            return [
                subscription
                for subscription in group.subscriptions
                if any(
                    _presume(subscription, rights, change)
                    for (_, label), change in changes.items()
                    if label == subscription.concrete and concerns(subscription, change)
                )
            ]
    except MCPError:
        return []  # The credentials no longer hold; the sweep ends the stream.
    except BaseException as error:
        if not is_outage(error):
            logger.exception("Who saw what has changed could not be found out; nobody is told")
        return []


def _presume(subscription: Subscription, rights: Rights, change: ModelChange) -> bool:
    if subscription.target is None or rights.of_label(subscription.target.label) is None:
        return False
    if subscription.target.is_of_record:
        return subscription.visible
    if change.written is None:
        return True
    return subscription.keys is not None and not subscription.keys.isdisjoint(change.written | change.deleted)


def current_request(listener: Listener) -> MCPRequest:
    """A request of the listener's principal, as its credentials give it now. Raises MCPError."""
    return Together().request_of(listener)


class Sight:
    """What a principal sees of the rows that an event concerns: asked once, however many subscriptions there are."""

    def __init__(
        self, rights: Rights, subscriptions: Iterable[Subscription], visible_to_others: Visible | None = None
    ) -> None:
        self._rights = rights
        self._visible_to_others = visible_to_others
        self._watched: dict[str, set[str]] = defaultdict(set)
        for subscription in subscriptions:
            if subscription.target is not None and subscription.target.is_of_record:
                self._watched[subscription.target.label].add(subscription.key)
        #: (label, alias) → keys of watched records, and of rows that were touched, that are visible.
        self._records: dict[tuple[str, str], set[str]] = {}
        self._touched: dict[tuple[str, str], set[str]] = {}
        self._collections: dict[str, frozenset[str] | None] = {}

    def model(self, label: str) -> ModelRights | None:
        return self._rights.of_label(label)

    def record(self, model: ModelRights, key: str, alias: str) -> bool:
        """Whether the record is visible, which one of the subscriptions watches."""
        place = (model.label, alias)
        if place not in self._records:
            self._records[place] = self._visible(model, self._watched[model.label], alias)
        return key in self._records[place]

    def touched(self, model: ModelRights, change: ModelChange, alias: str) -> set[str]:
        """The keys of those rows of the change that are visible."""
        place = (model.label, alias)
        if place not in self._touched:
            self._touched[place] = self._visible(model, (change.written or set()) | change.deleted, alias)
        return self._touched[place]

    def collection(self, model: ModelRights) -> frozenset[str] | None:
        """The keys of all visible rows: see ``Subscription.keys``."""
        if model.label not in self._collections:
            self._collections[model.label] = watched_keys(model)
        return self._collections[model.label]

    def _visible(self, model: ModelRights, keys: Collection[str], alias: str) -> set[str]:
        others = self._visible_to_others
        if others is None or model.model_mcp.checks_objects or not shows_every_row(model.model_mcp):
            return _visible(model, keys, alias)
        place = (model.label, alias, frozenset(keys))
        if place not in others:
            others[place] = _visible(model, keys, alias)
        return others[place]


def _visible(model: ModelRights, keys: Collection[str], alias: str) -> set[str]:
    found: set[str] = set()
    waiting = sorted(keys)
    for start in range(0, len(waiting), _KEYS_PER_QUERY):
        found |= rows.visible_keys(model, waiting[start : start + _KEYS_PER_QUERY], using=alias or None)
    return found


def _tell(subscription: Subscription, sight: Sight, alias: str, change: ModelChange) -> bool:
    target = subscription.target
    if target is None or target.kind == "schema":
        return False
    model = sight.model(target.label)
    if target.is_of_record:
        return _tell_record(subscription, sight, model, alias)
    return model is not None and _tell_collection(subscription, sight, model, alias, change)


def _tell_record(subscription: Subscription, sight: Sight, model: ModelRights | None, alias: str) -> bool:
    seen = subscription.visible
    # A key that was deleted is asked for too: it may be there again, by what was told before or will be told after.
    subscription.visible = model is not None and sight.record(model, subscription.key, alias)
    return seen or subscription.visible


def _tell_collection(
    subscription: Subscription, sight: Sight, model: ModelRights, alias: str, change: ModelChange
) -> bool:
    if change.written is None:
        subscription.remember(model, sight.collection)
        return True
    if subscription.unscoped and not model.scoped:
        return True
    visible = sight.touched(model, change, alias)
    gone = subscription.follow(change.written | change.deleted, visible)
    if gone is None:
        gone = model.model_mcp.tell_unseen_deletes and bool(change.deleted)
    return bool(visible) or gone


def subscriptions(listener: Listener, watched: Mapping[str, str]) -> list[Subscription]:
    """Subscriptions to what a stored session watches, as ``session_uris`` has it."""
    found: list[Subscription] = []
    for uri, digest in sorted(watched.items()):
        subscription = watch(listener.site, uri)
        if subscription is None:
            continue
        if subscription.is_live:
            subscription.digest, subscription.is_stored = digest, bool(digest)
        found.append(subscription)
    return found


def unseen(listener: Listener, added: list[Subscription]) -> tuple[list[Subscription], list[Subscription]]:
    """Those of the subscriptions that the principal may not see, and those of which that cannot be found out in time.

    The latter count as visible, as they were when the session subscribed.
    """
    found: list[Subscription] = []
    waiting = deque(added)
    try:
        request = current_request(listener)
        with listener.site.call_context(request):
            while waiting:
                if not waiting[0].look(listener.site, request):
                    found.append(waiting[0])
                waiting.popleft()
    except BaseException as error:
        if isinstance(error, TooSlow) or is_outage(error):
            logger.warning("What a session watches cannot be looked at yet: %s", type(error).__name__)
            for subscription in waiting:
                subscription.visible = True
            return found, [subscription for subscription in waiting if not subscription.is_live]
        if isinstance(error, MCPError):
            return added, []  # The credentials no longer hold; the sweep ends the stream.
        logger.exception("What a session watches could not be looked at; it counts as invisible")
        return [*found, *waiting], []
    return found, []


def session_uris(key: str | None) -> dict[str, str] | None:
    """What a stored session watches, with the digests that it has of live queries; None if it has ended."""
    if key is None or not Session.objects.live().filter(pk=key).exists():
        return None
    return dict(WatchedResource.objects.filter(session=key).values_list("uri", "digest"))


def ended(members: list[Member], turn: int) -> tuple[list[Member], dict[Listener, set[str]]]:
    """The members whose credentials or session no longer hold, and what the stored sessions of the others watch.

    One query for all tokens, one for all other users, and a few for all sessions, whatever the number of streams. Other
    credentials than tokens are tried again, some of them at each ``turn``.
    """
    valid_tokens = _valid_tokens({m.principal.token_id for m in members if m.principal.token_id is not None})
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


def _valid_tokens(keys: set[int]) -> set[int]:
    """Those of the tokens that let their users in. Asked every second, so no more is read than has to be."""
    tokens = AccessToken.objects.current().filter(pk__in=keys)
    if any(field.name == "is_active" for field in get_user_model()._meta.concrete_fields):
        return set(tokens.filter(user__is_active=True).values_list("pk", flat=True))
    return {token.pk for token in tokens.select_related("user") if token.user.is_active}


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
        except BaseException as error:
            # Of nobody else this says anything.
            logger.warning("Credentials could not be tried again: %s", error, exc_info=not is_outage(error))
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
