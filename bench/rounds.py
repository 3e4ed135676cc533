"""Timing that a shared machine does not spoil: contestants take turns, round after round, and medians are compared.

A call during which the system gave the processor to another program is made again. Under load it would be half of the
long calls and hardly any of the short ones, whose ratio would then say more of the load than of the code.
"""

from __future__ import annotations

import gc
import random
import resource
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import Any

#: How often a call is made until nothing comes between.
_ATTEMPTS = 20
#: Longer calls are never alone on a busy machine, and all of them suffer alike.
_LONG_SECONDS = 0.02
#: Linux counts for each thread, others for the process.
_WHO = getattr(resource, "RUSAGE_THREAD", resource.RUSAGE_SELF)


@dataclass(frozen=True, slots=True)
class Reading:
    """What came back: its size, and the rows in it, by which the answers of all contestants are held to be the same."""

    bytes: int
    rows: list[Any]


@dataclass(slots=True)
class Contestant:
    """One way to answer a question."""

    name: str
    #: Makes what a server would hand over, as a request; not timed.
    prepare: Callable[[], Any]
    #: Answers it.
    answer: Callable[[Any], Any]
    #: What the answer holds; not timed.
    read: Callable[[Any], Reading]
    seconds: list[float] = field(default_factory=list)

    def once(self) -> Reading:
        return self.read(self.answer(self.prepare()))

    @property
    def median(self) -> float:
        return median(self.seconds)


def run(contestants: Sequence[Contestant], rounds: int, warm_up: int) -> Iterator[None]:
    """Let each contestant answer once a round, in an order that changes; yields after each round that counts.

    Those of the ``warm_up`` do not: they fill caches, ours and the database's.
    """
    order = random.Random(0)
    for number in range(-warm_up, rounds):
        for contestant in order.sample(contestants, len(contestants)):
            seconds = _timed(contestant)
            if number >= 0:
                contestant.seconds.append(seconds)
        if number >= 0:
            yield


def _timed(contestant: Contestant) -> float:
    """Seconds of one call."""
    taken = 0.0
    for _ in range(_ATTEMPTS):
        given = contestant.prepare()
        # Garbage is collected between two calls, and not in the one that happens to be made when it is due.
        gc.disable()
        before = resource.getrusage(_WHO).ru_nivcsw
        started = perf_counter()
        contestant.answer(given)
        taken = perf_counter() - started
        after = resource.getrusage(_WHO).ru_nivcsw
        gc.enable()
        if before == after or taken > _LONG_SECONDS:
            break
    return taken
