"""What saving a row costs with push on, beside the same without it: on PostgreSQL, with the bus to tell of it."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter, process_time, thread_time

from django.db import transaction
from tqdm import tqdm

from bench.goals import Goal
from demo_project.flights.models import Airline
from mcp_django import flush
from mcp_django.push.receivers import watch

#: Runs, of whose ratios the median counts.
RUNS = 5
#: On the clock, of the processor, and of the processor in the thread that saves.
Seconds = tuple[float, float, float]


def measure(rounds: int, saves: int) -> list[Goal]:
    """Print a line for each way to save, so many rows in a round; returns the goals."""
    print("\n## Saving\n\n| | push off | push on | on to off | thread that saves | processor, on to off |")
    print("|---|---|---|---|---|---|")
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
        thread = median(on[2] - off[2] for off, on in runs) / saves * 1e6
        each_off, each_on = (median(seconds[0] for seconds in side) / saves * 1e6 for side in zip(*runs, strict=True))
        cells = f"{each_off:,.0f} µs", f"{each_on:,.0f} µs", f"{walls:.3f}", f"+ {thread:,.0f} µs", f"{processors:.3f}"
        print("|", " | ".join([label, *cells]), "|", flush=True)
        goals.append(Goal(f"save, {label}", walls, 1.07))
        if way is in_transactions:
            goals.append(Goal(f"save, {label}, what its thread pays", thread, 60, "µs"))
    return goals


def compared(way: Callable[[], None], rounds: int) -> tuple[Seconds, Seconds]:
    """Medians of the seconds without push, and with it; both take turns."""
    measured: dict[bool, list[Seconds]] = {False: [], True: []}
    for number in tqdm(range(-2, rounds), desc="saving", disable=None, leave=False):
        for on in (False, True) if number % 2 else (True, False):
            (watch._connect if on else watch._disconnect)()
            started, processor, thread = perf_counter(), process_time(), thread_time()
            way()
            wall, own = perf_counter() - started, thread_time() - thread
            # What the publisher does is paid for by the processor; nobody who saves waits for it.
            flush()
            if number >= 0:
                measured[on].append((wall, process_time() - processor, own))
    watch._connect()
    return _medians(measured[False]), _medians(measured[True])


def _medians(measured: list[Seconds]) -> Seconds:
    wall, processor, thread = (median(taken) for taken in zip(*measured, strict=True))
    return wall, processor, thread
