"""Which subscriptions are notified of a change: checked in a worker, by the rows that each principal may see now.

A client is notified of a record while the record is visible, and once more when it is deleted or leaves the view. A
client is notified of a collection when a visible row changes, and when a row that was visible goes. A resource of the
project's own changes when it is reported, or with the collections that it names. After any exception the row counts as
invisible.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.core.db.outages import is_outage
from mcp_django.core.events.changed_rows import Changes, ModelChange
from mcp_django.exceptions import MCPError
from mcp_django.protocol.errors import TooSlow
from mcp_django.push.listeners import Listener
from mcp_django.push.prefetch import Prefetch, current_request
from mcp_django.push.sight import Sight, model_of
from mcp_django.push.subscriptions import Subscription

logger = logging.getLogger("mcp_django")
T = TypeVar("T")

#: The alias of a change whose database is unknown: each queryset is evaluated on its own database.
ANY_DATABASE = ""


class EqualRights:
    """The subscriptions of principals with equal rights, which are checked once for all of them."""

    def __init__(self, listener: Listener) -> None:
        self.listener = listener
        self.subscriptions: dict[Subscription, Listener] = {}


def concerns(subscription: Subscription, label: str, change: ModelChange) -> bool:
    """Whether the change may touch the watched resource, as far as that is known without a query."""
    if change.written is None or label != subscription.row_label:
        return True
    return subscription.key in change.written or subscription.key in change.deleted


def concerned(watched: Mapping[Subscription, T], label: str, change: ModelChange) -> Collection[tuple[Subscription, T]]:
    """Those of the watched resources that the change may touch, as far as that is known without a query."""
    if change.written is None:
        return watched.items()
    keys = change.written | change.deleted
    return [item for item in watched.items() if item[0].row_label != label or item[0].key in keys]


#: The label of a model, and whether its records are checked.
Kind = tuple[str, bool]


def kind_of(subscription: Subscription) -> Kind:
    """Checks of the same kind take about the same time."""
    return subscription.concrete, subscription.target is not None and subscription.target.is_of_record


@dataclass(slots=True)
class Checked:
    """The result of a check."""

    #: The subscriptions to notify.
    notify: list[Subscription] = field(default_factory=list)
    #: The subscriptions that could not be checked: they are to be checked again, in this order.
    later: list[Subscription] = field(default_factory=list)
    #: The kinds of checks that took too long: see ``kind_of``.
    slow: set[Kind] = field(default_factory=set)
    #: The database cannot be reached.
    is_away: bool = False


def check(groups: list[EqualRights], changes: Changes) -> list[Checked]:
    """Check each group. After a check that took too long, all others are left for later.

    The events of everybody else wait behind this call. A subscription that waits for a retry already is left to that.
    """
    found: list[Checked] = []
    is_late = False
    prefetch = Prefetch([group.listener for group in groups])
    for group in groups:
        waiting = [subscription for subscription in group.subscriptions if subscription.is_waiting]
        if is_late:
            found.append(Checked(later=list(group.subscriptions)))
            continue
        asked = group.subscriptions.keys() - set(waiting) if waiting else group.subscriptions
        checked = _check_one(group, asked, changes, prefetch)
        is_late = bool(checked.later)
        checked.later += waiting
        found.append(checked)
    return found


def check_again(group: EqualRights, changes: Changes) -> Checked:
    """Check subscriptions that could not be checked before."""
    return _check_one(group, group.subscriptions, changes, Prefetch())


def _check_one(
    group: EqualRights, subscriptions: Collection[Subscription], changes: Changes, prefetch: Prefetch
) -> Checked:
    listener, checked = group.listener, Checked()
    if not subscriptions:
        return checked
    waiting = deque(_by_uri(subscriptions))
    try:
        request = prefetch.request_of(listener)
        with listener.site.in_context(request):
            rights = Rights.of(listener.site, request)
            sight = Sight(rights, [alike[0] for alike in waiting], prefetch.visible(listener))
            while waiting and not checked.slow:
                try:
                    others = _check_alike(waiting[0], sight, changes, checked.notify)
                    waiting.popleft()
                    if others:
                        waiting.appendleft(others)
                except TooSlow:
                    checked.slow.add(kind_of(waiting[0][0]))
                    waiting = deque(sorted(waiting, key=lambda alike: kind_of(alike[0]) in checked.slow))
            rights.forget()
    except MCPError:
        return checked  # The credentials no longer hold; the sweep ends the stream.
    except BaseException as error:
        if not is_outage(error):
            logger.exception("The check before a push failed; no client is notified")
            return checked
        logger.warning("The check before a push cannot be made yet: %s", error)
        checked.is_away = True
    if checked.slow:
        logger.warning("The check before a push took longer than STATEMENT_SECONDS; it is made again")
    checked.later = [subscription for alike in waiting for subscription in alike]
    return checked


def _by_uri(subscriptions: Collection[Subscription]) -> list[list[Subscription]]:
    """Those of one resource together: thousands of sockets of a principal may watch the same."""
    found: dict[str, list[Subscription]] = {}
    for subscription in subscriptions:
        found.setdefault(subscription.uri, []).append(subscription)
    return list(found.values())


def _check_alike(
    alike: list[Subscription], sight: Sight, changes: Changes, notify: list[Subscription]
) -> list[Subscription]:
    """Check the first of the subscriptions to one resource, and those that remember the same; returns the others.

    Those to notify are added to ``notify``.
    """
    first = alike[0]
    before = visible, unscoped, keys = first.seen()
    must_notify = _must_notify(first, sight, changes)
    # What the parts of a declared resource remember is theirs.
    same = (
        [first]
        if first.parts
        else [
            one
            for one in alike
            if one is first or (one.visible is visible and one.unscoped is unscoped and one.keys is keys)
        ]
    )
    after = first.seen()
    if after != before:
        same = [one for one in same if one is first or one.see(after, instead_of=before)]
    if must_notify:
        notify += same
    if len(same) == len(alike):
        return []
    checked = set(same)
    return [one for one in alike if one not in checked]


def _must_notify(subscription: Subscription, sight: Sight, changes: Changes) -> bool:
    """Whether any of the changes is one to notify. Raises TooSlow, and the errors of a database that is away."""
    for (alias, label), change in changes.items():
        is_of_part = label != subscription.concrete
        if (is_of_part and label not in subscription.labels) or not concerns(subscription, label, change):
            continue
        try:
            if _is_concerned(subscription, sight, (alias, label), change):
                return True
        except MCPError:
            raise
        except BaseException as error:
            if is_outage(error):
                raise
            # The other changes are checked all the same: this one may be forged.
            logger.exception("The check of %s before a push failed; its client is not notified", subscription.uri)
    return False


def presume(group: EqualRights, changes: Changes) -> list[Subscription]:
    """The subscriptions to notify where the database does not let us look at the rows: by what was visible before.

    Only the right to the model is checked again. Nobody is notified of rows that are not known to have been visible.
    """
    site = group.listener.site
    try:
        request = current_request(group.listener)
        with site.in_context(request):
            rights = Rights.of(site, request)
            return [
                subscription
                for subscription in group.subscriptions
                if any(
                    _was_visible(subscription, rights, label, change)
                    for (_, label), change in changes.items()
                    if label in subscription.labels and concerns(subscription, label, change)
                )
            ]
    except MCPError:
        return []  # The credentials no longer hold; the sweep ends the stream.
    except BaseException as error:
        if not is_outage(error):
            logger.exception("The rights to a changed model could not be checked; no client is notified")
        return []


def _was_visible(subscription: Subscription, rights: Rights, label: str, change: ModelChange) -> bool:
    if subscription.is_of_row:
        return subscription.visible
    if subscription.target is None:
        return Sight(rights, ()).declared(subscription.uri) and (
            label == subscription.concrete
            or any(_was_visible(part, rights, label, change) for part in subscription.parts if part.concrete == label)
        )
    if model_of(subscription, rights) is None:
        return False
    if subscription.target.is_of_record:
        return subscription.visible
    if change.written is None:
        return True
    return subscription.keys is not None and not subscription.keys.isdisjoint(change.written | change.deleted)


def _is_concerned(subscription: Subscription, sight: Sight, place: tuple[str, str], change: ModelChange) -> bool:
    """``place``: the alias and the label of the change."""
    (alias, label), target = place, subscription.target
    if subscription.is_of_row:
        seen = subscription.visible
        return sight.row(subscription) or seen
    if target is None:
        # Each collection remembers what is visible now, also while the resource itself is not there.
        changed = [_is_concerned(part, sight, place, change) for part in subscription.parts if part.concrete == label]
        return (label == subscription.concrete or any(changed)) and sight.declared(subscription.uri)
    if target.kind == "schema":
        return False
    model = sight.model(subscription)
    if target.is_of_record:
        return _record_is_concerned(subscription, sight, model, alias)
    return model is not None and _collection_is_concerned(subscription, sight, model, alias, change)


def _record_is_concerned(subscription: Subscription, sight: Sight, model: ModelRights | None, alias: str) -> bool:
    seen = subscription.visible
    # A deleted key is looked up too: an earlier or a later event may have created the row again.
    subscription.visible = model is not None and sight.record(model, subscription.key, alias)
    return seen or subscription.visible


def _collection_is_concerned(
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
        gone = model.model_mcp.notify_unseen_deletes and bool(change.deleted)
    return bool(visible) or gone
