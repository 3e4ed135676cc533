"""The processor's time of two ways to the same, over many depths of the Python stack.

CPython 3.11 keeps the frames of Python in chunks, and asks the system for a new one whenever a call needs it. At an
unlucky depth that happens thousands of times in a request: one depth measures luck.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from time import process_time

DEPTHS = range(0, 96, 8)
ROUNDS = 4
CALLS = 8
WARM_UP = 30


@dataclass(frozen=True)
class Found:
    """Milliseconds of a request over HTTP and of a call, and the ratio: its median over the depths, best and worst."""

    http: float
    call: float
    median: float
    best: float
    worst: float


def swept(http: Callable[[], object], call: Callable[[], object]) -> Found:
    ways = (http, call)
    for way in ways:
        for _ in range(WARM_UP):
            way()
    took: dict[tuple[int, int], list[float]] = {}
    for _ in range(ROUNDS):
        for depth in random.sample(DEPTHS, len(DEPTHS)):
            for index in random.sample(range(2), 2):
                took.setdefault((depth, index), []).append(_timed(ways[index], depth))
    each = [(median(took[depth, 0]), median(took[depth, 1])) for depth in DEPTHS]
    ratios = [call / http for http, call in each]
    return Found(
        median(http for http, _ in each), median(call for _, call in each), median(ratios), min(ratios), max(ratios)
    )


def _timed(way: Callable[[], object], depth: int) -> float:
    gc.collect()
    begun = process_time()
    for _ in range(CALLS):
        _deep(way, depth)
    return (process_time() - begun) / CALLS * 1e3


def _deep(way: Callable[[], object], depth: int) -> object:
    return way() if depth == 0 else _deep(way, depth - 1)
