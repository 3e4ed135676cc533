"""What everything stands on, each timed alone: the server, the way to a thread, and the ORM."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from time import perf_counter_ns, process_time
from typing import Any

from django.test import override_settings

from bench import asgi_server
from bench.in_process import ask, ask_wsgi
from bench.peers.work import first_flights
from bench.serving import load
from bench.serving.calls import FIND, GREET, MODERN, OUR_ASYNC_TOOLS, OUR_TOOLS, Call, call
from bench.serving.processes import Running
from mcp_django.core.running.workers import Workers

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
        *(f"| {title} | {cost:,.0f} |" for title, cost in _applications(calls)),
    ]
    return "\n".join(["| each alone | µs of the processor |", "| --- | ---: |", *lines])


def _applications(calls: int) -> Iterator[tuple[str, float]]:
    """What a Django view takes that knows its answer, and our call behind the same handler."""
    from bench.served.asgi import application, django_application
    from bench.served.wsgi import application as wsgi_application

    asked = {name: call(tool, MODERN, {}) for name, tool in OUR_TOOLS.items()}
    with override_settings(ROOT_URLCONF="bench.served.bare"):
        yield "a Django view that knows its answer, under WSGI", _wsgi(wsgi_application, asked[GREET], calls, "/sync")
        yield "the same as an async view, under ASGI", asyncio.run(_asgi(django_application, asked[GREET], calls))
    yield "our trivial call under WSGI", _wsgi(wsgi_application, asked[GREET], calls)
    yield "our 20 rows under WSGI", _wsgi(wsgi_application, asked[FIND], calls)
    yield "our trivial call through Django's handler", asyncio.run(_asgi(django_application, asked[GREET], calls))
    yield "our trivial call, with a thread", asyncio.run(_asgi(application, asked[GREET], calls))
    on_loop = call(OUR_ASYNC_TOOLS[GREET], MODERN, {})
    yield "our async tool, on the loop", asyncio.run(_asgi(application, on_loop, calls))


def _wsgi(application: Any, asked: Call, calls: int, path: str = "/mcp") -> float:
    return least(lambda: ask_wsgi(application, asked, path), calls)


async def _asgi(application: Any, asked: Call, calls: int) -> float:
    return await _least_of_runs(lambda: ask(application, asked), calls)


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


async def _least_of_runs(one: Callable[[], Awaitable[object]], calls: int) -> float:
    """µs of the processor for each call, of the best run."""
    runs = []
    for _ in range(_RUNS):
        started = process_time()
        for _ in range(calls):
            await one()
        runs.append(process_time() - started)
    return min(runs) / calls * 1e6


async def _thread(calls: int) -> float:
    workers = Workers(2)
    cost = await _least_of_runs(lambda: workers.run(int), calls)
    workers.close()
    return cost
