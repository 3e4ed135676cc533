"""What everything stands on, each timed alone: the server, the way to a thread, and the ORM."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import perf_counter_ns, process_time

from bench import asgi_server
from bench.peers.work import first_flights
from bench.serving import load
from bench.serving.calls import Call
from bench.serving.processes import Running
from mcp_django.workers import Workers

#: The least of so many runs.
_RUNS = 5


def table(folder: Path, calls: int, *, with_wrk: bool) -> str:
    """The figures in Markdown; without wrk, that of the server is left out, and it says so."""
    lines = [
        f"| an ASGI app that does nothing but answer, under uvicorn | {_server(folder):,.0f} |"
        if with_wrk
        else "| an ASGI app that does nothing but answer, under uvicorn | wrk is not here |",
        f"| the way to a thread and back | {asyncio.run(_thread(calls)):,.0f} |",
        f"| Django's ORM alone: 20 rows | {orm(calls):,.0f} |",
    ]
    return "\n".join(["| each alone | µs of the processor |", "| --- | ---: |", *lines])


def orm(calls: int) -> float:
    """µs for the rows that all find, by hand."""
    return least(lambda: first_flights(20), calls)


def least(call: Callable[[], object], calls: int) -> float:
    """µs of the fastest of these calls, which is the one that nothing came between."""

    def one() -> int:
        started = perf_counter_ns()
        call()
        return perf_counter_ns() - started

    return min(one() for _ in range(calls)) / 1e3


def _server(folder: Path) -> float:
    with asgi_server.uvicorn("bench.floor:application", folder / "floor.log") as served:
        running = Running(served.port, served.process.pid)
        readings = [load.over_http(running, Call(b"{}"), 1, folder) for _ in range(2)]
    return min(reading.cost for reading in readings) * 1e6


async def _thread(calls: int) -> float:
    workers = Workers(2)
    runs = []
    for _ in range(_RUNS):
        started = process_time()
        for _ in range(calls):
            await workers.run(int)
        runs.append(process_time() - started)
    workers.close()
    return min(runs) / calls * 1e6
