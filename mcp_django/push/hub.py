"""The hub: one object per process and event loop, which receives changes and notifies the listeners concerned.

Every event is checked against the rights of each distinct principal again: in the workers, and never on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import time
from collections import Counter, defaultdict, deque
from collections.abc import Coroutine, Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from mcp_django.core.events.bus import LocalBus, get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import EVERYBODY, Control, ControlKind, ControlSet
from mcp_django.core.running.workers import get_workers
from mcp_django.protocol.errors import Overloaded, Paused
from mcp_django.push import credentials, session_streams, task_watch, visibility
from mcp_django.push.follower import Follower
from mcp_django.push.identities import Identity
from mcp_django.push.list_changes import ListWatch, concerns_lists
from mcp_django.push.listeners import Delivery, Listener
from mcp_django.push.live_queries import LiveQueries
from mcp_django.push.retries import Retries
from mcp_django.push.sessions.session_rows import remembered
from mcp_django.push.subscriptions import Subscription
from mcp_django.push.sweep import sweep
from mcp_django.push.waiters import Waiters

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site
    from mcp_django.push.presence import Connected


logger = logging.getLogger("mcp_django")

#: Bytes of the URIs that one principal may watch in one process, on all streams and sockets together.
MAX_WATCHED_BYTES = 16_000_000
#: Principals that are checked in one call of a worker.
_PRINCIPALS_PER_CALL = 250
#: The number of such calls at a time: while one waits for the database another goes on, and most workers stay free for
#: requests.
_CHECKS_AT_ONCE = 2
#: Listeners that are notified before the loop writes to them, and looks at anything else.
_NOTIFIED_AT_ONCE = 100
_STREAMS_PER_SESSION = 4
#: Only a process of the project can add one, by a page that a person opens.
_REMEMBERED_CALLS = 1_000


class Member(Protocol):
    """Something open that ends when its principal's credentials end: a stream, a socket."""

    @property
    def is_counted(self) -> bool:
        """Whether it counts for MAX_LISTENS."""

    @property
    def site(self) -> Site: ...

    @property
    def principal(self) -> Principal: ...

    @property
    def request(self) -> MCPRequest:
        """The request that its credentials came with."""

    @property
    def session_key(self) -> str | None:
        """The key of the stored session with which it ends, if there is one."""

    @property
    def transport(self) -> str:
        """The transport by which its client is connected."""

    def close(self, *, going_away: bool = False) -> None:
        """End it: because its credentials have ended, or because the process is ``going_away``."""

    def pause(self, paused: Paused) -> None:
        """End it, and tell its client why, where it is nothing that may run to its end. Called at each sweep."""


