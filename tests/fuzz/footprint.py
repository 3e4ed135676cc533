"""What a process holds: threads, connections, streams, requests. Bad input must leave nothing of it behind."""

from __future__ import annotations

import asyncio
import gc
import re
import threading
import time
import weakref
from dataclasses import dataclass
from typing import Any

from django.db import connections
from django.db.backends.signals import connection_created

from mcp_django.core.running import workers
from mcp_django.exchange.cancellation import RUNNING
from mcp_django.push import hub as hubs
from tests.support.loop import LoopThread

#: Threads that a serving process may have: those of pools, and the one that watches over deadlines.
_POOLS = re.compile(r"(mcp_django|asyncio|ThreadPoolExecutor-\d+)_\d+|mcp_django_(deadlines|pauses)")
_SETTLE_SECONDS = 60.0

_seen: weakref.WeakSet[Any] = weakref.WeakSet()


def _note(connection: Any, **_: Any) -> None:
    _seen.add(connection)


connection_created.connect(_note)


@dataclass(frozen=True)
class Footprint:
    """What is held while nobody is being served."""

    threads: int
    connections: int
    tasks: int
    listeners: int
    members: int
    watched: int
    running: int
    taken: int
    waiting: int


def take(loop: LoopThread) -> Footprint:
    """What the process holds now. The test's own connection does not count."""
    mine = set(map(id, connections.all(initialized_only=True)))
    hub = hubs._hubs.get(loop.loop)
    pool = workers._workers
    names = [thread.name for thread in threading.enumerate()]
    return Footprint(
        threads=sum(_POOLS.fullmatch(name) is None for name in names),
        connections=sum(item.connection is not None for item in list(_seen) if id(item) not in mine),
        tasks=loop.run(_count_tasks()),
        listeners=0 if hub is None else len(hub._listeners),
        members=0 if hub is None else len(hub._members),
        watched=0 if hub is None else sum(map(len, hub._index.values())),
        running=len(RUNNING),
        taken=0 if pool is None else pool._accepted.total,
        waiting=0 if pool is None else len(pool._waiting),
    )


def settled(loop: LoopThread) -> Footprint:
    """What the process holds once nothing is on its way out any more."""
    gc.collect()
    now, same = take(loop), 0
    while same < 10:
        time.sleep(0.02)
        before, now = now, take(loop)
        same = same + 1 if now == before else 0
    return now


def settle(before: Footprint, loop: LoopThread) -> Footprint:
    """What the process holds once it is as it was. What is on its way out may take a moment; what stays is a leak."""
    started = time.monotonic()
    now = take(loop)
    turn = 0
    while now != before and time.monotonic() < started + _SETTLE_SECONDS:
        turn += 1
        if turn % 20 == 0:
            gc.collect()  # Takes longer than what is waited for, as a rule.
        time.sleep(0.005)
        now = take(loop)
    return now


def tasks(loop: LoopThread) -> list[str]:
    """The tasks of the loop, in words."""
    return [str(task)[:300] for task in asyncio.all_tasks(loop.loop)]


async def _count_tasks() -> int:
    return len(asyncio.all_tasks()) - 1
