"""What breaks."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from collections.abc import Callable

from tests.faults.rows import EVERYTHING, PLANES
from tests.faults.servers import Server
from tests.faults.stage import BROKERS, CORE, QUIET_SECONDS, REDIS, Fault, Stage
from tests.faults.subscribers import Unreading

#: How long something is away.
_AWAY_SECONDS = 1.5


async def _until(condition: Callable[[], bool]) -> bool:
    """Whether it comes true in the time that anything may take."""
    end = time.monotonic() + QUIET_SECONDS
    while time.monotonic() < end:
        if await asyncio.to_thread(condition):
            return True
        await asyncio.sleep(0.1)
    return False


async def _see_unread(stage: Stage, server: Server) -> None:
    """Those who do not read are ended, though they stay; nobody else is."""
    if not await _until(lambda: server.inside()["listeners"] <= stage.size.subscribers):
        stage.violations.append(f"{server} still holds a place for clients that do not read")


async def _work_on(stage: Stage) -> None:
    await asyncio.sleep(stage.size.seconds / 2)


async def kill_the_broker(stage: Stage) -> None:
    stage.broker.end(signal.SIGKILL)
    # What it tells is lost with it: nobody is left who could repeat its number.
    await stage.run_briefly()
    await asyncio.sleep(_AWAY_SECONDS)
    await asyncio.to_thread(stage.broker.start)


async def kill_a_server(stage: Stage) -> None:
    server = stage.servers[0]
    server.kill()
    server.start()
    await asyncio.to_thread(server.wait)


async def stop_a_server(stage: Stage) -> None:
    async with stage.stopped(stage.servers[0]):
        await asyncio.sleep(stage.size.pause)


async def stop_the_broker(stage: Stage) -> None:
    """It takes connections, and answers nothing."""
    stage.broker.send(signal.SIGSTOP)
    try:
        await stage.run_briefly()
        await asyncio.sleep(stage.size.pause)
    finally:
        stage.broker.send(signal.SIGCONT)


async def read_no_more(stage: Stage) -> None:
    """Clients that are told of much read none of it."""
    chance = random.Random(0)
    token = chance.choice(stage.tokens[EVERYTHING])
    unreading = [
        Unreading(server.origin, token, [PLANES, *stage.rows.all]) for server in stage.servers for _ in range(3)
    ]
    try:
        for one in unreading:
            await one.open()
        await asyncio.gather(*(_see_unread(stage, server) for server in stage.servers))
    finally:
        for one in unreading:
            await one.close()


async def restart_the_database(stage: Stage) -> None:
    await asyncio.to_thread(stage.database.end, signal.SIGINT)
    await asyncio.sleep(_AWAY_SECONDS)
    await asyncio.to_thread(stage.database.start)


async def crash_the_database(stage: Stage) -> None:
    await asyncio.to_thread(stage.database.end, signal.SIGQUIT)
    await asyncio.sleep(_AWAY_SECONDS)
    await asyncio.to_thread(stage.database.start)


FAULTS = (
    Fault("rollback", "a third of the transactions is rolled back", _work_on, rolled_back=0.34),
    Fault("unreading", "subscribers stop reading", read_no_more, pause=0.0, most=40),
    Fault("pause", "a server is stopped for a while", stop_a_server, keeps=False),
    Fault("server", "kill -9 of a server", kill_a_server, keeps=False),
    Fault("hang", "the broker is stopped for a while", stop_the_broker, BROKERS),
    Fault("broker", "kill -9 of the broker", kill_the_broker, BROKERS),
    Fault("idle", "kill -9 of the broker while hardly anybody writes", kill_the_broker, BROKERS, writes=False),
    Fault("database", "PostgreSQL is restarted", restart_the_database),
    Fault("crash", "PostgreSQL crashes", crash_the_database),
    Fault("capacity", "a server is stopped, with a capacity of 1", stop_a_server, (REDIS,), CORE, 1, keeps=False),
    Fault("core", "kill -9 of the broker of a core layer", kill_the_broker, (REDIS,), CORE),
)
