"""Counts what callers use, in the cache where that counts atomically for all processes, and else in the database."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import reduce, wraps
from operator import or_
from typing import Any, NamedTuple, ParamSpec, Protocol, TypeVar

from django.core.cache import BaseCache, caches
from django.db import OperationalError, connections, router, transaction
from django.db.models import Case, F, Q, QuerySet, Value, When

from mcp_django.conf import Conf, get_conf
from mcp_django.core.db.clearing import clear_away
from mcp_django.exchange import rates
from mcp_django.models import Throttle

logger = logging.getLogger("mcp_django")

P = ParamSpec("P")
T = TypeVar("T")

#: Caches whose ``add`` and ``incr`` are atomic for all processes. Their subclasses count as atomic too.
ATOMIC_CACHES = frozenset({
    "django.core.cache.backends.redis.RedisCache",
    "django.core.cache.backends.memcached.BaseMemcachedCache",
    "django_redis.cache.RedisCache",
})  # fmt: skip
_PREFIX = "mcp_django:throttle:"
#: How much longer than its period a count is kept: clocks of machines differ, and a call may end after its period.
_SPARE_SECONDS = 120
#: A statement may meet a row that another process is making or has locked.
_ATTEMPTS = 5
#: How often a process deletes the counts of periods that are over.
_CLEAR_SECONDS = 60.0


class Charge(NamedTuple):
    """What is to be added to one count."""

    key: str
    amount: int
    #: What the count may stand at afterwards.
    at_most: int
    #: When its period ends, in seconds since 1970.
    ends: int


class Counters(Protocol):
    """Counts that all processes share. A count that does not exist stands at 0."""

    def take(self, charges: Sequence[Charge]) -> Charge | None:
        """Add all of the charges if each fits. Otherwise add none, and return one that does not fit."""

    def add(self, charges: Sequence[Charge]) -> None:
        """Add the charges, whether they fit or not."""


def counters() -> Counters:
    """The counters in force. Raises InvalidCacheBackendError for an alias that CACHES does not have."""
    cache = atomic_cache()
    return _database_counters if cache is None else CacheCounters(cache)


def atomic_cache() -> BaseCache | None:
    """The cache THROTTLE_CACHE, if it counts atomically for all processes."""
    alias = get_conf().THROTTLE_CACHE
    cache = caches[alias] if alias else None
    if cache is None:
        return None
    paths = {f"{base.__module__}.{base.__qualname__}" for base in type(cache).__mro__}
    return None if ATOMIC_CACHES.isdisjoint(paths) else cache


def has_chosen_cache() -> bool:
    """False where the project chose a cache that cannot be used. Raises InvalidCacheBackendError."""
    return atomic_cache() is not None or get_conf().THROTTLE_CACHE in (None, Conf.THROTTLE_CACHE)


class CacheCounters:
    """Counts in Redis or Memcached, by ``add`` and ``incr``.

    A charge that does not fit is taken back. Until then another call may be refused that would have fitted, and none
    is ever admitted that does not fit.
    """

    def __init__(self, cache: BaseCache) -> None:
        self._cache = cache

    def take(self, charges: Sequence[Charge]) -> Charge | None:
        free = [charge for charge in charges if not charge.amount]
        counts = self._cache.get_many([_PREFIX + charge.key for charge in free]) if free else {}
        for charge in free:
            if counts.get(_PREFIX + charge.key, 0) > charge.at_most:
                return charge
        taken: list[Charge] = []
        for charge in charges:
            if not charge.amount:
                continue
            taken.append(charge)
            if self._add(charge) > charge.at_most:
                self._give_back(taken)
                return charge
        return None

    def add(self, charges: Sequence[Charge]) -> None:
        for charge in charges:
            self._add(charge)

    def _add(self, charge: Charge) -> int:
        key = _PREFIX + charge.key
        try:
            return self._cache.incr(key, charge.amount)
        except ValueError:
            # It does not exist yet. Only one process adds it, and all of them count on.
            self._cache.add(key, 0, timeout=max(1, charge.ends - rates.now()) + _SPARE_SECONDS)
            return self._cache.incr(key, charge.amount)

    def _give_back(self, charges: Sequence[Charge]) -> None:
        for charge in charges:
            with suppress(ValueError):  # The cache has thrown it away.
                self._cache.decr(_PREFIX + charge.key, charge.amount)


def _again(method: Callable[P, T]) -> Callable[P, T]:
    """Decorator: repeat a statement that met a deadlock or a locked database, unless it runs in a transaction."""

    @wraps(method)
    def repeated(*args: P.args, **kwargs: P.kwargs) -> T:
        for attempt in range(_ATTEMPTS):
            try:
                return method(*args, **kwargs)
            except OperationalError:
                if attempt == _ATTEMPTS - 1 or connections[_database()].in_atomic_block:
                    raise
        raise AssertionError("unreachable")

    return repeated


class DatabaseCounters:
    """Counts in rows of ``Throttle``, by one conditional UPDATE for all charges of a call."""

    def __init__(self) -> None:
        self._clear_at = 0.0

    @_again
    def take(self, charges: Sequence[Charge]) -> Charge | None:
        if not any(charge.amount for charge in charges):
            return _exceeded(charges, _counts(charges))
        fitting = reduce(or_, (Q(pk=charge.key, count__lte=charge.at_most - charge.amount) for charge in charges))
        for _ in range(_ATTEMPTS):
            if _update(charges, fitting):
                return None
            counts = _counts(charges)
            refused = _exceeded(charges, counts)
            if refused is not None:
                return refused
            self._make(charges, counts)
        raise OperationalError("The counts of a call change faster than they can be read.")

    @_again
    def add(self, charges: Sequence[Charge]) -> None:
        named = Q(pk__in=[charge.key for charge in charges])
        if not _update(charges, named):
            self._make(charges, _counts(charges))
            _update(charges, named)

    def _make(self, charges: Sequence[Charge], there: dict[str, int]) -> None:
        """Make the rows that are missing. Another process may make them too."""
        missing = sorted(charge for charge in charges if charge.key not in there)
        rows = [Throttle(key=charge.key, ends=charge.ends) for charge in missing]
        Throttle.objects.using(_database()).bulk_create(rows, ignore_conflicts=True)
        self._clear()

    def _clear(self) -> None:
        """Delete the rows of periods that are over, now and then."""
        alias = _database()
        if time.monotonic() < self._clear_at or connections[alias].in_atomic_block:
            return
        self._clear_at = time.monotonic() + _CLEAR_SECONDS
        clear_away(Throttle.objects.using(alias).filter(ends__lte=rates.now() - _SPARE_SECONDS))


_database_counters = DatabaseCounters()


def _database() -> str:
    return router.db_for_write(Throttle)


def _counts(charges: Sequence[Charge]) -> dict[str, int]:
    rows = Throttle.objects.using(_database()).filter(pk__in=[charge.key for charge in charges])
    return dict(rows.values_list("pk", "count"))


def _exceeded(charges: Sequence[Charge], counts: dict[str, int]) -> Charge | None:
    """A charge that does not fit, if there is one."""
    over = (charge for charge in charges if counts.get(charge.key, 0) + charge.amount > charge.at_most)
    return next(over, None)


def _update(charges: Sequence[Charge], condition: Q) -> bool:
    """Add the charges to their rows, which meet the condition; False if one does not, and then nothing is added."""
    alias = _database()
    rows = Throttle.objects.using(alias).filter(condition)
    if len(charges) == 1:
        return rows.update(count=F("count") + charges[0].amount) == 1
    amounts = Case(*(When(pk=charge.key, then=Value(charge.amount)) for charge in charges))
    with transaction.atomic(using=alias):
        is_done = _locked_in_order(rows, charges).update(count=F("count") + amounts) == len(charges)
        if not is_done:
            transaction.set_rollback(True, using=alias)
    return is_done


def _locked_in_order(rows: QuerySet[Any], charges: Sequence[Charge]) -> QuerySet[Any]:
    """The rows, locked in the order of their keys, so that two calls never wait for each other.

    MariaDB, MySQL and SQLite do that by themselves: the first two read the rows by their primary key, and the last has
    one lock.
    """
    if connections[rows.db].vendor != "postgresql":
        return rows
    ordered = Throttle.objects.using(rows.db).filter(pk__in=[charge.key for charge in charges]).order_by("pk")
    return rows.filter(pk__in=ordered.select_for_update().values("pk"))
