"""Streams of stored sessions: each watches what its session watches, and ends with it."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_django.core.db.outages import is_outage
from mcp_django.core.running.workers import get_workers
from mcp_django.exceptions import MCPError
from mcp_django.models import Session, WatchedResource
from mcp_django.protocol.errors import TooSlow
from mcp_django.push.prefetch import current_request
from mcp_django.push.subscriptions import Subscription, watch

if TYPE_CHECKING:
    from mcp_django.push.hub import Hub
    from mcp_django.push.listeners import Listener

logger = logging.getLogger("mcp_django")

# On the hub's loop.


async def reload(hub: Hub, listener: Listener, *, missed: bool) -> None:
    """Let a session's stream watch what the session watches, or end it with the session.

    ``missed``: no control came when that changed. So the client is notified once of each new resource, which may have
    changed in between.
    """
    wanted = await get_workers().run(session_uris, listener.session_key)
    if wanted is None:
        hub.end(listener)
        return
    for uri in listener.subscriptions.keys() - wanted.keys():
        hub.unwatch(listener, uri)
    new = wanted.keys() - listener.subscriptions.keys()
    added = subscriptions(listener, {uri: wanted[uri] for uri in new})
    if not hub.has_room(listener, added):
        # Its client opens another stream, and gets the reason as an error there.
        hub.end(listener)
        return
    # Indexed before they are looked at, so that no change falls between.
    for subscription in added:
        hub.watch(listener, subscription)
    if added:
        await _look(hub, listener, added, missed=missed)


async def _look(hub: Hub, listener: Listener, added: list[Subscription], *, missed: bool) -> None:
    """Look at the resources of new subscriptions, and notify the client of those where it may have missed something."""
    try:
        invisible, unknown = await get_workers().run(unseen, listener, added)
    except BaseException:
        # A subscription that was not looked at is given up: the sweep finds it missing, and reloads the stream.
        for subscription in added:
            hub.unwatch(listener, subscription.uri)
        raise
    # An invisible resource was visible when the session subscribed: the client is notified once that it is gone.
    # Of a live query it is known whether the answer has changed.
    notified = added if missed else invisible
    for subscription in notified:
        if not subscription.is_live:
            listener.notify_updated(subscription.uri)
    if unknown:
        hub.look_later(listener, unknown, notified=notified)


# In a worker.


def subscriptions(listener: Listener, watched: Mapping[str, str]) -> list[Subscription]:
    """Subscriptions to the URIs that a stored session watches, made of the result of ``session_uris``."""
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
    """The subscriptions that the principal may not see, and those that cannot be checked in time.

    The latter count as visible, as they were when the session subscribed.
    """
    found: list[Subscription] = []
    waiting = deque(added)
    try:
        request = current_request(listener)
        with listener.site.in_context(request):
            while waiting:
                if not waiting[0].look(listener.site, request):
                    found.append(waiting[0])
                waiting.popleft()
    except BaseException as error:
        if isinstance(error, TooSlow) or is_outage(error):
            logger.warning("The resources of a session cannot be checked yet: %s", type(error).__name__)
            for subscription in waiting:
                subscription.visible = True
            return found, [subscription for subscription in waiting if not subscription.is_live]
        if isinstance(error, MCPError):
            return added, []  # The credentials no longer hold; the sweep ends the stream.
        logger.exception("The resources of a session could not be checked; they count as invisible")
        return [*found, *waiting], []
    return found, []


def session_uris(key: str | None) -> dict[str, str] | None:
    """The URIs that a stored session watches, each with the digest of its live query; None if the session has ended."""
    if key is None or not Session.objects.live().filter(pk=key).exists():
        return None
    return dict(WatchedResource.objects.filter(session=key).values_list("uri", "digest"))
