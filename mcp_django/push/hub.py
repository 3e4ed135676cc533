"""The hub: one object per process and event loop that receives changes and tells those who watch.

Permission is asked again at every event, once for each distinct principal, in the workers and never on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import Counter, defaultdict
from collections.abc import Coroutine, Iterable, Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from mcp_django.conf import get_conf
from mcp_django.events.bus import LocalBus, get_bus
from mcp_django.events.changes import Changes
from mcp_django.events.transaction import ACCESS
from mcp_django.protocol.errors import Overloaded
from mcp_django.push import task_watch, visibility
from mcp_django.push.delivery import Delivery
from mcp_django.push.follower import Follower
from mcp_django.push.list_changes import ListWatch, concerns_lists
from mcp_django.push.listeners import Listener, Subscription
from mcp_django.push.live_queries import LiveQueries
from mcp_django.push.retries import Unanswered
from mcp_django.push.waiters import Addresses
from mcp_django.workers import get_workers

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest


logger = logging.getLogger("mcp_django")

#: Principals that are checked in one call of a worker.
_PRINCIPALS_PER_CALL = 100
#: Such calls at a time: while one waits for the database another goes on, and most workers are left for requests.
_CHECKS_AT_ONCE = 2
_STREAMS_PER_SESSION = 4
#: The controls that tell of a task begin with it.
_TASK = "task:"


class Member(Protocol):
    """Something open that ends when its principal may no longer be here: a stream, a socket."""

    @property
    def is_counted(self) -> bool:
        """Whether it is one of the streams that MAX_LISTENS bounds."""

    @property
    def principal(self) -> Principal: ...

    @property
    def request(self) -> MCPRequest:
        """The request that its credentials came with."""

    @property
    def session_key(self) -> str | None:
        """The stored session with which it ends, if there is one."""

    def close(self, *, going_away: bool = False) -> None:
        """End it: because its principal may no longer be here, or because the process is ``going_away``."""


class Hub:
    """The connections of this process that want to be told of changes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._closed = False
        #: In the order in which they came.
        self._listeners: dict[Listener, None] = {}
        #: Key of a stored session → its listeners, in the order in which they came.
        self._by_session: dict[str, dict[Listener, None]] = defaultdict(dict)
        #: Each with the key of its principal.
        self._members: dict[Member, str] = {}
        self._by_principal: dict[str, set[Member]] = defaultdict(set)
        self.lists = ListWatch()
        self.live = LiveQueries(self)
        self.unanswered = Unanswered(self)
        #: Concrete label → subscription → its listener: an event costs by its matches.
        self._index: dict[str, dict[Subscription, Listener]] = defaultdict(dict)
        #: Key of a principal → bytes of the URIs that it watches.
        self._watched_bytes: Counter[str] = Counter()
        self._inbox = Changes()
        self._controls: set[str] = set()
        self._inbox_lock = Lock()
        self._woken = asyncio.Event()
        self.addresses = Addresses(loop)
        self._tasks: set[asyncio.Task[None]] = set()
        self.delivery = Delivery(loop)
        self._bus = get_bus()
        self._start(self._work())
        self._start(self._sweep())
        self._start(self.lists.work())
        self._start(self.unanswered.work())
        for work in self.live.works():
            self._start(work)
        if isinstance(self._bus, LocalBus):
            self._bus.join(self)
        else:
            self._start(Follower(self, self._bus).follow())

    # Who is here. On the loop.

    def add(self, listener: Listener) -> None:
        if self._closed:
            listener.close(going_away=True)
        self._listeners[listener] = None
        if listener.session_key is not None:
            self._by_session[listener.session_key][listener] = None
        self._enter(listener)
        self.lists.add(listener)
        for subscription in listener.subscriptions.values():
            self._follow(subscription, listener)
        if listener.tasks:
            # How they stand is told at once: they may have changed before anybody watched.
            self.receive(Changes(), [_TASK + key for key in listener.tasks])
        # A session's stream speaks once it watches what the session watches: see ``arrange``.
        listener.muted = listener.session_key is not None

    def watch(self, listener: Listener, subscription: Subscription) -> None:
        """Add a subscription to a listener that is here, and does not watch the URI yet."""
        if listener not in self._listeners or subscription.uri in listener.subscriptions:
            return
        listener.subscriptions[subscription.uri] = subscription
        self._follow(subscription, listener)

    def unwatch(self, listener: Listener, uri: str) -> None:
        subscription = listener.subscriptions.pop(uri, None)
        if subscription is not None:
            self._unfollow(subscription, listener)
            listener.untell(uri)

    def remove(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        self.leave(listener)
        self.lists.remove(listener)
        for subscription in listener.subscriptions.values():
            self._unfollow(subscription, listener)
        if listener.session_key is not None:
            self._by_session[listener.session_key].pop(listener, None)
            if not self._by_session[listener.session_key]:
                del self._by_session[listener.session_key]
            self.arrange(listener.session_key)
            speaker = next((other for other in self.listeners_of(listener.session_key) if not other.muted), None)
            if speaker is not None:
                speaker.take_over(listener)

    def has_room(self, listener: Listener, subscriptions: Iterable[Subscription]) -> bool:
        """Whether its principal may watch these too: see MAX_WATCHED_BYTES."""
        more = sum(len(subscription.uri) for subscription in subscriptions)
        return not more or self._watched_bytes[listener.principal.key] + more <= get_conf().MAX_WATCHED_BYTES

    def _follow(self, subscription: Subscription, listener: Listener) -> None:
        self._watched_bytes[listener.principal.key] += len(subscription.uri)
        if subscription.is_live:
            self.live.add(subscription, listener)
        else:
            self._index[subscription.concrete][subscription] = listener

    def _unfollow(self, subscription: Subscription, listener: Listener) -> None:
        if subscription.is_live:
            was_followed = self.live.remove(subscription, listener)
        else:
            was_followed = self._index[subscription.concrete].pop(subscription, None) is not None
        if was_followed:
            self._watched_bytes[listener.principal.key] -= len(subscription.uri)
            if not self._watched_bytes[listener.principal.key]:
                del self._watched_bytes[listener.principal.key]

    def join(self, member: Member) -> None:
        self._enter(member)
        if self._closed:
            member.close(going_away=True)

    def _enter(self, member: Member) -> None:
        key = self._members.setdefault(member, member.principal.key)
        self._by_principal[key].add(member)

    def leave(self, member: Member) -> None:
        key = self._members.pop(member, None)
        if key is not None:
            self._by_principal[key].discard(member)
            if not self._by_principal[key]:
                del self._by_principal[key]

    def listeners_of(self, session_key: str) -> list[Listener]:
        """The open streams of a stored session, the oldest first."""
        return list(self._by_session.get(session_key, ()))

    def streams_of(self, principal_key: str) -> int:
        """How many listens and open questions the principal has in this process."""
        return sum(member.is_counted for member in self._by_principal.get(principal_key, ()))

    @property
    def is_empty(self) -> bool:
        return not self._members

    def arrange(self, session_key: str) -> None:
        """Each message of a session goes on one of its streams, the newest; of too many the oldest ends."""
        for position, listener in enumerate(reversed(self.listeners_of(session_key))):
            listener.muted = position > 0
            if position >= _STREAMS_PER_SESSION:
                listener.close()

    def close(self) -> None:
        """End every stream and every task of the hub; what comes later is ended at once."""
        was_closed, self._closed = self._closed, True
        if isinstance(self._bus, LocalBus):
            self._bus.leave(self)
        for member in list(self._members):
            member.close(going_away=True)
        # Servers ask more than once, and a second cancellation would break into the clearing up after the first.
        # That a task is being cancelled is no sign of it: a timeout of its own does that too.
        for task in () if was_closed else self._tasks:
            task.cancel()

    # What happens. From any thread.

    def receive(self, changes: Changes, controls: Iterable[str]) -> None:
        """Take in changes; they are looked at on the loop, together with whatever comes meanwhile."""
        with self._inbox_lock:
            self._inbox.absorb(changes)
            self._controls.update(controls)
        # A loop that is closed has no listeners left.
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self._woken.set)

    def resync(self) -> None:
        """Something may have been missed: tell every subscription that may be concerned to look again."""
        missed = Changes()
        for label, subscriptions in self._index.items():
            if subscriptions and label:
                missed.note(visibility.ANY_DATABASE, label, written=None)
        self.receive(missed, [ACCESS])

    # The hub's own tasks.

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _work(self) -> None:
        while True:
            await self._woken.wait()
            self._woken.clear()
            with self._inbox_lock:
                changes, self._inbox = self._inbox, Changes()
                controls, self._controls = self._controls, set()
            try:
                await self._handle(changes, controls)
            except Exception:
                logger.exception("An event could not be handled; subscribers are told to look again")
                await asyncio.sleep(1)
                self.resync()

    async def _handle(self, changes: Changes, controls: set[str]) -> None:
        if any(concerns_lists(control) for control in controls):
            visibility.forget()
            self.lists.hear(controls)
        for control in sorted(controls):
            await self._obey(control)
        with contextlib.suppress(Overloaded):  # The sweep asks again.
            await self._tell_tasks({item.removeprefix(_TASK) for item in controls if item.startswith(_TASK)})
        self.live.hear((label for _, label in changes), controls)
        groups: dict[Any, visibility.Group] = {}
        for (_, label), change in changes.items():
            for subscription, listener in self._index.get(label, {}).items():
                if visibility.concerns(subscription, change):
                    group = groups.get(listener.identity)
                    if group is None:
                        group = groups[listener.identity] = visibility.Group(listener)
                    group.subscriptions[subscription] = listener
        waiting = list(groups.values())
        batches = iter([waiting[i : i + _PRINCIPALS_PER_CALL] for i in range(0, len(waiting), _PRINCIPALS_PER_CALL)])
        async with asyncio.TaskGroup() as checks:
            for _ in range(min(_CHECKS_AT_ONCE, len(waiting))):
                checks.create_task(self._check_all(batches, changes))

    async def _check_all(self, batches: Iterator[list[visibility.Group]], changes: Changes) -> None:
        for batch in batches:
            await self._check(batch, changes)

    async def _check(self, batch: list[visibility.Group], changes: Changes) -> None:
        while True:
            try:
                found = await get_workers().run(visibility.told, batch, changes)
                break
            except Overloaded:
                await asyncio.sleep(0.05)
        for group, checked in zip(batch, found, strict=True):
            for subscription in checked.tell:
                self.tell(subscription, group.subscriptions[subscription])
            if checked.later:
                self.unanswered.put(group, checked, changes)

    def tell(self, subscription: Subscription, listener: Listener) -> bool:
        """Tell that what is watched has changed; False if no stream of its session speaks yet."""
        if self.holds(subscription, listener):
            speaker = self._speaker(listener) if listener.muted else listener
            speaker.tell_updated(subscription.uri)
            return not speaker.muted
        return True

    def holds(self, subscription: Subscription, listener: Listener) -> bool:
        """Whether the listener is here and watches by this subscription; it may have been given up meanwhile."""
        return listener in self._listeners and listener.subscriptions.get(subscription.uri) is subscription

    def _speaker(self, listener: Listener) -> Listener:
        """Who is told in the listener's place: a newer stream of its session may have taken over meanwhile."""
        if listener.session_key is None:
            return listener
        others = self.listeners_of(listener.session_key)
        return next((other for other in others if not other.muted), listener)

    async def _obey(self, control: str) -> None:
        """Do what another process, or the sweep, asks for a stored session."""
        what, _, subject = control.partition(":")
        if what == "wake":
            self.addresses.wake(subject)
        elif what in ("session", "missed"):
            for listener in self.listeners_of(subject):
                try:
                    await self._reload(listener, missed=what == "missed")
                except Overloaded:
                    continue  # The sweep asks again.
                except Exception:
                    logger.exception("What a session watches could not be read; trying again")

    async def _tell_tasks(self, keys: set[str]) -> None:
        """Tell of the tasks what is new of them."""
        if not keys:
            return
        listeners = [listener for listener in self._listeners if not keys.isdisjoint(listener.tasks)]
        for found in await get_workers().run(task_watch.news, listeners, keys) if listeners else ():
            told = found.listener.tasks
            if found.key not in told or found.listener not in self._listeners or found.is_older_than(told[found.key]):
                continue
            if found.is_last:
                del told[found.key]
            else:
                told[found.key] = found.changed_at
            if found.task is not None:
                found.listener.tell_task(found.key, found.task)

    async def _reload(self, listener: Listener, *, missed: bool) -> None:
        """Let a session's stream watch what the session watches, or end it with the session.

        ``missed``: nobody said so when it changed, so what is new is told once, for what came between.
        """
        wanted = await get_workers().run(visibility.session_uris, listener.session_key)
        if wanted is None:
            self._end(listener)
            return
        for uri in listener.subscriptions.keys() - wanted.keys():
            self.unwatch(listener, uri)
        new = wanted.keys() - listener.subscriptions.keys()
        added = visibility.subscriptions(listener, {uri: wanted[uri] for uri in new})
        if not self.has_room(listener, added):
            # Its client opens another one, and is told why that cannot be.
            self._end(listener)
            return
        # Indexed before they are looked at, so that no change falls between.
        for subscription in added:
            self.watch(listener, subscription)
        if added:
            try:
                unseen, unknown = await get_workers().run(visibility.unseen, listener, added)
            except BaseException:
                # What was not looked at is not watched: the sweep finds it missing, and asks again.
                for subscription in added:
                    self.unwatch(listener, subscription.uri)
                raise
            # It was there when the session subscribed: that it has gone since is told once. Of a live query it is known
            # whether its answer is another one.
            for subscription in added if missed else unseen:
                if not subscription.is_live:
                    listener.tell_updated(subscription.uri)
            if unknown:
                self.look_later(listener, unknown, told=added if missed else unseen)

    def look_later(self, listener: Listener, unknown: list[Subscription], told: list[Subscription]) -> None:
        """Find out what there is of the subscriptions as if all of it had changed."""
        group, everything = visibility.Group(listener), Changes()
        for subscription in unknown:
            group.subscriptions[subscription] = listener
            everything.note(visibility.ANY_DATABASE, subscription.concrete, written=None)
        self.unanswered.put(group, visibility.Checked(later=unknown), everything, told=told)

    async def _sweep(self) -> None:
        """Compare what is open with the database: ended tokens, users and sessions end their streams."""
        turn = 0
        while True:
            await asyncio.sleep(get_conf().SWEEP_SECONDS)
            turn += 1
            for work in (self.addresses.look, self._look_at_tasks, self._compare):
                try:
                    await work(turn)
                except Overloaded:
                    pass
                except asyncio.CancelledError:
                    # Of what was awaited, unless it is the sweep's own: without it no revoked token would end a stream.
                    task = asyncio.current_task()
                    if task is None or task.cancelling():
                        raise
                except Exception:
                    logger.exception("What is open could not be compared with the database; trying again")

    async def _compare(self, turn: int) -> None:
        members = list(self._members)
        if not members:
            return
        self.lists.sweep()
        for listener in [listener for listener in self._listeners if listener.is_overdue()]:
            self.remove(listener)
            # Should its stream begin after all, it ends at once: it would never be told anything.
            listener.close()
        ended, sessions = await get_workers().run(visibility.ended, members, turn)
        for member in ended:
            self._end(member)
        # Read again where everything is done in its order: what was read here may be older than what was told.
        stale = [listener.session_key for listener, uris in sessions.items() if uris != set(listener.subscriptions)]
        if stale:
            self.receive(Changes(), [f"missed:{key}" for key in stale])

    async def _look_at_tasks(self, turn: int) -> None:
        await self._tell_tasks({key for listener in self._listeners for key in listener.tasks})

    def _end(self, member: Member) -> None:
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
