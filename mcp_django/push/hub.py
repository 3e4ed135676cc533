"""The hub: one object per process and event loop that receives changes and tells those who watch.

Permission is asked again at every event, once for each distinct principal, in the workers and never on the loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections import defaultdict
from collections.abc import Coroutine, Iterable
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import Overloaded
from mcp_django.push import streams, visibility
from mcp_django.push.bus import ChannelLayerBus, LocalBus, get_bus
from mcp_django.push.changes import Changes
from mcp_django.push.follower import Follower
from mcp_django.push.listeners import LISTS, Listener, Subscription
from mcp_django.push.running import RUNNING
from mcp_django.tasks import watching
from mcp_django.workers import get_workers

if TYPE_CHECKING:
    from mcp_django.access.principals import Principal
    from mcp_django.access.requests import MCPRequest

JSON = dict[str, Any]

logger = logging.getLogger("mcp_django")

#: Principals that are checked in one call of a worker.
_PRINCIPALS_PER_CALL = 25
_STREAMS_PER_SESSION = 4
#: The addresses of requests that are to be cancelled begin with it.
_CANCEL = "cancel:"
#: The addresses of stored streams that go on.
_STREAM = "stream:"
#: The controls that tell of a task begin with it.
_TASK = "task:"
#: Sweeps between two renewals of the leases of stored streams.
_LEASE_TURNS = 5


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


class Writer(Protocol):
    """What stores a stream, while it writes to the client that has asked."""

    def detach(self) -> None:
        """Write to this client no more."""


class Reader(Member, Protocol):
    """A member that gives a client the rest of a stored stream."""

    #: The number of the last event that it has read.
    number: int


class Hub:
    """The connections of this process that want to be told of changes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._closed = False
        #: In the order in which they came.
        self._listeners: dict[Listener, None] = {}
        self._members: set[Member] = set()
        #: Concrete label → subscription → its listener: an event costs by its matches.
        self._index: dict[str, dict[Subscription, Listener]] = defaultdict(dict)
        self._inbox = Changes()
        self._controls: set[str] = set()
        self._inbox_lock = Lock()
        self._woken = asyncio.Event()
        #: Address → who waits for something that may come to any process (an answer, the rest of a stream).
        self._expected: dict[str, set[asyncio.Event]] = defaultdict(set)
        #: Stored streams that this process writes, and those that it reads.
        self.stored_streams: dict[str, Writer] = {}
        self._readers: dict[str, Reader] = {}
        #: The sweep in which the leases of the former were renewed.
        self._renewed_in = 0
        self._tasks: set[asyncio.Task[None]] = set()
        bus = get_bus()
        self._start(self._work())
        self._start(self._sweep())
        if isinstance(bus, LocalBus):
            bus.join(self)
        elif isinstance(bus, ChannelLayerBus):
            self._start(Follower(self, bus).follow())

    # Who is here. On the loop.

    def add(self, listener: Listener) -> None:
        if self._closed:
            listener.close(going_away=True)
        self._listeners[listener] = None
        self._members.add(listener)
        for subscription in listener.subscriptions.values():
            self._index[subscription.concrete][subscription] = listener
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
        self._index[subscription.concrete][subscription] = listener

    def unwatch(self, listener: Listener, uri: str) -> None:
        subscription = listener.subscriptions.pop(uri, None)
        if subscription is not None:
            self._index[subscription.concrete].pop(subscription, None)
            listener.untell(uri)

    def remove(self, listener: Listener) -> None:
        self._listeners.pop(listener, None)
        self._members.discard(listener)
        for subscription in listener.subscriptions.values():
            self._index[subscription.concrete].pop(subscription, None)
        if listener.session_key is not None:
            self.arrange(listener.session_key)

    def join(self, member: Member) -> None:
        self._members.add(member)
        if self._closed:
            member.close(going_away=True)

    def leave(self, member: Member) -> None:
        self._members.discard(member)

    def expect(self, address: str) -> asyncio.Event:
        """Set when something came for the address, to whatever process; until ``unexpect``."""
        event = asyncio.Event()
        self._expected[address].add(event)
        return event

    def unexpect(self, address: str, event: asyncio.Event) -> None:
        self._expected[address].discard(event)
        if not self._expected[address]:
            del self._expected[address]

    def begin_reading(self, stream: str, reader: Reader) -> asyncio.Event:
        """Tell of a stored stream the newest reader alone. The event is set when there is more to read."""
        writer, older = self.stored_streams.get(stream), self._readers.get(stream)
        self._readers[stream] = reader
        # Whoever comes back has lost the connection that was there before, or does not want it any more.
        if writer is not None:
            writer.detach()
        if older is not None:
            older.close()
        self.join(reader)
        return self.expect(_STREAM + stream)

    def end_reading(self, stream: str, reader: Reader, event: asyncio.Event) -> None:
        self.leave(reader)
        self.unexpect(_STREAM + stream, event)
        if self._readers.get(stream) is reader:
            del self._readers[stream]

    def listeners_of(self, session_key: str) -> list[Listener]:
        """The open streams of a stored session, the oldest first."""
        return [listener for listener in self._listeners if listener.session_key == session_key]

    def streams_of(self, principal_key: str) -> int:
        """How many listens and open questions the principal has in this process."""
        return sum(member.is_counted and member.principal.key == principal_key for member in self._members)

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
        self._closed = True
        for member in list(self._members):
            member.close(going_away=True)
        for task in self._tasks:
            # Servers ask more than once, and a second cancellation would break into the clearing up after the first.
            if not task.cancelling():
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
        self.receive(missed, ["access", *LISTS])

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
        changed = [name for name in LISTS if name in controls]
        if "access" in controls or changed:
            visibility.forget()
        for name in changed:
            for listener in self._listeners:
                listener.tell_list_changed(name)
        for control in sorted(controls):
            await self._obey(control)
        with contextlib.suppress(Overloaded):  # The sweep asks again.
            await self._tell_tasks({item.removeprefix(_TASK) for item in controls if item.startswith(_TASK)})
        groups: dict[Any, visibility.Group] = {}
        for (_, label), change in changes.items():
            for subscription, listener in self._index.get(label, {}).items():
                if visibility.concerns(subscription, change):
                    group = groups.setdefault(listener.identity, visibility.Group(listener))
                    group.subscriptions[subscription] = listener
        waiting = list(groups.values())
        for start in range(0, len(waiting), _PRINCIPALS_PER_CALL):
            batch = waiting[start : start + _PRINCIPALS_PER_CALL]
            await self._check(batch, changes)

    async def _check(self, batch: list[visibility.Group], changes: Changes) -> None:
        while True:
            try:
                told = await get_workers().run(visibility.told, batch, changes)
                break
            except Overloaded:
                await asyncio.sleep(0.05)
        for group, subscriptions in zip(batch, told, strict=True):
            for subscription in subscriptions:
                listener = group.subscriptions[subscription]
                # Unless it was given up while it was looked at.
                if listener in self._listeners and listener.subscriptions.get(subscription.uri) is subscription:
                    self._speaker(listener).tell_updated(subscription.uri)

    def _speaker(self, listener: Listener) -> Listener:
        """Who is told in the listener's place: a newer stream of its session may have taken over meanwhile."""
        if not listener.muted or listener.session_key is None:
            return listener
        others = self.listeners_of(listener.session_key)
        return next((other for other in others if not other.muted), listener)

    async def _obey(self, control: str) -> None:
        """Do what another process, or the sweep, asks for a stored session."""
        what, _, subject = control.partition(":")
        if what == "wake":
            self._wake(subject)
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
        listeners = [listener for listener in self._listeners if not keys.isdisjoint(listener.tasks)]
        for found in await get_workers().run(watching.news, listeners, keys) if listeners else ():
            told = found.listener.tasks
            if found.key not in told or found.listener not in self._listeners or found.is_older_than(told[found.key]):
                continue
            if found.is_last:
                del told[found.key]
            else:
                told[found.key] = found.changed_at
            if found.task is not None:
                found.listener.tell_task(found.key, found.task)

    def _wake(self, address: str) -> None:
        """Something came for the address."""
        running = RUNNING.get(address.removeprefix(_CANCEL)) if address.startswith(_CANCEL) else None
        # The sweep finds what was posted for as long as it is kept.
        if running is not None and not running.cancelled:
            running.cancel()
            # Not awaited: it takes its time, and everybody else's events wait behind this one.
            self.loop.run_in_executor(None, running.queries.interrupt)
        for event in self._expected.get(address, ()):
            event.set()

    async def _reload(self, listener: Listener, *, missed: bool) -> None:
        """Let a session's stream watch what the session watches, or end it with the session.

        ``missed``: nobody said so when it changed, so what is new is told once, for what came between.
        """
        wanted = await get_workers().run(visibility.session_uris, listener.session_key)
        if wanted is None:
            self._end(listener)
            return
        for uri in set(listener.subscriptions) - wanted:
            self.unwatch(listener, uri)
        added = visibility.subscriptions(listener, wanted - set(listener.subscriptions))
        # Indexed before they are looked at, so that no change falls between.
        for subscription in added:
            self.watch(listener, subscription)
        if added:
            try:
                unseen = await get_workers().run(visibility.unseen, listener, added)
            except BaseException:
                # What was not looked at is not watched: the sweep finds it missing, and asks again.
                for subscription in added:
                    self.unwatch(listener, subscription.uri)
                raise
            # It was there when the session subscribed: that it has gone since is told once.
            for subscription in added if missed else unseen:
                listener.tell_updated(subscription.uri)

    async def _sweep(self) -> None:
        """Compare what is open with the database: ended tokens, users and sessions end their streams."""
        turn = 0
        while True:
            await asyncio.sleep(get_conf().SWEEP_SECONDS)
            turn += 1
            for work in (self._look_around, self._compare):
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
        for listener in [listener for listener in self._listeners if listener.is_overdue()]:
            self.remove(listener)
        ended, sessions = await get_workers().run(visibility.ended, members, turn)
        for member in ended:
            self._end(member)
        # Read again where everything is done in its order: what was read here may be older than what was told.
        stale = [listener.session_key for listener, uris in sessions.items() if uris != set(listener.subscriptions)]
        if stale:
            self.receive(Changes(), [f"missed:{key}" for key in stale])

    async def _look_around(self, turn: int) -> None:
        """Ask the database for what no bus tells of, and tell it what this process is still busy with."""
        addresses = [*self._expected, *(_CANCEL + key for key in RUNNING)]
        tasks = {key for listener in self._listeners for key in listener.tasks}
        read = {stream: reader.number for stream, reader in self._readers.items()}
        if not addresses and not self.stored_streams and not tasks:
            return
        # First, and again in the next sweep if it fails: a stream without a lease is taken for lost.
        if self.stored_streams and turn - self._renewed_in >= _LEASE_TURNS:
            await get_workers().run(streams.renew, list(self.stored_streams))
            self._renewed_in = turn
        await self._tell_tasks(tasks)
        for address in await get_workers().run(visibility.arrived, addresses):
            self._wake(address)
        for stream in await get_workers().run(streams.with_news, read) if read else ():
            self._wake(_STREAM + stream)

    def _end(self, member: Member) -> None:
        self._members.discard(member)
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
