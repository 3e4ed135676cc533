"""What 1,000 different filters that are watched cost: the process that saves, and the server that compares each change.

None of the filters finds the row, so that the comparison is measured and not the notifications.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from time import sleep

from tqdm import tqdm

from bench import asgi_server
from bench.asgi_server import Served
from bench.fanout import listening
from bench.goals import Goal
from bench.principals import Principals
from bench.push import SAVES
from bench.saving import compared
from demo_project.flights.models import Airline
from mcp_django import flush

FILTERS = 1_000
#: What one listen may watch (MAX_SUBSCRIPTIONS).
_PER_LISTEN = 200
#: LIVE_SECONDS, in which a change is compared once, and as long again for the comparison.
_SETTLE_SECONDS = 2.0


def measure(principals: Principals, rounds: int) -> list[Goal]:
    """Print what a save costs without push, and with filters watched, and what a change costs the server."""
    asgi_server.pin_load()
    print(f"\n## {FILTERS:,} watched filters\n")
    airline = Airline.objects.get(pk="UA")
    uris = [f"db://flights/airline?name__startswith=no{number:04}" for number in range(FILTERS)]
    listens = [uris[start : start + _PER_LISTEN] for start in range(0, FILTERS, _PER_LISTEN)]
    with _server(principals.of(1, len(listens)), listens) as server:
        changes = [_compared(server, airline) for _ in tqdm(range(5), desc="changes", disable=None, leave=False)]
        off, on = compared(lambda: _save(airline), rounds * 4)
    print("| a save without push | with it | on to off | processor, on to off | a change, in the server's processor |")
    print("|---|---|---|---|---|")
    walls, processors = on[0] / off[0], on[1] / off[1]
    each = [seconds[0] / SAVES * 1e6 for seconds in (off, on)]
    change = median(changes)
    print(f"| {each[0]:,.0f} µs | {each[1]:,.0f} µs | {walls:.3f} | {processors:.3f} | {change:.3f} s |", flush=True)
    return [Goal(f"save, {FILTERS:,} filters watched", walls, 1.05)]


@contextmanager
def _server(tokens: Sequence[str], listens: Sequence[Sequence[str]]) -> Iterator[Served]:
    """A server with a socket for each listen."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        with (
            asgi_server.uvicorn("bench.fanout_apps:application", log) as server,
            listening(server, tokens, resources=listens),
        ):
            sleep(_SETTLE_SECONDS)
            yield server


def _compared(server: Served, airline: Airline) -> float:
    """The server's processor seconds for one change."""
    before = server.processor_seconds()
    airline.save()
    flush()
    sleep(_SETTLE_SECONDS)
    return server.processor_seconds() - before


def _save(airline: Airline) -> None:
    for _ in range(SAVES):
        airline.save()
