"""Where callers' use is counted: atomically for all processes, in a cache that can do it or in the database."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from django.core.cache import caches
from django.db import OperationalError, connection, connections, transaction
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from mcp_django.access.throttling import counters as module
from mcp_django.access.throttling.counters import CacheCounters, Charge, DatabaseCounters, counters
from mcp_django.models import AccessToken, Throttle
from tests.access.throttling import START, TILL_END, Caller, Clock, limits
from tests.conftest import is_listening, need
from tests.faults.services import Memcached, memcached_program
from tests.push.processes import ROOT, environment, new_prefix
from tests.support.data import Users

pytestmark = pytest.mark.every_database

END = START + TILL_END
PROCESSES = 8
#: Calls of each thread that charges the same counts: so many that PostgreSQL stores the rows in ever other orders.
CALLS = 400
LOCMEM = {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}
DATABASE = {"default": LOCMEM}


def redis() -> dict[str, Any]:
    """The setting CACHES with a cache of the test's own."""
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    backend = "django.core.cache.backends.redis.RedisCache"
    return {"default": {"BACKEND": backend, "LOCATION": "redis://127.0.0.1:6379", "KEY_PREFIX": new_prefix()}}


@pytest.fixture(scope="module")
def memcached_port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    need(memcached_program() is not None, "memcached, the program")
    with closing(Memcached(tmp_path_factory.mktemp("memcached"))) as started:
        started.start()
        yield started.port


@pytest.fixture
def memcached(memcached_port: int) -> dict[str, Any]:
    """The same with a Memcached that was started for these tests."""
    backend = "django.core.cache.backends.memcached.PyMemcacheCache"
    return {"default": {"BACKEND": backend, "LOCATION": f"127.0.0.1:{memcached_port}", "KEY_PREFIX": new_prefix()}}


@pytest.fixture(params=["database", "redis", "memcached"])
def store(request: pytest.FixtureRequest, db: None) -> Iterator[dict[str, Any]]:
    """The setting CACHES with which each of the backends counts."""
    made = {"database": lambda: DATABASE, "redis": redis, "memcached": lambda: request.getfixturevalue("memcached")}
    setting = made[request.param]()
    with override_settings(CACHES=setting):
        assert isinstance(counters(), DatabaseCounters if request.param == "database" else CacheCounters)
        yield setting


def charge(key: str, amount: int = 1, at_most: int = 2, ends: int = END) -> Charge:
    return Charge(key, amount, at_most, ends)


def counted(*keys: str) -> list[int]:
    """What the counts stand at: how often one more fits below a hundred."""
    return [next(n for n in range(101) if counters().take([charge(key, 0, n)]) is None) for key in keys]


# One process.


@pytest.mark.every_case
def test_a_charge_is_taken_as_long_as_it_fits_and_of_several_all_or_none(store: Any, clock: Clock) -> None:
    assert [counters().take([charge("a")]) for _ in range(4)] == [None, None, charge("a"), charge("a")]
    assert counters().take([charge("b", 1, 5), charge("c", 2, 3)]) is None
    refused = [counters().take([charge("b", 1, 5), charge("c", 2, 3)]) for _ in range(3)]

    assert refused == [charge("c", 2, 3)] * 3
    assert counted("a", "b", "c") == [2, 1, 2]


@pytest.mark.every_case
def test_a_charge_of_nothing_is_compared_alone(store: Any, clock: Clock) -> None:
    counters().add([charge("rows", 7)])

    assert counters().take([charge("rows", 0, 6), charge("calls")]) == charge("rows", 0, 6)
    assert counters().take([charge("calls"), charge("rows", 0, 7)]) is None
    assert counted("rows", "calls") == [7, 1]


@pytest.mark.every_case
def test_what_is_added_need_not_fit_and_counts_go_on_where_some_of_the_rows_are_missing(
    store: Any, clock: Clock
) -> None:
    counters().add([charge("a", 40, 0), charge("b", 2, 0)])
    counters().add([charge("a", 41, 0), charge("c", 3, 0)])

    assert counters().take([charge("c", 1, 9), charge("d", 1, 9), charge("e", 0, 9)]) is None
    assert counted("a", "b", "c", "d") == [81, 2, 4, 1]


def test_a_call_in_a_transaction_is_counted_all_or_nothing(store: Any, clock: Clock) -> None:
    with transaction.atomic():
        counters().take([charge("a", 1, 9), charge("b", 1, 1)])
        assert counters().take([charge("a", 1, 9), charge("b", 1, 1)]) == charge("b", 1, 1)

    assert counted("a", "b") == [1, 1]


