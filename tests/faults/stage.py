"""Services, two servers, a writer and subscribers: everything that a fault is tried on, and how one is tried."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
import signal
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults import verdict
from tests.faults.rows import EVERYTHING, FLIGHTS, MARKER, PLANES, Rows
from tests.faults.servers import Held, Server, Writer, run_management
from tests.faults.services import DATABASE, NATS, PostgreSQL, Redis
from tests.faults.subscribers import KINDS, Subscriber

PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"
CORE = "channels_redis.core.RedisChannelLayer"
REDIS, NATS_BUS, POSTGRESQL = "redis", "nats", "postgresql"
#: Buses with a server of their own, which may be killed.
BROKERS = (REDIS, NATS_BUS)

#: What is awaited has come by then, or never does.
QUIET_SECONDS = 60.0
_POLL_SECONDS = 0.05
#: Violations that are told in words.
_TOLD = 10
_CONNECTING_AT_ONCE = 20
#: For how much of the time that it is given a series has transactions at least.
_LEAST_PAUSE = 0.04


@dataclass(frozen=True)
class Size:
    """How large a trial is."""

    #: Subscribers of each server.
    subscribers: int
    #: How long the changes go on that are made while a fault lasts, and how long a server is stopped.
    seconds: float
    pause: float
    #: Pairs of rows of each kind, users of each view, and rows that a subscriber watches.
    pairs: int
    users: int
    watched: int
    #: Connects and disconnects.
    churn: int


@dataclass(frozen=True)
class Fault:
    """Something that breaks, and is mended. ``run`` returns once it is mended."""

    name: str
    title: str
    run: Callable[[Stage], Awaitable[None]]
    buses: tuple[str, ...] = (*BROKERS, POSTGRESQL)
    layer: str = PUBSUB
    capacity: int | None = None
    #: Whether the writer goes on while the fault lasts, and how long it waits between two transactions.
    writes: bool = True
    pause: float = 0.02
    #: How many rows a transaction changes at most.
    most: int = 4
    #: Whether everybody's connection must outlast it.
    keeps: bool = True
    #: The share of transactions that are rolled back.
    rolled_back: float = 0.15


@dataclass(frozen=True)
class Outcome:
    """What came of a trial."""

    name: str
    bus: str
    subscribers: int
    commits: int
    told: int
    resyncs: int
    #: From a commit to the last and to the middle one of those who were told of it, when all was well again.
    last_ms: float
    middle_ms: float
    seconds: float
    violations: Sequence[str]


class Stage:
    """Everything that runs. Made and left by ``set_up``."""

    def __init__(self, folder: Path, size: Size, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.bus = REDIS
        self.size = size
        self.say = say
        self.database = PostgreSQL(_folder(folder, "postgresql"))
        self.brokers: dict[str, Redis | NATS] = {
            REDIS: Redis(_folder(folder, "redis")),
            NATS_BUS: NATS(_folder(folder, "nats")),
        }
        self.servers: list[Server] = []
        self.writer = Writer({}, folder)
        self.tokens: dict[str, list[str]] = {}
        self.subscribers: list[Subscriber] = []
        self.rows = Rows()
        #: What a fault itself has found wrong.
        self.violations: list[str] = []
        self._made_for: tuple[str, str, int | None] | None = None
        self._allowed: dict[str, Held] = {}

    @property
    def broker(self) -> Redis | NATS:
        """The one that carries changes, while PostgreSQL does not."""
        return self.brokers[self.bus]

    def variables(self, layer: str, capacity: int | None) -> dict[str, str]:
        return {
            "FAULTS_POSTGRESQL_PORT": str(self.database.port), "FAULTS_BUS": self.bus,
            "FAULTS_REDIS": self.brokers[REDIS].url, "FAULTS_NATS": self.brokers[NATS_BUS].url,
            "FAULTS_LAYER": layer, "FAULTS_CAPACITY": "" if capacity is None else str(capacity),
            "DEMO_DIR": str(self.folder),
        }  # fmt: skip

    # How it begins and ends.

    async def start(self) -> None:
        self.say("starting PostgreSQL")
        await asyncio.to_thread(self.database.start)
        await asyncio.to_thread(self.database.query, f"CREATE DATABASE {DATABASE}")
        with Path(self.folder, "management.log").open("ab") as log:
            await asyncio.to_thread(run_management, ("migrate", "-v", "0"), self.variables(PUBSUB, None), log)

    async def serve(self, bus: str, layer: str = PUBSUB, capacity: int | None = None) -> None:
        """Let two servers and a writer run with these settings."""
        made_for = (bus, layer if bus == REDIS else "", capacity)
        if self._made_for == made_for:
            return
        await self._end_processes()
        self.bus = bus
        if bus in self.brokers and self.broker.process is None:
            await asyncio.to_thread(self.broker.start)
        self.say("starting two servers and a writer")
        variables = self.variables(layer, capacity)
        self.servers = [Server(name, variables, self.folder) for name in ("one", "other")]
        self.writer = Writer(variables, self.folder)
        for server in self.servers:
            server.start()
        await self.writer.start()
        await asyncio.gather(*(asyncio.to_thread(server.wait) for server in self.servers))
        if not self.tokens:
            self.tokens = await self.writer.ask("users", each=self.size.users)
        self._made_for = made_for
        await self._warm_up()

    async def _warm_up(self) -> None:
        """What a server that has been used holds: nobody listens any more."""
        self.rows = Rows(**await self.writer.ask("rows", pairs=self.size.pairs))
        await self._open(3 * len(KINDS))
        await self.writer.ask("change", uris=self.rows.early)
        await self._mark()
        await self._close_subscribers()
        self._allowed = {}
        for server in self.servers:
            self._allowed[server.name] = await self._settled(server)

    async def close(self) -> list[str]:
        """End everything; what it has left behind, in words."""
        await self._close_subscribers()
        await self._end_processes()
        left = []
        if self.database.process is not None:
            left = [
                f"{name}: {n} connections" for name, n in (await asyncio.to_thread(self.database.connections)).items()
            ]
        for service in (self.database, *self.brokers.values()):
            await asyncio.to_thread(service.close)
        return left

    def kill(self) -> None:
        """End every process at once."""
        self.writer.kill()
        for server in self.servers:
            server.kill()
        for service in (self.database, *self.brokers.values()):
            # Of a killed PostgreSQL the children would live on for a while.
            service.send(signal.SIGCONT)
            service.end(signal.SIGQUIT if service is self.database else signal.SIGKILL)

    async def _end_processes(self) -> None:
        if self._made_for is not None:
            await self.writer.close()
        for server in self.servers:
            await asyncio.to_thread(server.close)
        self.servers, self._made_for = [], None

    # Who listens.

    async def _open(self, each: int) -> None:
        chance = random.Random(each)
        self.subscribers = []
        for server in self.servers:
            for number in range(each):
                view = chance.choice(list(self.tokens))
                watched = chance.sample(self.rows.all, min(self.size.watched, len(self.rows.all)))
                kind = KINDS[number % len(KINDS)]
                uris = [MARKER, FLIGHTS, PLANES, *watched]
                self.subscribers.append(kind(number, server, chance.choice(self.tokens[view]), view, uris))
        for start in range(0, len(self.subscribers), _CONNECTING_AT_ONCE):
            several = self.subscribers[start : start + _CONNECTING_AT_ONCE]
            for subscriber in several:
                subscriber.start()
            await asyncio.wait_for(asyncio.gather(*(one.is_there.wait() for one in several)), QUIET_SECONDS)

    async def _close_subscribers(self) -> None:
        closing, self.subscribers = self.subscribers, []
        await asyncio.gather(*(subscriber.close() for subscriber in closing))

    # Trying a fault.

    async def attempt(self, fault: Fault, bus: str) -> Outcome:
        began = time.monotonic()
        await self.serve(bus, fault.layer, fault.capacity)
        self.rows = rows = Rows(**await self.writer.ask("rows", pairs=self.size.pairs))
        self.say(f"{2 * self.size.subscribers} subscribers connect")
        await self._open(self.size.subscribers)
        violations = self.violations = [
            f"{one}: was acknowledged {sorted(one.honoured)}"
            for one in self.subscribers
            if one.honoured != verdict.visible(one, rows)
        ]
        await self.writer.ask("move", uris=rows.left)
        await self._mark()
        await self._mark()
        resyncs = {server.name: await self._resyncs(server) for server in self.servers}
        starts = {server.name: server.starts for server in self.servers}
        self._forget()

        self.say("before the fault")
        common = {"rolled_back": fault.rolled_back, "phantoms": rows.phantom, "pause": fault.pause, "most": fault.most}
        await self._write(seed=1, uris=[*rows.early, *rows.during, *rows.late, *rows.planes], least=15, **common)
        self.say(fault.title)
        least = int(self.size.seconds / _LEAST_PAUSE)
        during = {"uris": [*rows.during, *rows.planes], "move": rows.leaving, "delete": rows.gone, "least": least}
        if fault.writes:
            self.writer.tell("series", seed=2, **during, **common)
        await fault.run(self)
        if fault.writes:
            self.writer.tell("stop")
            await self.writer.answer()
        else:
            # Before anybody writes again: a later number would say that something was lost.
            violations += await self._told_of_everything()
        self.say("after the fault")
        await self._write(seed=3, uris=rows.late, least=15, **common)

        violations += await self._told_of_everything()
        await self._mark()
        middle_ms, last_ms = await self._mark()
        told = sum(one.heard.total() for one in self.subscribers)
        commits = len(self.writer.commits)
        counted = {}
        for server in self.servers:
            since = 0 if server.starts > starts[server.name] else resyncs[server.name]
            counted[server.origin] = await self._resyncs(server) - since
        for one in self.subscribers:
            looked_again = bool(counted[one.origin]) or one.times > 1
            violations += [f"{one} {wrong}" for wrong in verdict.forbidden(one, rows, looked_again=looked_again)]
        if fault.keeps:
            violations += [f"{one} has lost its connection" for one in self.subscribers if one.times > 1]
        violations += await self._quiet()
        count = len(self.subscribers)
        self.say("everybody leaves")
        await self._close_subscribers()
        violations += await self.leftovers()
        for violation in violations[:_TOLD]:
            self.say(f"VIOLATION {violation}")
        seconds = time.monotonic() - began
        return Outcome(
            fault.name, self.bus, count, commits, told, sum(counted.values()), last_ms, middle_ms, seconds, violations
        )

    async def run_briefly(self) -> None:
        """Let a process change rows that ends right after it."""
        await self.writer.run_once(self.rows.brief)

    @contextlib.asynccontextmanager
    async def stopped(self, server: Server) -> AsyncIterator[None]:
        """The server does not run while the block does, nor does it end."""
        server.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            server.signal(signal.SIGCONT)

    async def _write(self, **line: Any) -> None:
        """A series of as many transactions as it has at least."""
        self.writer.tell("series", **line)
        self.writer.tell("stop")
        await self.writer.answer()

    def _forget(self) -> None:
        self.writer.commits.clear()
        for subscriber in self.subscribers:
            subscriber.forget()

    async def _mark(self) -> tuple[float, float]:
        """Let everybody be told of one last change; the middle and the longest time that it took, in milliseconds."""
        await self.writer.ask("change", uris=[MARKER])
        moment = self.writer.commits[-1]["before"]

        def waiting() -> list[str]:
            return [str(one) for one in self.subscribers if max(one.since, one.last.get(MARKER, 0.0)) < moment]

        late = await _until_empty(waiting)
        assert not late, f"not told of the marker: {late[:_TOLD]}"
        times = [1_000 * (one.last.get(MARKER, moment) - moment) for one in self.subscribers]
        return statistics.median(times), max(times)

    async def _told_of_everything(self) -> list[str]:
        """Wait until everybody is told; who is not, in words."""
        last = verdict.due(self.writer.commits, self.rows, rides=self.bus == POSTGRESQL)

        def waiting() -> list[str]:
            return [f"{one} misses {uri}" for one in self.subscribers for uri in verdict.missing(one, last[one.view])]

        return await _until_empty(waiting)

    async def _quiet(self) -> list[str]:
        """Change only what most may not see; they hear of nothing."""
        self.say("changes that most may not see")
        for _ in range(3):
            resyncs = [await self._resyncs(server) for server in self.servers]
            times = [one.times for one in self.subscribers]
            self._forget()
            hidden = [uri for uri in [*self.rows.early, *self.rows.left] if uri not in self.rows.from_jfk]
            await self._write(
                seed=4,
                uris=[*hidden, *self.rows.left],
                phantoms=self.rows.phantom,
                rolled_back=0.3,
                least=15,
                pause=0.0,
                most=4,
            )
            await self._mark()
            await self._mark()
            # Who had a reason to look again has looked; it is tried anew.
            if [await self._resyncs(server) for server in self.servers] != resyncs:
                continue
            if [one.times for one in self.subscribers] != times:
                continue
            return [
                f"{one} {wrong}" for one in self.subscribers if one.view != EVERYTHING for wrong in verdict.unquiet(one)
            ] + [
                f"{one} {wrong}"
                for one in self.subscribers
                for wrong in verdict.forbidden(one, self.rows, looked_again=False)
            ]
        return ["no server came to rest: each looked again and again, or lost its clients"]

    # What is left.

    async def leftovers(self) -> list[str]:
        """Wait until the servers hold no more than they did when nobody listened; what is more, in words."""
        left = []
        for server in self.servers:
            end = time.monotonic() + QUIET_SECONDS
            while beyond := (await self._held(server)).beyond(self._allowed[server.name]):
                if time.monotonic() > end:
                    left += [f"{server} holds {what}" for what in beyond]
                    break
                await asyncio.sleep(4 * _POLL_SECONDS)
        return left

    async def _settled(self, server: Server) -> Held:
        """What a server holds once it has come to rest."""
        now = await self._held(server)
        end = time.monotonic() + QUIET_SECONDS
        while time.monotonic() < end:
            before = now
            await asyncio.sleep(10 * _POLL_SECONDS)
            now = await self._held(server)
            if now == before and not now.members:
                return now
        raise AssertionError(f"{server} did not come to rest: {now}")

    async def _held(self, server: Server) -> Held:
        connections = await asyncio.to_thread(self.database.connections)
        return await asyncio.to_thread(server.held, connections)

    async def _resyncs(self, server: Server) -> int:
        return await asyncio.to_thread(server.resyncs)


async def _until_empty(waiting: Callable[[], list[str]]) -> list[str]:
    """What is still waited for in the end."""
    end = time.monotonic() + QUIET_SECONDS
    while (found := waiting()) and time.monotonic() < end:
        await asyncio.sleep(_POLL_SECONDS)
    return found


@contextlib.asynccontextmanager
async def set_up(size: Size, say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """A stage, which is cleared away afterwards; its logs stay where something went wrong."""
    folder = Path(tempfile.mkdtemp(prefix="mcp_django_faults_"))
    # PostgreSQL's system user passes through it.
    folder.chmod(0o755)
    stage = Stage(folder, size, say)
    try:
        await stage.start()
        yield stage
    except BaseException:
        say(f"the logs are in {folder}")
        stage.kill()
        raise
    left = await stage.close()
    assert not left, f"left behind: {left}"
    shutil.rmtree(folder)


def _folder(parent: Path, name: str) -> Path:
    made = Path(parent, name)
    made.mkdir()
    return made
