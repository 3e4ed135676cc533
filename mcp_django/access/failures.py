"""Limits failed authentication by address: too many failures, and credentials that are not known are not looked up.

Credentials that let their user in a while ago are not refused, so that nobody is locked out by a neighbour who guesses.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from mcp_django.access.budgets import Limit, amount_of, network_of, now, when_again
from mcp_django.access.throttles import take
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.rates import FAILURES, Rate, failure_rates
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import FailuresThrottled, Throttled, Unauthenticated

logger = logging.getLogger("mcp_django")

_KNOWN_SECONDS = 3_600.0


class KnownCredentials:
    """The hashes of credentials that let somebody in within the last hour. They let nobody in by themselves."""

    size = 10_000

    def __init__(self) -> None:
        self._until: OrderedDict[str, float] = OrderedDict()
        self._lock = Lock()

    def add(self, digest: str) -> None:
        with self._lock:
            self._until[digest] = time.monotonic() + _KNOWN_SECONDS
            self._until.move_to_end(digest)
            while len(self._until) > self.size:
                self._until.popitem(last=False)

    def discard(self, digest: str) -> None:
        with self._lock:
            self._until.pop(digest, None)

    def clear(self) -> None:
        with self._lock:
            self._until.clear()

    def __contains__(self, digest: str) -> bool:
        return self._until.get(digest, 0.0) > time.monotonic()


class ThrottledAddresses:
    """The addresses that have used up their failures, as far as this process knows, and until when."""

    size = 10_000

    def __init__(self) -> None:
        self._ends: OrderedDict[str, tuple[int, Rate]] = OrderedDict()
        self._lock = Lock()

    def add(self, network: str, end: int, rate: Rate) -> None:
        with self._lock:
            self._ends[network] = (end, rate)
            self._ends.move_to_end(network)
            while len(self._ends) > self.size:
                self._ends.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._ends.clear()

    def __bool__(self) -> bool:
        return bool(self._ends)

    def find(self, network: str, moment: int) -> tuple[int, Rate] | None:
        """When it is over for the network, and which limit it was; None if the network is not throttled."""
        found = self._ends.get(network)
        return found if found is not None and found[0] > moment else None


known = KnownCredentials()
throttled = ThrottledAddresses()


def _begin_in_child() -> None:
    """A lock that a thread of the parent held would stay locked."""
    known.__init__()  # type: ignore[misc]
    throttled.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_begin_in_child)


def check_failures(address: str) -> None:
    """Raises FailuresThrottled if the address has used up its failures, as far as this process knows. Asks nothing."""
    found = throttled.find(network_of(address), now()) if throttled else None
    if found is not None:
        raise _error(*found)


def note_failure(address: str) -> None:
    """Count a failed authentication. Raises FailuresThrottled if it is one too many."""
    network, rates = network_of(address), failure_rates()
    if not network or not rates:
        return
    budget = [Limit(FAILURES, "address", f"address:{network}", rate) for rate in rates]
    try:
        take(budget, {FAILURES: 1})
    except Throttled as error:
        end, rate = now() + error.retry_after, next(rate for rate in rates if str(rate) == error.limit)
        throttled.add(network, end, rate)
        raise _error(end, rate) from None
    except Exception:
        # The credentials are refused all the same.
        logger.exception("A failed authentication could not be counted")


@contextmanager
def limited(request: MCPRequest, credentials: str, costs: Callable[[str], bool] = bool) -> Iterator[None]:
    """Authenticate within the block. Credentials that are not known are refused while their address is throttled.

    Raises FailuresThrottled, and what the block raises. A failure counts if the credentials ``costs`` a query.
    """
    if throttled and digest_of(credentials) not in known:
        check_failures(client_address(request))
    try:
        yield
    except Unauthenticated as error:
        if error.has_failed:
            known.discard(digest_of(credentials))
            if costs(credentials):
                note_failure(client_address(request))
        raise


def digest_of(credentials: str) -> str:
    """The hash under which credentials are known. For an access token it is the hash that is stored."""
    return hashlib.sha256(credentials.encode("latin-1", "replace")).hexdigest()


def _error(end: int, rate: Rate) -> FailuresThrottled:
    moment = now()
    allowed = amount_of(FAILURES, rate)
    said = f"Too many credentials from your network address were wrong ({allowed} are allowed)."
    return FailuresThrottled(f"{said} {when_again(moment, end)}", max(1, end - moment), str(rate), FAILURES)
