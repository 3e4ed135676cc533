"""From a commit in one process to a frame at a client of another, through the bus, while nothing else happens."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import quantiles
from time import perf_counter, sleep

from django.db import transaction
from tqdm import tqdm

from bench import asgi_server
from bench.fanout import listening
from bench.goals import Goal
from bench.principals import Principals
from demo_project.flights.models import Airline

#: Changes per round: a quiet server is asked again and again.
_CHANGES = 4
_PAUSE_SECONDS = 0.5


def measure(principals: Principals, sockets: int, rounds: int) -> list[Goal]:
    """Print a line for the least that could be done, and for one and for many principals; returns the goals."""
    asgi_server.pin_load()
    print(f"\n## Latency of {sockets:,} sockets\n\n| who notifies them | p50 | p99 | last |\n|---|---|---|---|")
    ways = {
        "bare ASGI app that loops over its sockets at each event": (1, rounds, "relay"),
        "mcp_django, one principal": (1, rounds * _CHANGES, "ours"),
        f"mcp_django, {sockets:,} distinct principals": (sockets, rounds, "ours"),
    }
    goals = []
    for label, (distinct, changes, application) in ways.items():
        seconds = _seconds(principals.of(distinct, sockets), changes, application)
        cuts = quantiles(seconds, n=100)
        p50, p99 = cuts[49] * 1_000, cuts[98] * 1_000
        print(f"| {label} | {p50:,.1f} ms | {p99:,.1f} ms | {max(seconds) * 1_000:,.1f} ms |", flush=True)
        if application == "ours" and distinct == 1:
            goals.append(Goal("latency, p50", p50, 15, "ms"))
            goals.append(Goal("latency, p99", p99, 50, "ms"))
    return goals


def _seconds(tokens: Sequence[str], changes: int, application: str) -> list[float]:
    """From before each commit of this process to each frame that tells of it."""
    airline = Airline.objects.get(pk="UA")
    seconds = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "server.log")
        with (
            asgi_server.uvicorn("bench.fanout_apps:application", log, BENCH_FANOUT=application) as server,
            listening(server, tokens, listens=application == "ours") as sockets,
        ):
            for number in tqdm(range(-2, changes), desc="saving", disable=None, leave=False):
                sleep(_PAUSE_SECONDS)
                with transaction.atomic():
                    airline.save()
                    started = perf_counter()
                told = [when - started for when, _ in sockets.gather(len(tokens))]
                if number >= 0:
                    seconds += told
    return seconds