def test_a_large_number_of_bytes_is_counted(db: None, clock: Clock) -> None:
    with override_settings(CACHES=DATABASE):
        counters().add([charge("a", 10**15)])
        counters().add([charge("a", 10**15)])

        assert Throttle.objects.get().count == 2 * 10**15


# Which cache.


def test_a_cache_that_is_not_atomic_for_all_processes_is_not_used(db: None) -> None:
    for backend in ("locmem.LocMemCache", "db.DatabaseCache", "filebased.FileBasedCache", "dummy.DummyCache"):
        setting = {"default": {"BACKEND": f"django.core.cache.backends.{backend}", "LOCATION": "x"}}
        with override_settings(CACHES=setting):
            assert isinstance(counters(), DatabaseCounters), backend


def test_memcached_is_used() -> None:
    from django.core.cache.backends import memcached

    base = memcached.BaseMemcachedCache

    assert f"{base.__module__}.{base.__qualname__}" in module.ATOMIC_CACHES
    assert issubclass(memcached.PyMemcacheCache, base) and issubclass(memcached.PyLibMCCache, base)


def test_another_alias_may_be_named_and_none_is_the_database(db: None) -> None:
    caches_with_other = {"default": LOCMEM, "counts": redis()["default"]}
    with override_settings(CACHES=caches_with_other):
        assert isinstance(counters(), DatabaseCounters)
        with limits(THROTTLE_CACHE="counts"):
            assert isinstance(counters(), CacheCounters)
    with override_settings(CACHES=redis()), limits(THROTTLE_CACHE=None):
        assert isinstance(counters(), DatabaseCounters)


def test_a_count_in_the_cache_ends_some_time_after_its_period(db: None, clock: Clock) -> None:
    with override_settings(CACHES=redis()):
        counters().take([charge("a")])
        cache: Any = caches["default"]
        client = cache._cache.get_client()
        seconds = client.ttl(cache.make_key("mcp_django:throttle:a"))

    assert TILL_END < seconds <= TILL_END + module._SPARE_SECONDS


class Evicting:
    """A cache that throws a count away when it is to be given back, as Memcached may when it is full."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def get_many(self, keys: list[str]) -> dict[str, int]:
        return {key: self.counts[key] for key in keys if key in self.counts}

    def add(self, key: str, value: int, timeout: int) -> bool:
        return self.counts.setdefault(key, value) == value

    def incr(self, key: str, amount: int) -> int:
        if key not in self.counts:
            raise ValueError(key)
        self.counts[key] += amount
        return self.counts[key]

    def decr(self, key: str, amount: int) -> int:
        raise ValueError(key)


def test_a_count_that_the_cache_has_thrown_away_does_no_harm(clock: Clock) -> None:
    evicting: Any = Evicting()
    found = [CacheCounters(evicting).take([charge("a", 1, 1)]) for _ in range(2)]

    assert found == [None, charge("a", 1, 1)]


def test_a_count_that_the_cache_does_not_have_stands_at_0(clock: Clock) -> None:
    evicting: Any = Evicting()

    # As of who may read one row a minute and has read none.
    assert CacheCounters(evicting).take([charge("rows", 0, 0)]) is None


def test_while_the_cache_is_away_calls_are_refused_for_a_while(
    users: Users, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    away = {"default": {**redis()["default"], "LOCATION": "redis://127.0.0.1:1"}}
    with override_settings(CACHES=away), limits(user={"calls": "5/min"}):
        reply = Caller(users.ops).reply("prompts/list")

    assert reply.status == 503
    assert b"Your budget cannot be counted at the moment. Try again later." in reply.body
    assert "The budget of a caller could not be read" in caplog.text


# Rows.


@pytest.mark.django_db(transaction=True)
def test_rows_of_periods_that_are_over_are_cleared_away(clock: Clock) -> None:
    counted_by = DatabaseCounters()
    counted_by.take([charge("old")])
    clock.now = END + module._SPARE_SECONDS
    counted_by._clear_at = 0.0
    counted_by.take([charge("new", ends=END + 86_400)])

    assert list(Throttle.objects.values_list("pk", flat=True)) == ["new"]


@pytest.mark.django_db(transaction=True)
def test_one_statement_takes_one_charge_and_the_clearing_costs_no_call(clock: Clock) -> None:
    counted_by = DatabaseCounters()
    counted_by.take([charge("a", 1, 9)])
    with CaptureQueriesContext(connection) as captured:
        counted_by.take([charge("a", 1, 9)])

    assert [query["sql"].split()[0] for query in captured] == ["UPDATE"]


def test_a_deadlock_is_tried_again(transactional_db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    update, failures = module._update, [OperationalError("deadlock detected")] * 3

    def unlucky(*args: Any) -> bool:
        if failures:
            raise failures.pop()
        return update(*args)

    monkeypatch.setattr(module, "_update", unlucky)

    assert DatabaseCounters().take([charge("a"), charge("b")]) is None
    assert sorted(Throttle.objects.values_list("count", flat=True)) == [1, 1]


# Many processes.

_CODE = """
import json, random, sys
import django; django.setup()
from django.contrib.auth.models import User
from django.test import override_settings
from mcp_django.access.throttling.counters import Charge, counters
from mcp_django.exchange import rates
from mcp_django.models import AccessToken
from tests.access.throttling import Caller

