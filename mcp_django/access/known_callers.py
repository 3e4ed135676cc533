"""The credentials that were valid a while ago: their requests queue as those of their user.

This lets nobody in: each request is authenticated all the same.
"""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

#: An entry is noted again only after this time, since that takes the lock.
_NOTED_AGAIN_SECONDS = 60.0


class Seen(NamedTuple):
    """Credentials that were valid, with the key of their user. The times are readings of ``time.monotonic()``."""

    key: str
    #: When they count no longer.
    until: float
    #: When they are to be noted again, if they still hold.
    due: float


class KnownCallers(OrderedDict[str, Seen]):
    """By the SHA-256 of credentials. Those that were noted the longest time ago give way."""

    def __init__(self, *, size: int = 10_000, seconds: float = 3600.0) -> None:
        super().__init__()
        self._size = size
        self._seconds = seconds
        self._begin_in_child()
        os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin_in_child(self) -> None:
        """A lock that a thread of the parent held would stay locked in the child of a fork."""
        self._lock = Lock()

    def note(self, digest: str, key: str) -> None:
        """Note that the credentials of this hash are valid now."""
        now = time.monotonic()
        with self._lock:
            self[digest] = Seen(key, now + self._seconds, now + _NOTED_AGAIN_SECONDS)
            self.move_to_end(digest)
            while len(self) > self._size:
                self.popitem(last=False)

    def forget(self, digest: str) -> None:
        """Forget the credentials of this hash: they are not valid any more."""
        with self._lock:
            self.pop(digest, None)


#: The credentials of this process.
known_callers = KnownCallers()
