from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest
from django.contrib.admin.sites import all_sites
from django.middleware import csrf
from pytest_django.plugin import blocking_manager_key

from mcp_django.access import overrides
from mcp_django.access.authentication import principals
from mcp_django.access.throttling import failures
from mcp_django.access.throttling.failures import known_callers
from mcp_django.bridge import sites
from mcp_django.core.events import bus
from mcp_django.core.running.workers import close_workers
from mcp_django.push import collectors, sweep
from mcp_django.push import hub as hubs
from mcp_django.push.hub import Hub
from mcp_django.transports.http import streaming
from mcp_django.transports.in_process import InProcess
from tests import axes, slow
from tests.lanes import REPORT
from tests.support import migrated, schemas
from tests.support.declared import Declared
from tests.support.examples import ALL, FEW
from tests.support.loop import LoopThread
from tests.support.peers import Peer, Peers

# The same examples in every run, however slow the machine is.
for lane, number in (("release", ALL), ("other", FEW)):
    hypothesis.settings.register_profile(
        lane,
        max_examples=number,
        derandomize=True,
        database=None,
        deadline=None,
        suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
    )

# A random token in a page spells no word that a test looks for.
csrf.CSRF_ALLOWED_CHARS = "xz"

#: Folders of tests that start processes or take their time, the slowest first.
SLOWEST = ("faults", "end_to_end", "projects", "fuzz", "tasks", "transports", "push")
#: The process holds Django, the models and the schemas of five revisions: each look at all of it takes milliseconds.
GC_THRESHOLD = (50_000, 20, 50)


def need(condition: bool, what: str) -> None:
    """Skip the test with a line that says what is missing; under CI=true that is a failure."""
    if condition:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing")
    pytest.skip(f"{what} is missing")


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def pytest_addoption(pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(axes)
    pluginmanager.register(slow)


def pytest_configure(config: pytest.Config) -> None:
    """A shell has the jobs in its background ignore Ctrl-C; servers that tests end with it would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.load_profile("release" if config.getoption("lane") == "release" else "other")
    gc.disable()  # Until all tests are collected, of which nothing is garbage: looking takes a quarter of that time.


def pytest_collection_finish(session: pytest.Session) -> None:
    """The garbage collector does not look again and again at what stays for the whole run."""
    gc.freeze()
    gc.set_threshold(*GC_THRESHOLD)
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """First the files that take long, so that no process is left alone with one at the end."""
    last = len(SLOWEST)
    turns = {name: turn for turn, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: next((turns[part] for part in item.path.parts if part in turns), last))


def pytest_sessionstart(session: pytest.Session) -> None:
    """A run for a database server is over at once where there is none, and any where named schemas are missing."""
    schemas.are_here()
    port = {"postgresql": 5432, "mariadb": 3306}.get(os.environ.get("TEST_DATABASE", ""))
    if port is not None and not is_listening(port):
        code = 1 if os.environ.get("CI") == "true" else 0
        pytest.exit(f"skipped: no {os.environ['TEST_DATABASE']} listens on 127.0.0.1:{port}", returncode=code)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(schemas.said())
    if path := os.environ.get(REPORT):
        stats = terminalreporter.stats
        reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in stats.get("skipped", ()))
        ran = sum(len(stats.get(name, ())) for name in ("passed", "failed", "xfailed", "xpassed"))
        failed = [_failure(report) for name in ("failed", "error") for report in stats.get(name, ())]
        Path(path).write_text(json.dumps({"ran": ran, "failed": failed, "missing": reasons, "held": schemas.said()}))


def _failure(report: Any) -> str:
    """The test, and the first line of what it says."""
    crash = getattr(report.longrepr, "reprcrash", None)
    return f"{report.nodeid}: {crash.message.splitlines()[0][:200]}" if crash and crash.message else report.nodeid


@pytest.fixture(scope="session")
def django_db_modify_db_settings() -> None:
    """The name of the test database is set by tests.settings."""


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Whether the test databases are there already, as copies."""
    return os.environ.get("TEST_DATABASE", "sqlite") == "sqlite" and migrated.copy_databases()


@pytest.fixture(scope="session", autouse=True)
def _json_is_known() -> None:
    """The checks of Django 6.1 ask each database whether it knows JSON, also in tests that may not ask one."""
    from django.db import connections

    for connection in connections.all():
        vars(connection.features)["supports_json_field"] = True


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any, django_db_keepdb: bool) -> Iterator[None]:
    """The test databases, on a server that knows time zones; each test leaves them with the rows of ``migrate``."""
    from django.db import connection, connections

    from tests.support.mariadb import load_time_zones
    from tests.support.postgresql import begin_keys_high
    from tests.support.restoring import keep_as_migrated

    with django_db_blocker.unblock():
        if connection.vendor == "mysql":
            load_time_zones()
        other = connections["other"].settings_dict
        keep_as_migrated(["default", "other"] if other["NAME"] == other["TEST"]["NAME"] else ["default"])
        if connection.vendor == "postgresql":
            begin_keys_high(connection)
        if connection.vendor == "sqlite" and not django_db_keepdb:
            migrated.keep_database()
    yield
    if django_db_keepdb:
        migrated.remove_databases()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: Any) -> None:
    """The rows of its fixtures are there before the test opens the transaction that is rolled back."""
    from tests.support.data import OF_FIXTURES
    from tests.support.restoring import begin_with

    if "db" in item.fixturenames or "transactional_db" in item.fixturenames or item.get_closest_marker("django_db"):
        with item.config.stash[blocking_manager_key].unblock():
            begin_with(dict(rows for name, rows in OF_FIXTURES.items() if name in item.fixturenames))


