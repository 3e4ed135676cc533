"""One user hammers with many tokens, and crowds try tokens that nobody knows: a known user waits for neither."""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from tests.end_to_end.servers import ROOT
from tests.faults.hammer import answer, request
from tests.faults.rows import EVERYTHING, Rows
from tests.faults.servers import Server, environment
from tests.faults.stage import QUIET_SECONDS, Outcome, Stage

NAME = "fairness"

_TOKENS = 16
_STRANGERS = 300
#: Within so many times the median of a user who is alone, a user who is not alone is answered.
_FACTOR = 3.0
#: The pause between two calls, and the calls whose median counts.
_PAUSE_SECONDS = 0.5
_LEAST_CALLS = 21


async def fairness(stage: Stage, bus: str) -> Outcome:
    """Call as a known user: alone, beside a user with many tokens, and beside unknown tokens."""
    began = time.monotonic()
    await stage.serve(bus)
    stage.rows = Rows(**await stage.writer.ask("rows", pairs=stage.size.pairs))
    tokens = await stage.writer.ask("tokens", number=_TOKENS)
    calls = max(_LEAST_CALLS, int(stage.size.seconds / _PAUSE_SECONDS))
    server, token = stage.servers[0], stage.tokens[EVERYTHING][0]
    violations: list[str] = []
    await call_as(server, token, calls)
    alone = statistics.median(await call_as(server, token, calls))
    slowest = alone
    for title, connections, given in (
        (f"a user with {_TOKENS} tokens", _TOKENS, tokens),
        (f"{_STRANGERS} connections with unknown tokens", _STRANGERS, []),
    ):
        async with hammered(server, connections, given) as statuses:
            times = await call_as(server, token, calls)
        beside = statistics.median(times)
        slowest = max(slowest, beside)
        stage.say(f"alone {1_000 * alone:.1f} ms, beside {title} {1_000 * beside:.1f} ms; those got {statuses}")
        if beside > _FACTOR * alone:
            violations.append(f"beside {title} a call takes {beside / alone:.1f} times as long as alone")
        if given and set(statuses) != {"200"}:
            violations.append(f"{title} is refused: {statuses}")
        if not given and set(statuses) - {"401", "429", "503", "refused"}:
            violations.append(f"{title} get {statuses}")
    violations += await stage.leftovers()
    for violation in violations:
        stage.say(f"VIOLATION {violation}")
    seconds = time.monotonic() - began
    return Outcome(NAME, bus, _STRANGERS, 0, 0, 0, 1_000 * slowest, 1_000 * alone, seconds, violations)


async def call_as(server: Server, token: str, calls: int) -> list[float]:
    """How long the calls take, in seconds. Raises AssertionError if one of them is refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    times = []
    for _ in range(calls):
        await asyncio.sleep(_PAUSE_SECONDS)
        began = time.perf_counter()
        writer.write(request(token))
        status, body = await asyncio.wait_for(answer(reader), QUIET_SECONDS)
        times.append(time.perf_counter() - began)
        assert status == 200, f"a known user is refused: {status} {body!r}"
        assert b'"error"' not in body, body
    writer.close()
    return times


@asynccontextmanager
async def hammered(server: Server, connections: int, tokens: Sequence[str]) -> AsyncIterator[dict[str, int]]:
    """Another process calls the server while the block runs. Yields what it will have been answered, by status."""
    statuses: dict[str, int] = {}
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.faults.hammer", cwd=ROOT, env=environment({}),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert process.stdin is not None
        given = {"port": server.port, "connections": connections, "tokens": tokens}
        process.stdin.write(json.dumps(given).encode() + b"\n")
        assert (await _line(process))["ready"], "a connection was not answered"
        yield statuses
        process.stdin.close()
        statuses |= (await _line(process))["statuses"]
        await asyncio.wait_for(process.wait(), QUIET_SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def _line(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    return json.loads(await asyncio.wait_for(process.stdout.readline(), QUIET_SECONDS))
