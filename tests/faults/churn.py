"""Thousands who come and go: what a server holds, and its memory, stay what they were."""

from __future__ import annotations

import asyncio
import itertools
import statistics
import time

from tests.faults.rows import EVERYTHING, FLIGHTS, MARKER, PLANES, Rows
from tests.faults.stage import QUIET_SECONDS, Outcome, Stage
from tests.faults.subscribers import GRPC, Socket, Stream, Subscriber

NAME = "churn"

_AT_ONCE = 10
#: How often memory is looked at, in all; the first half of it is a server that warms up.
_LOOKS = 20
#: What a connection may leave behind, by the slope of the second half. A listener with its request alone is 5,000.
_BYTES = 500.0


async def churn(stage: Stage, bus: str) -> Outcome:
    """Connect and disconnect; a third of them over HTTP, a third on sockets, a third over gRPC."""
    began = time.monotonic()
    await stage.serve(bus)
    stage.rows = Rows(**await stage.writer.ask("rows", pairs=stage.size.pairs))
    server = stage.servers[0]
    numbers = itertools.count(1)
    each = max(1, stage.size.churn // _LOOKS)
    stage.say(f"{each * _LOOKS:,} connects and disconnects")

    async def come_and_go() -> None:
        while (number := next(numbers)) <= end:
            kind: type[Subscriber] = (Stream, Socket, GRPC)[number % 3]
            token = stage.tokens[EVERYTHING][number % len(stage.tokens[EVERYTHING])]
            one = kind(number, server, token, EVERYTHING, [MARKER, FLIGHTS, PLANES, *stage.rows.early])
            one.start()
            await asyncio.wait_for(one.is_there.wait(), QUIET_SECONDS)
            await one.close()

    looks: list[tuple[int, int]] = []
    for turn in range(1, _LOOKS + 1):
        end = turn * each
        numbers = itertools.count((turn - 1) * each + 1)
        await asyncio.gather(*(come_and_go() for _ in range(_AT_ONCE)))
        await asyncio.to_thread(server.inside, collect=True)
        looks.append((end, server.memory()))
        if turn % (_LOOKS // 4) == 0:
            stage.say(f"{end:,} have come and gone; {looks[-1][1] / 1e6:.1f} MB")
    violations = await stage.leftovers()
    second = looks[_LOOKS // 2 :]
    slope, _ = statistics.linear_regression([count for count, _ in second], [size for _, size in second])
    stage.say(f"{slope:.0f} bytes stay of a connection")
    if slope > _BYTES:
        violations.append(f"{server}: {slope:.0f} bytes stay of each connection: {second}")
    for violation in violations:
        stage.say(f"VIOLATION {violation}")
    return Outcome(NAME, bus, each * _LOOKS, 0, 0, 0, 0.0, 0.0, time.monotonic() - began, violations)
