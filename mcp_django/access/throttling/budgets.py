"""The budget of a caller: the limits that hold for its user, its token and its address, and what it is told of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from mcp_django.access.throttling.counters import Charge
from mcp_django.exchange.addresses import client_address
from mcp_django.exchange.rates import (
    KINDS,
    OF_CALLS,
    OF_WRITES,
    UNIQUE,
    Limits,
    Rate,
    only,
    parse_limits,
    throttles,
    write_throttles,
)
from mcp_django.protocol.errors import Throttled

if TYPE_CHECKING:
    from mcp_django.exchange.principals import Principal
    from mcp_django.exchange.requests import MCPRequest

#: Keys that every cache takes, and that no database with a case-insensitive collation takes for one another.
_PLAIN_KEY = re.compile(r"[a-z0-9:./-]{1,100}")
#: An IPv6 network of this size belongs to one customer, who may call from each of its addresses.
_IPV6_PREFIX = 64
_OF: Mapping[str, str] = {"user": "Your", "token": "Your token's", "address": "Your network address's"}
_PERIODS: Mapping[int, str] = {1: "a second", 60: "a minute", 3_600: "an hour", 86_400: "a day"}
_VERBS: Mapping[str, str] = dict(zip(KINDS, ("make", "make", "read", "read", "make", "have", "give"), strict=True))
#: What is counted, where the name of its kind does not say it.
_NOUNS: Mapping[str, str] = {UNIQUE: "new unique values"}


@dataclass(frozen=True, slots=True)
class Limit:
    """One rate for one caller. Its periods are fixed: each begins at a multiple of its length, in UTC."""

    kind: str
    #: Whose limit it is: a key of ``rates.SUBJECTS``, and the text that names this user, token or address.
    subject: str
    holder: str
    rate: Rate
    #: The table that it is for, and the model that the caller knows this by; empty where it is for all of them.
    table: str = ""
    model: str = ""

    def charge(self, moment: int, amount: int, *, at_most: int) -> Charge:
        """The charge of ``amount`` to the period of a moment, which may stand at ``at_most`` afterwards."""
        number = moment // self.rate.seconds
        key = f"{self.kind}:{self.holder}:{self.rate.seconds}:{number}{f':{self.table}' if self.table else ''}"
        if not _PLAIN_KEY.fullmatch(key):
            key = hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()
        return Charge(key, amount, at_most, self._end(moment))

    def error(self, moment: int, amount: int = 1) -> Throttled:
        """The error for a caller who has used it up, or who asks for an ``amount`` that is more than all of it."""
        end = self._end(moment)
        of_model = f" for {self.model}" if self.model else ""
        why = "is used up." if amount <= self.rate.number else f"is less than the {amount:,} of one call: give fewer."
        said = f"{_OF[self.subject]} budget of {amount_of(self.kind, self.rate)}{of_model} {why}"
        return Throttled(f"{said} {when_again(moment, end)}", end - moment, str(self.rate), self.kind)

    def _end(self, moment: int) -> int:
        return (moment // self.rate.seconds + 1) * self.rate.seconds


def budget_of(principal: Principal, request: MCPRequest) -> Sequence[Limit]:
    """The limits of a caller in any call. Where none is configured this asks nothing, and is empty."""
    return _budget(throttles(), OF_CALLS, principal, request)


def write_budget_of(principal: Principal, request: MCPRequest) -> Sequence[Limit]:
    """What a caller may write through the admin's forms."""
    return _budget(write_throttles(), OF_WRITES, principal, request)


def _budget(
    declared: Mapping[str, Limits], kinds: Sequence[str], principal: Principal, request: MCPRequest
) -> Sequence[Limit]:
    own = _own_limits(principal)
    if not declared and not own:
        return ()
    least: dict[tuple[str, str, str, int], int] = {}
    if "user" in declared:
        _lower(least, "user", _user(principal, request), declared["user"])
    if principal.token_id is not None:
        for limits in (declared.get("token", {}), only(parse_limits(own or {}), kinds)):
            _lower(least, "token", f"token:{principal.lineage}", limits)
    if "address" in declared and (network := network_of(client_address(request))):
        # On stdio and on a Unix socket there is no address: all callers would have the same one.
        _lower(least, "address", f"address:{network}", declared["address"])
    return [Limit(kind, subject, holder, Rate(number, seconds))
            for (kind, subject, holder, seconds), number in least.items()]  # fmt: skip


def sentence(budget: Sequence[Limit]) -> str:
    """What a caller is told of its budget: of each kind and period the least. Empty where there is no limit."""
    least: dict[tuple[str, int], int] = {}
    for limit in budget:
        name = limit.kind, limit.rate.seconds
        least[name] = min(limit.rate.number, least.get(name, limit.rate.number))
    allowed = [
        f"{_VERBS[kind]} {amount_of(kind, Rate(least[kind, seconds], seconds))}"
        for kind in KINDS
        for seconds in sorted(seconds for other, seconds in least if other == kind)
    ]
    *first, last = allowed or [""]
    return f"You may {', '.join(first)}{' and ' if first else ''}{last}." if last else ""


def amount_of(kind: str, rate: Rate) -> str:
    """A rate in words, as ``1,000 rows a day``."""
    several = _NOUNS.get(kind, kind)
    return f"{rate.number:,} {several if rate.number != 1 else several[:-1]} {_PERIODS[rate.seconds]}"


def when_again(moment: int, end: int) -> str:
    """When a caller may try again. The time of day is for people, and for clients that do not read ``retryAfter``."""
    seconds = end - moment
    at = datetime.fromtimestamp(end, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"Try again in {seconds} second{'' if seconds == 1 else 's'}, at {at}."


def network_of(address: str) -> str:
    """The network that counts as one address: of IPv6 the first 64 bits. Empty for an empty address."""
    found = ip_address(address) if address else None
    return str(ip_network((found, _IPV6_PREFIX), strict=False)) if isinstance(found, IPv6Address) else address


def _lower(least: dict[tuple[str, str, str, int], int], subject: str, holder: str, limits: Limits) -> None:
    """Add the rates of a holder. For one period the lesser of two rates holds."""
    for kind, rate in ((kind, rate) for kind, rates in limits.items() for rate in rates):
        name = kind, subject, holder, rate.seconds
        least[name] = min(rate.number, least.get(name, rate.number))


def _user(principal: Principal, request: MCPRequest) -> str:
    """The key of the user. Callers without a user count by their networks."""
    return principal.key if principal.user.pk is not None else f"{principal.key}:{network_of(client_address(request))}"


def _own_limits(principal: Principal) -> Any:
    """What the token itself is limited to. Credentials of another kind have no limits of their own."""
    return None if principal.token_id is None else principal.auth.limits
