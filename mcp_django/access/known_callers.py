"""The credentials that were seen to hold a while ago: their requests queue as those of their user.

Nobody is let in by it: each request is authenticated all the same.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

#: An entry that was noted less than this before is not noted again, since that takes the lock.
_NOTED_AGAIN_SECONDS = 60.0


class Seen(NamedTuple):
    """Credentials that held: until when that counts, and the key of their user."""

    until: float
    key: str


class KnownCallers(OrderedDict[str, Seen]):
    """The keys of users by the hashes of their credentials. Those that were not used for the longest time give way."""

    def __init__(self, *, size: int = 10_000, seconds: float = 3600.0) -> None:
        super().__init__()
        self._size = size
        self._seconds = seconds
        self._lock = Lock()

    def is_due(self, seen: Seen | None) -> bool:
        """Whether credentials that hold are to be noted, or noted again."""
        return seen is None or seen.until - time.monotonic() < self._seconds - _NOTED_AGAIN_SECONDS

    def note(self, digest: str, key: str) -> None:
        """The credentials of this hash were seen to hold now."""
        with self._lock:
            self[digest] = Seen(time.monotonic() + self._seconds, key)
            self.move_to_end(digest)
            while len(self) > self._size:
                self.popitem(last=False)

    def forget(self, digest: str) -> None:
        """The credentials of this hash hold no longer."""
        with self._lock:
            self.pop(digest, None)


def digest_of(secret: bytes) -> str:
    """The hash by which credentials are known: of a token, it is that which the database stores."""
    return hashlib.sha256(secret).hexdigest()


#: The credentials of this process.
known_callers = KnownCallers()
