"""Listeners: streams of notifications, each with the resources, lists and tasks that its client watches.

``Delivery`` writes to one connection after another in one task, and another task goes on when a client makes it wait:
waking a task for each of thousands of sockets would cost as much as writing their frames.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from mcp_django.core.events.controls import named
from mcp_django.protocol.jsonrpc import SUBSCRIPTION_ID_META_KEY, RequestId, encode, notification_message
from mcp_django.protocol.revisions import NEWEST
from mcp_django.protocol.types import JSON
from mcp_django.push.identities import Identity, identity_of
from mcp_django.push.subscriptions import Subscription

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site
    from mcp_django.protocol.errors import Paused

#: Lists whose changes clients can watch, by their names in the protocol. The kinds of the controls are the same.
LISTS = ("tools", "prompts", "resources")

_UPDATED = "notifications/resources/updated"

#: A stream that has not begun by then never will.
_BEGIN_SECONDS = 60.0


class NotificationWriter(Protocol):
    """Writes the notifications of a listener."""

    def wake(self) -> None:
        """The listener has notifications to take, or is closed."""


@dataclass(slots=True, eq=False, weakref_slot=True)
class Listener:
    """A stream of notifications. Two equal ones that are pending together are sent once.

    It is made in a worker, and notified, read and closed on the hub's loop.
    """

    site: Site
    principal: Principal
    request: MCPRequest
    #: The revision of its client, in which lists are compared.
    revision: str = NEWEST
    #: The id of the listen request, which tags its notifications; None for a legacy session's stream.
    subscription_id: RequestId | None = None
    #: Those of the LISTS that its client watches.
    lists: frozenset[str] = frozenset()
    #: Watched tasks: key → the time of the last change that the client was notified of.
    tasks: dict[str, datetime | None] = field(default_factory=dict)
    #: The key of the stored legacy session that the stream belongs to.
    session_key: str | None = None
    #: How its client is connected, and what the client calls itself: people see it.
    transport: str = ""
    client_name: str = ""
    #: Whether it watches what its session watches. Until then its stream is only being opened.
    is_settled: bool = False
    #: Whether its notifications are kept for a client that polls.
    is_polled: bool = False
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    closed: bool = False
    abandoned: bool = False
    #: Why the server has ended it, where its client is told so at its end.
    why: Paused | None = None
    #: Whether nothing is sent, since its principal is paused.
    is_held: bool = False
    #: A newer stream of the same session gets the notifications in this one's place.
    muted: bool = False
    #: Whether its notifications are being written.
    begun: bool = False
    #: When notifications were last taken to be written, in seconds since 1970.
    told_at: float | None = None
    #: Shared by the listeners that are checked together.
    identity: Identity = field(init=False)
    #: The digest of its session's key: see ``named``.
    session_name: str | None = field(init=False)
    #: The notifications to write, encoded: (method, key of the subject) → body.
    _pending: dict[tuple[str, str], bytes] = field(default_factory=dict)
    #: The notifications that were taken, and are being written.
    _taken: dict[tuple[str, str], bytes] = field(default_factory=dict)
    #: Woken when there is something to write: the call of ``next`` that waits, or the writer.
    _waiter: asyncio.Future[None] | None = None
    _writer: NotificationWriter | None = None
    _made_at: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.identity = identity_of(self.site, self.principal, self.request)
        self.session_name = None if self.session_key is None else named(self.session_key)

    @property
    def is_counted(self) -> bool:
        return self.subscription_id is not None or self.is_polled

    def discard(self, uri: str) -> None:
        """Drop the pending notification of a resource that is no longer watched."""
        self._pending.pop((_UPDATED, uri), None)

    def notify_updated(self, uri: str) -> None:
        self._put(_UPDATED, uri, _updated(uri, self.subscription_id))

    def notify_task(self, key: str, task: JSON) -> None:
        """Send the state of a task, in the place of an older one that is pending."""
        method = "notifications/tasks"
        self._put(method, key, _notification(method, task, self.subscription_id))

    def notify_list_changed(self, name: str) -> None:
        if name in self.lists:
            method = f"notifications/{name}/list_changed"
            self._put(method, "", _notification(method, {}, self.subscription_id))

    def close(self, *, going_away: bool = False) -> None:
        """End the stream: its reader gets what is pending, then None."""
        self.closed = True
        self._wake()

    def pause(self, paused: Paused) -> None:
        """End the stream. That of a session on stdio, which lasts as long as its process, is silent meanwhile."""
        if self.subscription_id is None and self.transport == "stdio":
            self.is_held = True
        elif not self.closed:
            self.why = paused
            self.close()

    def let_go_on(self) -> None:
        """Notify the client of everything that it watches: some of it may have changed during the pause."""
        self.is_held = False
        for name in sorted(self.lists):
            self.notify_list_changed(name)
        for uri in self.subscriptions:
            self.notify_updated(uri)

    def is_overdue(self) -> bool:
        """Whether its stream should have begun long ago, and did not since its client has gone."""
        return not self.begun and time.monotonic() - self._made_at > _BEGIN_SECONDS

    def abandon(self) -> None:
        """End the stream at once, without its pending notifications: its client has gone or cancelled it."""
        self.abandoned = True
        self._pending.clear()
        self.close()

    async def next(self) -> list[bytes] | None:
        """The pending notifications, encoded, at least one; None once the stream has ended."""
        self.begun = True
        self._taken = {}
        while not self._pending:
            if self.closed:
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.take()

    def write_to(self, writer: NotificationWriter) -> None:
        """Wake the writer when there is something to ``take``, and at the end. It stands in for ``next``."""
        self.begun = True
        self._writer = writer
        if self._pending or self.closed:
            writer.wake()

    def take(self) -> list[bytes]:
        """The pending notifications, encoded. The caller has written those that it took before."""
        if self._pending:
            self.told_at = time.time()
            self._taken, self._pending = self._pending, {}
            return list(self._taken.values())
        if self._taken:
            self._taken = {}
        return []

    def take_over(self, gone: Listener) -> None:
        """Send what a stream of the same session, whose client is gone, was to send and may not have written."""
        for (method, key), body in {**gone._taken, **gone._pending}.items():
            if method != _UPDATED or key in self.subscriptions:
                self._put(method, key, body)
        gone._taken, gone._pending = {}, {}

    def _put(self, method: str, key: str, body: bytes) -> None:
        if self.muted or self.abandoned or self.is_held:
            return
        pending = self._pending
        if pending:
            pending[method, key] = body
            return
        pending[method, key] = body
        if self._writer is not None:
            self._writer.wake()
        else:
            self._wake()

    def _wake(self) -> None:
        if self._writer is not None:
            self._writer.wake()
            return
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def _notification(method: str, params: JSON, subscription_id: RequestId | None) -> bytes:
    if subscription_id is not None:
        params = {**params, "_meta": {SUBSCRIPTION_ID_META_KEY: subscription_id}}
    return encode(notification_message(method, params or None))


@lru_cache(maxsize=1_024, typed=True)
def _updated(uri: str, subscription_id: RequestId | None) -> bytes:
    """Cached, since many listeners get the same bytes: most clients number their requests from 1."""
    return _notification(_UPDATED, {"uri": uri}, subscription_id)


#: Connections that are written to before the loop looks at anything else.
_AT_ONCE = 100


class Flushable(Protocol):
    """A connection with something to write."""

    async def flush(self, task: asyncio.Task[None]) -> None:
        """Write what is pending, however long that takes. It raises nothing. ``task`` is the running one."""


class Delivery:
    """The connections of one event loop that have something to write."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Flushable] = deque()
        self._is_due = False
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, connection: Flushable) -> None:
        """Let the connection be flushed soon. On the loop."""
        self._waiting.append(connection)
        if not self._is_due:
            self._schedule()

    def _schedule(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._begin)

    def _begin(self) -> None:
        """Start a task for the rest, once a turn of the loop: the last has done its share, or waits for a client."""
        self._is_due = False
        if self._waiting:
            task = self._loop.create_task(self._flush_some())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            self._schedule()

    async def _flush_some(self) -> None:
        task: Any = asyncio.current_task()
        waiting = self._waiting
        for _ in range(_AT_ONCE):
            if not waiting:
                return
            await waiting.popleft().flush(task)
