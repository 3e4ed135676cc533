"""Counts the controls that the bus brought and that were not obeyed. The page *Connections* shows how many."""

from __future__ import annotations

import logging
import os
from collections import Counter
from threading import Lock

logger = logging.getLogger("mcp_django")


class Dropped:
    """The counts of this process, by kind. The kinds are few, so their log lines are too."""

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        """Begin anew: at the start, and in the child of a fork, where no thread would release the lock."""
        self._counts: Counter[str] = Counter()
        self._lock = Lock()

    def add(self, kind: str, number: int = 1) -> None:
        if number <= 0:
            return
        with self._lock:
            is_first = not self._counts[kind]
            self._counts[kind] += number
        if is_first:
            logger.warning("A message of the kind %r on the bus was not obeyed. Somebody may have forged it.", kind)

    @property
    def total(self) -> int:
        return sum(self.by_kind().values())

    def by_kind(self) -> dict[str, int]:
        with self._lock:
            return dict(self._counts)


dropped = Dropped()
os.register_at_fork(after_in_child=dropped._reset)
