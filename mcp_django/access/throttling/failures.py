"""Limits failed authentication by address: after too many failures, unknown credentials are not looked up.

Credentials that let their user in a while ago are not refused, so that nobody is locked out by a neighbour who
guesses. Their requests queue as those of their user. That lets nobody in: each request is authenticated all the same.
"""

from __future__ import annotations

import logging
import os
import time
from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

from mcp_django.access.throttling.budgets import Limit, network_of, when_again
from mcp_django.access.throttling.throttles import take
from mcp_django.exchange import rates
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.rates import FAILURES, failure_rates
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import FailuresThrottled, Throttled

logger = logging.getLogger("mcp_django")


class ThrottledNetworks(OrderedDict[str, tuple[int, str]]):
    """The networks that have used up their failures, each until a second of ``rates.now``, with the limit.

    Only those that this process knows of, and at most ``size``, the latest.
    """

    def __init__(self, size: int = 10_000) -> None:
        super().__init__()
        self._size = size
        self._begin_in_child()
        os.register_at_fork(after_in_child=self._begin_in_child)

    def _begin_in_child(self) -> None:
        """A lock that a thread of the parent held would stay locked in the child of a fork."""
        self._lock = Lock()

    def add(self, network: str, end: int, limit: str) -> None:
        with self._lock:
            self[network] = (end, limit)
            self.move_to_end(network)
            while len(self) > self._size:
                self.popitem(last=False)

    def find(self, network: str) -> tuple[int, str] | None:
        """Until when the network is throttled, and by which limit."""
        entry = self.get(network)
        return entry if entry is not None and entry[0] > rates.now() else None


throttled = ThrottledNetworks()


def check(request: MCPRequest) -> None:
    """Raises FailuresThrottled if the caller's address has used up its failures. Asks neither cache nor database.

    While ``throttled`` is empty, the call can be left out.
    """
    found = throttled.find(network_of(client_address(request)))
    if found is not None:
        raise _error(*found)


def note(request: MCPRequest) -> None:
    """Count a failed authentication. Raises FailuresThrottled if it is one too many."""
    network = network_of(client_address(request))
    budget = [Limit(FAILURES, "address", f"address:{network}", rate) for rate in failure_rates() if network]
    if not budget:
        return
    try:
        take(budget, {FAILURES: 1})
    except Throttled as error:
        entry = rates.now() + error.retry_after, error.limit
        throttled.add(network, *entry)
        raise _error(*entry) from None
    except Exception:
        # The credentials are refused all the same.
        logger.exception("A failed authentication could not be counted")


def _error(end: int, limit: str) -> FailuresThrottled:
    moment = rates.now()
    said = f"Too many credentials from your network address were wrong. The limit is {limit}."
    return FailuresThrottled(f"{said} {when_again(moment, end)}", max(1, end - moment), limit, FAILURES)


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