@pytest.fixture(scope="session")
def serving_loop() -> Iterator[LoopThread]:
    """The loop in which applications are served."""
    loop = LoopThread()
    yield loop
    loop.close()


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    """No test sees the memory, threads or connections that another one left."""
    principals.clear()
    known_callers.clear()
    overrides.forget()
    failures.throttled.clear()
    before = {id(known): set(known) for known in (sites._sites, all_sites)}
    yield
    for known in (sites._sites, all_sites):
        for made in set(known) - before[id(known)]:  # It would stay until the garbage collector comes.
            known.discard(made)
    _close_hubs()
    close_workers()
    principals.clear()
    known_callers.clear()
    overrides.forget()
    if bus._local_only:
        # A client that nobody has closed, and that an exception may refer to, keeps every change in this process.
        for connection in [one for one in gc.get_objects() if type(one) is InProcess]:
            connection.close()


def _close_hubs() -> None:
    for loop, hub in list(hubs._hubs.items()):
        hubs._hubs.pop(loop, None)
        if loop.is_running():
            done = asyncio.run_coroutine_threadsafe(_close(hub), loop)
            done.result(60)


async def _close(hub: Any) -> None:
    tasks = list(hub._tasks)
    hub.close()
    await asyncio.gather(*tasks, return_exceptions=True)
    # Collectors, and calls whose clients have left, write their end to the database, which is another test's soon.
    loop = asyncio.get_running_loop()
    ending = [task for task in (*collectors._tasks, *streaming._tasks) if task.get_loop() is loop]
    if ending:
        await asyncio.wait(ending, timeout=60)


@pytest.fixture
def swept(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Waits until the hub has compared all that is open with the database, twice, after what the test did."""
    finished = threading.Semaphore(0)
    compare = sweep.compare

    async def compare_and_count(hub: Hub, turn: int) -> None:
        await compare(hub, turn)
        finished.release()

    def wait() -> None:
        while finished.acquire(blocking=False):
            pass
        # The first one may have begun before.
        assert all(finished.acquire(timeout=60) for _ in range(3))

    monkeypatch.setattr(sweep, "compare", compare_and_count)
    return wait


@pytest.fixture
def transport(request: pytest.FixtureRequest) -> str:
    """The transport of the test; others with a marker, or with ``@pytest.mark.parametrize("transport", PUSHING)``."""
    return str(getattr(request, "param", axes.ONE))


@pytest.fixture
def transactional_db(transactional_db: None) -> Iterator[None]:
    """The rows are put back only after the threads of the test have ended, or one of them might write once more."""
    yield
    _close_hubs()
    close_workers()


@pytest.fixture
def peers(
    transport: str, pytestconfig: pytest.Config, transactional_db: None, serving_loop: LoopThread
) -> Iterator[Peers]:
    """Makes peers of the transport: ``peers(token)``."""
    made = Peers(pytestconfig.getoption("wire") or transport, serving_loop)
    yield made
    made.close()


@pytest.fixture
def rows_of_test(db: None) -> None:
    """The database of rows that fixtures make: in a transaction, unless something of the test asks for none."""


@pytest.fixture
def made_users(rows_of_test: None) -> Any:
    from tests.support.data import OF_FIXTURES
    from tests.support.restoring import begun_with

    return begun_with(*OF_FIXTURES["made_users"])


@pytest.fixture
def users(made_users: Any) -> Any:
    return made_users


@pytest.fixture
def made_flights(rows_of_test: None) -> Any:
    from tests.support.data import OF_FIXTURES
    from tests.support.restoring import begun_with

    return begun_with(*OF_FIXTURES["made_flights"])


@pytest.fixture
def flights(made_flights: Any) -> Any:
    return made_flights


@pytest.fixture
def trail(settings: Any) -> Iterator[None]:
    """Calls are written down."""
    from mcp_django.audit.recorder import recorder

    recorder._reset()
    settings.MCP = {**settings.MCP, "AUDIT": "on"}
    yield
    recorder._reset()


@pytest.fixture
def declared() -> Iterator[Declared]:
    """Declares models, admins and tools for the length of the test."""
    declarations = Declared()
    yield declarations
    declarations.close()


@pytest.fixture
def admin(users: Any, peers: Peers) -> Peer:
    from tests.support.data import token_of

    return peers(token_of(users.admin))


@pytest.fixture
def ops(users: Any, peers: Peers) -> Peer:
    from tests.support.data import token_of

    return peers(token_of(users.ops))


@pytest.fixture
def viewer(users: Any, peers: Peers) -> Peer:
    from tests.support.data import token_of

    return peers(token_of(users.viewer))
