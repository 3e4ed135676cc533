"""Limits failed authentication by address: too many failures, and credentials that are not known are not looked up.

Credentials that let their user in a while ago are not refused, so that nobody is locked out by a neighbour who guesses.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import OrderedDict
from threading import Lock

from mcp_django.access.budgets import Limit, network_of, when_again
from mcp_django.access.throttles import take
from mcp_django.exchange import rates
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.rates import FAILURES, failure_rates
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.errors import FailuresThrottled, Throttled, Unauthenticated

logger = logging.getLogger("mcp_django")

_KNOWN_SECONDS = 3_600


class Remembered:
    """Texts that this process remembers by a name until a second of ``rates.now``; at most so many, the latest."""

    def __init__(self, size: int = 10_000) -> None:
        self._size = size
        self._entries: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._lock = Lock()

    def add(self, name: str, end: int, text: str = "") -> None:
        with self._lock:
            self._entries[name] = (end, text)
            self._entries.move_to_end(name)
            while len(self._entries) > self._size:
                self._entries.popitem(last=False)

    def discard(self, name: str) -> None:
        with self._lock:
            self._entries.pop(name, None)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()

    def find(self, name: str) -> tuple[int, str] | None:
        """Until when the name is remembered, and its text."""
        entry = self._entries.get(name)
        return entry if entry is not None and entry[0] > rates.now() else None

    def __bool__(self) -> bool:
        return bool(self._entries)


#: The hashes of credentials that let somebody in within the last hour. They let nobody in by themselves.
known = Remembered()
#: The addresses that have used up their failures, each with the limit, as far as this process knows.
throttled = Remembered()


def _begin_in_child() -> None:
    """A lock that a thread of the parent held would stay locked in the child of a fork."""
    global known, throttled
    known, throttled = Remembered(), Remembered()


os.register_at_fork(after_in_child=_begin_in_child)


def note_success(digest: str) -> None:
    """Remember that the credentials with this hash let somebody in."""
    known.add(digest, rates.now() + _KNOWN_SECONDS)


def check_failures(address: str) -> None:
    """Raises FailuresThrottled if the address has used up its failures, as far as this process knows. Asks nothing."""
    found = throttled.find(network_of(address)) if throttled else None
    if found is not None:
        raise _error(*found)


def note_failure(address: str) -> None:
    """Count a failed authentication. Raises FailuresThrottled if it is one too many."""
    network = network_of(address)
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


def refuse_throttled(request: MCPRequest, credentials: str) -> None:
    """Raises FailuresThrottled for credentials that are not known, while their address is throttled. Asks nothing."""
    if throttled and known.find(digest_of(credentials)) is None:
        check_failures(client_address(request))


def count_failure(request: MCPRequest, credentials: str, error: Unauthenticated, *, costs: bool = True) -> None:
    """Forget credentials that were wrong, and count them if it took a query to tell (``costs``).

    Raises FailuresThrottled if it is one too many.
    """
    if error.has_failed:
        known.discard(digest_of(credentials))
        if costs:
            note_failure(client_address(request))


def digest_of(credentials: str) -> str:
    """The hash under which credentials are known. For an access token it is the hash that is stored."""
    return hashlib.sha256(credentials.encode("latin-1", "replace")).hexdigest()


def _error(end: int, limit: str) -> FailuresThrottled:
    moment = rates.now()
    said = f"Too many credentials from your network address were wrong: {limit} may be."
    return FailuresThrottled(f"{said} {when_again(moment, end)}", max(1, end - moment), limit, FAILURES)
