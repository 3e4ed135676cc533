"""Giving listeners to the hub on behalf of a request, whose client may go away meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import LimitExceeded, RequestCancelled
from mcp_django.push import list_changes
from mcp_django.push.hub import MAX_WATCHED_BYTES, Hub, get_hub
from mcp_django.push.listeners import Listener
from mcp_django.push.session_streams import session_uris, subscriptions, unseen
from mcp_django.push.subscriptions import Subscription
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown

T = TypeVar("T")

_LOOP_SECONDS = 10.0


class Attachment:
    """The listeners of one request, or of one socket's session, in the hub of ``loop``.

    The methods for workers wait until the loop has done its part: a look at the database after them misses no change.
    """

    #: Set on the loop, when the first listener is added.
    _hub: Hub

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._listeners: list[Listener] = []
        self._gone = False

    # From a worker.

    def attach(self, listener: Listener) -> None:
        """Give the listener to the hub. Raises RequestCancelled where the client is gone, and LimitExceeded."""
        self._on_loop(lambda: self._add(listener))

    def attach_stream(self, listener: Listener) -> None:
        """Give the listener of a stored session to the hub, with what the session watches. Raises as ``attach``."""
        self.attach(listener)
        # Read only now: from here on no change of the session's subscriptions is missed.
        watched = subscriptions(listener, session_uris(listener.session_key) or {})
        self.watch(listener, watched)
        # Resources that vanished while no stream was open are reported when they are there again.
        _, unknown = unseen(listener, watched)
        self.look_later(listener, unknown)
        self._on_loop(lambda: self._settle(listener))
        with listener.site.in_context(listener.request):
            self.remember_lists(listener)

    def remember_lists(self, listener: Listener) -> None:
        """Remember the lists of the listener, so that it is notified when they change; in the call context.

        It reads only the lists that no other listener of equal rights has given to the hub already.
        """
        unknown = self._on_loop(lambda: self._hub.lists.unknown(listener)) if listener.lists else frozenset()
        if unknown:
            digests = list_changes.first_look(listener, unknown)
            self._on_loop(lambda: self._hub.lists.remember(listener, digests))

    def watch(self, listener: Listener, added: Collection[Subscription]) -> None:
        """Add subscriptions to a listener that the hub has. Raises LimitExceeded."""
        self._on_loop(lambda: self._watch(listener, added))

    def look_later(self, listener: Listener, unknown: list[Subscription]) -> None:
        """Look again at subscriptions that could not be looked at in time."""
        if unknown:
            self._on_loop(lambda: self._hub.look_later(listener, unknown, notified=unknown))

    def drop(self, listener: Listener, uris: Collection[str]) -> None:
        """Stop watching URIs, and drop their pending notifications."""
        if uris:
            self._on_loop(lambda: self._unwatch(listener, uris))

    def _on_loop(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(_LOOP_SECONDS)

    # On the loop.

    def leave(self, *, but: Listener | None = None) -> None:
        """Take the request's listeners out of the hub, except ``but``, that of a stream that it opened."""
        self._gone = True
        for listener in self._listeners:
            if listener is not but:
                self._hub.remove(listener)
                listener.abandon()

    def _settle(self, listener: Listener) -> None:
        """Let the newest stream of a session speak for it, now that this one watches what the session watches."""
        listener.is_settled = True
        self._hub.arrange(listener.session_name or "")

    def _watch(self, listener: Listener, added: Collection[Subscription]) -> None:
        self._check_room(listener, [one for one in added if one.uri not in listener.subscriptions])
        for subscription in added:
            self._hub.watch(listener, subscription)

    def _unwatch(self, listener: Listener, uris: Collection[str]) -> None:
        for uri in uris:
            self._hub.unwatch(listener, uri)

    def _add(self, listener: Listener) -> None:
        if self._gone:
            raise RequestCancelled
        self._hub = get_hub()
        limit = get_conf().MAX_LISTENS
        if listener.is_counted and self._hub.streams_of(listener.principal.key) >= limit:
            raise LimitExceeded(f"You have {limit} listens open (MAX_LISTENS). Close one of them.")
        self._check_room(listener, listener.subscriptions.values())
        close_hub_at_shutdown(self._hub)
        self._listeners.append(listener)
        self._hub.add(listener)

    def _check_room(self, listener: Listener, added: Iterable[Subscription]) -> None:
        if not self._hub.has_room(listener, added):
            raise LimitExceeded(
                f"The URIs that you watch would be longer than {MAX_WATCHED_BYTES} bytes. Close a listen."
            )
