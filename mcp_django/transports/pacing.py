"""Delays the refusals of unknown callers, so that a crowd of them does not keep the event loop busy.

A client waits for its answer before it tries again. So a caller that tries many credentials on many connections is
slowed down, and a known caller does not wait behind the crowd.
"""

from __future__ import annotations

import asyncio
import time

#: Refusals that leave in one second, and those that leave at once after a quiet time.
_PER_SECOND, _AT_ONCE = 50.0, 50
#: No refusal waits longer: clients that look for a way to sign in give up after ten seconds.
_MOST_SECONDS = 5.0


class Pace:
    """Tells each refusal of a process how long it waits."""

    def __init__(self) -> None:
        #: When the next refusal may leave, had there been no quiet time.
        self._next = 0.0

    def delay(self, now: float) -> float:
        """The seconds that a refusal waits if it is ready at ``now``, a reading of ``time.monotonic()``."""
        self._next = min(max(self._next, now - _AT_ONCE / _PER_SECOND) + 1 / _PER_SECOND, now + _MOST_SECONDS)
        return max(0.0, self._next - now)


pace = Pace()


async def hold_refusal() -> None:
    """Wait until a refusal may leave. On the loop."""
    seconds = pace.delay(time.monotonic())
    if seconds:
        await asyncio.sleep(seconds)
