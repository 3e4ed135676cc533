"""What saving a row costs with push on, beside the same without it: on PostgreSQL, with the bus to tell of it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time

from django.db import transaction
from tqdm import tqdm

from bench.report import Goal
from demo_project.flights.models import Airline
from mcp_django import flush
from mcp_django.push.receivers import watch

#: Runs, of whose ratios the median counts.
RUNS = 5


def measure(rounds: int, saves: int) -> list[Goal]:
    """Print a line for each way to save, so many rows in a round; returns the goals."""
    print("\n## Saving\n\n| | push off | push on | on to off | processor, on to off |\n|---|---|---|---|---|")
    airline = Airline.objects.get(pk="UA")

    def one_by_one() -> None:
        for _ in range(saves):
            airline.save()

    def in_transactions() -> None:
        for _ in range(saves):
            with transaction.atomic():
                airline.save()

    def in_one_transaction() -> None:
        with transaction.atomic():
            for _ in range(saves):
                airline.save()

    goals = []
    ways = {
        "each save by itself": one_by_one,
        "each in a transaction": in_transactions,
        f"{saves} in a transaction": in_one_transaction,
    }
    for label, way in ways.items():
        runs = [compared(way, rounds) for _ in range(RUNS)]
        walls = median(on[0] / off[0] for off, on in runs)
        processors = median(on[1] / off[1] for off, on in runs)
        each_off, each_on = (median(seconds[0] for seconds in side) / saves * 1e6 for side in zip(*runs, strict=True))
        print(f"| {label} | {each_off:,.0f} µs | {each_on:,.0f} µs | {walls:.3f} | {processors:.3f} |", flush=True)
        goals.append(Goal(f"save, {label}", walls, 1.07))
    return goals


def compared(way: Callable[[], None], rounds: int) -> tuple[tuple[float, float], tuple[float, float]]:
    """Medians of the wall and processor seconds without push, and with it; both take turns."""
    measured: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for number in tqdm(range(-2, rounds), desc="saving", disable=None, leave=False):
        for on in (False, True) if number % 2 else (True, False):
            (watch._connect if on else watch._disconnect)()
            started, processor = perf_counter(), process_time()
            way()
            wall = perf_counter() - started
            # What the publisher does is paid for by the processor; nobody who saves waits for it.
            flush()
            if number >= 0:
                measured[on].append((wall, process_time() - processor))
    watch._connect()
    return _medians(measured[False]), _medians(measured[True])


def _medians(measured: list[tuple[float, float]]) -> tuple[float, float]:
    return median(wall for wall, _ in measured), median(processor for _, processor in measured)