class Hub:
    """The open streams and sockets of this process, and the index of what they watch."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        #: Names it among the hubs of all processes.
        self.id = secrets.token_hex(8)
        self._closed = False
        #: In the order in which they came.
        self._listeners: dict[Listener, None] = {}
        #: Digest of the key of a stored session → its listeners, in the order in which they came.
        self._by_session: dict[str, dict[Listener, None]] = defaultdict(dict)
        #: Each with the key of its principal, and with the time when it came.
        self._members: dict[Member, tuple[str, float]] = {}
        self._by_principal: dict[str, set[Member]] = defaultdict(set)
        #: Token → what it is lent, as the last sweep has found it.
        self.lent: dict[int, credentials.Lent] = {}
        #: The roll calls that it has answered.
        self.answered: deque[str] = deque(maxlen=_REMEMBERED_CALLS)
        self.lists = ListWatch()
        self.live = LiveQueries(self)
        self.retries = Retries(self)
        #: Concrete label → subscription → its listener: an event costs as much as it has matches.
        self._index: dict[str, dict[Subscription, Listener]] = defaultdict(dict)
        #: Key of a principal → bytes of the URIs that it watches.
        self._watched_bytes: Counter[str] = Counter()
        self._inbox = Changes()
        self._controls = ControlSet()
        self._inbox_lock = Lock()
        self._woken = asyncio.Event()
        self.waiters = Waiters(loop)
        self._tasks: set[asyncio.Task[None]] = set()
        self.delivery = Delivery(loop)
        self._bus = get_bus()
        self._start(self._work())
        self._start(sweep(self))
        self._start(self.lists.work())
        self._start(self.retries.work())
        for work in self.live.works():
            self._start(work)
        if isinstance(self._bus, LocalBus):
            self._bus.join(self)
        else:
            self._start(Follower(self, self._bus).follow())

    # Members. On the loop.

    def add(self, listener: Listener) -> None:
        if self._closed:
            listener.close(going_away=True)
        self._listeners[listener] = None
        if listener.session_name is not None:
            self._by_session[listener.session_name][listener] = None
        self._enter(listener)
        self.lists.add(listener)
        for subscription in listener.subscriptions.values():
            self._follow(subscription, listener)
        if listener.tasks:
            # Their state is sent at once: they may have changed before the stream opened.
            self.receive(Changes(), [Control(ControlKind.TASK, key) for key in listener.tasks])
        # A stream of a session is muted until it watches what the session watches: see ``arrange``.
        listener.muted = listener.session_key is not None

    def watch(self, listener: Listener, subscription: Subscription) -> None:
        """Add a subscription to a listener that is open, and does not watch the URI yet."""
        if listener not in self._listeners or subscription.uri in listener.subscriptions:
            return
        listener.subscriptions[subscription.uri] = subscription
        self._follow(subscription, listener)

    def unwatch(self, listener: Listener, uri: str) -> None:
        subscription = listener.subscriptions.pop(uri, None)
        if subscription is not None:
            self._unfollow(subscription, listener)
            listener.discard(uri)

    def remove(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        self.leave(listener)
        self.lists.remove(listener)
        for subscription in listener.subscriptions.values():
            self._unfollow(subscription, listener)
        if listener.session_name is not None:
            self._by_session[listener.session_name].pop(listener, None)
            if not self._by_session[listener.session_name]:
                del self._by_session[listener.session_name]
            self.arrange(listener.session_name)
            active = next((other for other in self.listeners_of(listener.session_name) if not other.muted), None)
            if active is not None:
                active.take_over(listener)

    def has_room(self, listener: Listener, subscriptions: Iterable[Subscription]) -> bool:
        """Whether the listener's principal may watch these too."""
        more = sum(len(subscription.uri) for subscription in subscriptions)
        return not more or self._watched_bytes[listener.principal.key] + more <= MAX_WATCHED_BYTES

    def _follow(self, subscription: Subscription, listener: Listener) -> None:
        subscription.is_followed = True
        self._watched_bytes[listener.principal.key] += len(subscription.uri)
        if subscription.is_live:
            self.live.add(subscription, listener)
        else:
            for label in subscription.labels:
                self._index[label][subscription] = listener

    def _unfollow(self, subscription: Subscription, listener: Listener) -> None:
        subscription.is_followed = False
        if subscription.is_live:
            was_followed = self.live.remove(subscription, listener)
        else:
            found = [self._index[label].pop(subscription, None) for label in subscription.labels]
            was_followed = found[0] is not None
        if was_followed:
            self._watched_bytes[listener.principal.key] -= len(subscription.uri)
            if not self._watched_bytes[listener.principal.key]:
                del self._watched_bytes[listener.principal.key]

    def join(self, member: Member) -> None:
        self._enter(member)
        if self._closed:
            member.close(going_away=True)

    def _enter(self, member: Member) -> None:
        key, _ = self._members.setdefault(member, (member.principal.key, time.time()))
        self._by_principal[key].add(member)

    def leave(self, member: Member) -> None:
        key, _ = self._members.pop(member, (None, 0.0))
        if key is not None:
            self._by_principal[key].discard(member)
            if not self._by_principal[key]:
                del self._by_principal[key]

    def listeners_of(self, session_name: str) -> list[Listener]:
        """The open streams of a stored session, the oldest first."""
        return list(self._by_session.get(session_name, ()))

    def streams_of(self, principal_key: str) -> int:
        """How many of the principal's streams in this process count for MAX_LISTENS."""
        return sum(member.is_counted for member in self._by_principal.get(principal_key, ()))

    def members(self) -> list[Member]:
        return list(self._members)

    def connections(self) -> list[Connected]:
        """The members of each connection with the times when they came, the newest connection first.

        A socket and its listens share a request.
        """
        found: dict[int, Connected] = {}
        for member, (_, since) in self._members.items():
            found.setdefault(id(member.request), []).append((member, since))
        return list(reversed(found.values()))

    def has(self, listener: Listener) -> bool:
        return listener in self._listeners

    def listeners(self) -> list[Listener]:
        return list(self._listeners)

    @property
    def is_empty(self) -> bool:
        return not self._members

    def arrange(self, session_name: str) -> None:
        """Send each message of a session on its newest stream only, and end the oldest of too many streams."""
        for position, listener in enumerate(reversed(self.listeners_of(session_name))):
            listener.muted = position > 0
            if position >= _STREAMS_PER_SESSION:
                listener.close()

    def close(self) -> None:
        """End every stream and every task of the hub. A member that comes later is ended at once."""
        was_closed, self._closed = self._closed, True
        if isinstance(self._bus, LocalBus):
            self._bus.leave(self)
        for member in list(self._members):
            member.close(going_away=True)
        # Servers call this more than once, and a second cancellation would interrupt the clearing up after the first.
        # ``task.cancelling()`` is no sign of the first one: a timeout inside the task sets it too.
        for task in () if was_closed else self._tasks:
            task.cancel()

    # Events. From any thread.

    def receive(self, changes: Changes, controls: Iterable[Control]) -> None:
        """Take in an event. The loop handles it, together with the events that come meanwhile."""
        with self._inbox_lock:
            self._inbox.absorb(changes)
            self._controls.absorb(controls)
        # A loop that is closed has no listeners left.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._woken.set)

    def resync(self) -> None:
        """Notify every subscription that may be concerned by an event that was missed."""
        missed = Changes()
        followed = {label for label, subscriptions in self._index.items() if subscriptions and label}
        for label in followed | self.live.labels:
            missed.note(visibility.ANY_DATABASE, label, written=None)
        self.receive(missed, [EVERYBODY])

    # The hub's own tasks.

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        # A TaskGroup whose task fails while the group is being cancelled raises the failure, and not the cancellation.
        while not self._closed:
            await self._woken.wait()
            self._woken.clear()
            with self._inbox_lock:
                changes, self._inbox = self._inbox, Changes()
                controls, self._controls = self._controls, ControlSet()
            try:
                await self._handle(changes, controls)
            except Exception:
                logger.exception("An event could not be handled; all subscribers concerned are notified")
                await asyncio.sleep(1)
                self.resync()

    async def _handle(self, changes: Changes, controls: ControlSet) -> None:
        if any(concerns_lists(control) for control in controls):
            credentials.forget(controls)
            self.lists.receive(controls)
        for control in sorted(controls):
            await self._handle_control(control)
        cancelled = controls.keys_of(ControlKind.CANCEL)
        if cancelled:
            self._start(self.waiters.look_for_cancelled(cancelled))
        calls = [control for control in controls if control.kind is ControlKind.ROLL_CALL]
        if calls:
            from mcp_django.push import presence

            self._start(presence.answer(self, calls))
        with contextlib.suppress(Overloaded):  # The sweep looks again.
            await task_watch.notify(self, controls.keys_of(ControlKind.TASK))
        self.live.receive(changes, controls)
        waiting = self._concerned(changes)
        batches = iter([waiting[i : i + _PRINCIPALS_PER_CALL] for i in range(0, len(waiting), _PRINCIPALS_PER_CALL)])
        async with asyncio.TaskGroup() as checks:
            for _ in range(min(_CHECKS_AT_ONCE, len(waiting))):
                checks.create_task(self._check_all(batches, changes))

    def _concerned(self, changes: Changes) -> list[visibility.EqualRights]:
        """The subscriptions that the changes may concern, by the rights of their principals."""
        groups: dict[Identity, visibility.EqualRights] = {}
        for (_, label), change in changes.items():
            for subscription, listener in visibility.concerned(self._index.get(label, {}), label, change):
                group = groups.get(listener.identity)
                if group is None:
                    group = groups[listener.identity] = visibility.EqualRights(listener)
                group.subscriptions[subscription] = listener
        return list(groups.values())

    async def _check_all(self, batches: Iterator[list[visibility.EqualRights]], changes: Changes) -> None:
        for batch in batches:
            await self._check(batch, changes)

    async def _check(self, batch: list[visibility.EqualRights], changes: Changes) -> None:
        while True:
            try:
                found = await get_workers().run(visibility.check, batch, changes)
                break
            except Overloaded:
                await asyncio.sleep(0.05)
        for group, checked in zip(batch, found, strict=True):
            for number, subscription in enumerate(checked.notify, 1):
                self.notify(subscription, group.subscriptions[subscription])
                if not number % _NOTIFIED_AT_ONCE:
                    # Their frames are written before the next ones are looked for.
                    await asyncio.sleep(0)
            if checked.later:
                self.retries.put(group, checked, changes)

    def notify(self, subscription: Subscription, listener: Listener) -> bool:
        """Notify a client that its resource has changed; False if all streams of its session are still muted.

        Nothing happens where its client has given the subscription up meanwhile.
        """
        if not subscription.is_followed:
            return True
        active = self._active(listener) if listener.muted else listener
        active.notify_updated(subscription.uri)
        return not active.muted

    def _active(self, listener: Listener) -> Listener:
        """The stream of the listener's session that is not muted: a newer one may have taken over meanwhile."""
        if listener.session_name is None:
            return listener
        others = self.listeners_of(listener.session_name)
        return next((other for other in others if not other.muted), listener)

    async def _handle_control(self, control: Control) -> None:
        """Wake what waits for the control, and reload the streams of a stored session that was changed."""
        self.waiters.wake(control)
        if control.kind not in (ControlKind.SESSION, ControlKind.STALE_SESSION):
            return
        remembered.forget(control.key)
        for listener in self.listeners_of(control.key):
            try:
                await session_streams.reload(self, listener, missed=control.kind is ControlKind.STALE_SESSION)
            except Overloaded:
                continue  # The sweep looks again.
            except Exception:
                logger.exception("The resources of a session could not be read; trying again")

    def look_later(self, listener: Listener, unknown: list[Subscription], notified: list[Subscription]) -> None:
        """Check subscriptions in a retry, as if all of their rows had changed."""
        group, everything = visibility.EqualRights(listener), Changes()
        for subscription in unknown:
            group.subscriptions[subscription] = listener
            for label in subscription.labels:
                everything.note(visibility.ANY_DATABASE, label, written=None)
        self.retries.put(group, visibility.Checked(later=unknown), everything, notified=notified)

    def end(self, member: Member) -> None:
        """Remove a member that is no longer allowed, and close it."""
        self.leave(member)
        member.close()


_hubs: dict[asyncio.AbstractEventLoop, Hub] = {}
_hubs_lock = Lock()


def find_hub() -> Hub | None:
    """The hub of the running loop, if one was made."""
    return _hubs.get(asyncio.get_running_loop())


def get_hub() -> Hub:
    """The hub of the running loop, made at first use."""
    hub = find_hub()
    if hub is None:
        loop = asyncio.get_running_loop()
        hub = Hub(loop)
        with _hubs_lock:
            for other in [other for other in _hubs if other.is_closed()]:
                del _hubs[other]
            _hubs[loop] = hub
    return hub


def serving_hubs() -> list[Hub]:
    """The hubs of this process that can answer."""
    with _hubs_lock:
        return [hub for loop, hub in _hubs.items() if loop.is_running()]


def close_hubs() -> None:
    """End every hub of the process, each on its own loop."""
    with _hubs_lock:
        hubs = list(_hubs.items())
        _hubs.clear()
    for loop, hub in hubs:
        with contextlib.suppress(RuntimeError):  # The loop is over, and with it every listener.
            loop.call_soon_threadsafe(hub.close)


# The loops of the parent do not run in a forked child.
os.register_at_fork(after_in_child=_hubs.clear)