asked = json.loads(sys.argv[1])
rates.now = lambda: asked["now"]
number, choose = asked["number"], random.Random(asked["number"])

def call():
    user, tokens = User.objects.get(username="ops"), AccessToken.objects.order_by("pk")
    caller = Caller(user, tokens[number % 2], address=f"192.0.2.{number % 3}")
    return caller.admitted(asked["attempts"])

def take():
    orders, taken = [["a", "b", "c"], ["c", "a"], ["b", "a"], ["c", "b", "a"]], {"a": 0, "b": 0, "c": 0}
    for _ in range(asked["attempts"]):
        keys = choose.choice(orders)
        if counters().take([Charge(key, 1, asked["at_most"][key], asked["end"]) for key in keys]) is None:
            for key in keys:
                taken[key] += 1
    return taken

print("ready", flush=True)
sys.stdin.readline()
found = []
for store in asked["stores"]:
    with override_settings(CACHES=store, MCP={"THROTTLES": asked["throttles"]}):
        found.append([call(), take()])
print(json.dumps(found))
"""


def run_processes(**asked: Any) -> list[Any]:
    """What each of the processes printed at its end. All of them begin when the last one is ready."""
    started: list[subprocess.Popen[str]] = []
    try:
        for number in range(PROCESSES):
            given = json.dumps({**asked, "number": number, "now": START, "end": END})
            started.append(subprocess.Popen(
                [sys.executable, "-c", _CODE, given], cwd=ROOT, env=environment(""), text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            ))  # fmt: skip
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n", process.communicate()[1]
        for process in started:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=300) for process in started]
    finally:
        for process in started:
            process.kill()
    for process, (_, errors) in zip(started, ended, strict=True):
        assert process.returncode == 0, errors
    return [json.loads(output) for output, _ in ended]


@pytest.mark.slow
def test_calls_that_charge_the_same_counts_never_wait_for_each_other(
    transactional_db: None, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a second attempt, a deadlock is an error."""
    if connection.vendor == "sqlite":
        pytest.skip("SQLite has one lock for all rows")
    keys = [f"key{number}" for number in range(4)]
    counted_by = DatabaseCounters()
    counted_by.add([charge(key, 0) for key in keys])
    monkeypatch.setattr(module, "_ATTEMPTS", 1)

    def work(number: int) -> list[Charge | None]:
        choose = random.Random(number)
        try:
            return [counted_by.take([charge(key, 1, 10_000) for key in choose.sample(keys, 4)]) for _ in range(CALLS)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(PROCESSES) as threads:
        found = list(threads.map(work, range(PROCESSES)))

    assert found == [[None] * CALLS] * PROCESSES
    assert list(Throttle.objects.values_list("count", flat=True)) == [CALLS * PROCESSES] * 4


@pytest.mark.slow
def test_parallel_calls_of_eight_processes_cannot_overspend(
    transactional_db: None, users: Users, memcached: dict[str, Any]
) -> None:
    """Each process calls, and charges several counts in any order, in the database, in Redis and in Memcached."""
    for _ in range(2):
        AccessToken.objects.create_token(user=users.ops)
    stores = [DATABASE, redis(), memcached]
    throttles = {"user": {"calls": "60/min"}, "token": {"calls": "1000/min"}, "address": {"calls": "1000/min"}}
    at_most = {"a": 100, "b": 60, "c": 70}

    found = run_processes(stores=stores, throttles=throttles, attempts=25, at_most=at_most)

    for place, store in enumerate(stores):
        assert sum(one[place][0] for one in found) == 60
        taken = {key: sum(one[place][1][key] for one in found) for key in at_most}
        with override_settings(CACHES=store):
            for key, count in taken.items():
                assert 0 < count <= at_most[key]
                assert counters().take([charge(key, 0, count - 1)]) is not None
                assert counters().take([charge(key, 0, count)]) is None
