"""Which tests are slow, and which files a run need not load for it has none of their tests.

A test is slow that starts servers, clients or browsers, and so is one that computes for long: ``long.txt`` names those.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

#: Folders whose tests start servers, clients and browsers.
FOLDERS = {"end_to_end", "faults"}
#: Tests whose first case computes for 0.3 s and more, as ``--write-long`` noted them.
LONG = Path(__file__).with_name("long.txt")
LONG_SECONDS = 0.3


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-long", action="store_true", help=f"note the tests that take long in {LONG.name}")


def pytest_itemcollected(item: pytest.Item) -> None:
    """So that ``-m slow`` divides what takes long from what does not."""
    if is_slow(item):
        item.add_marker("slow")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A run loads no file of which it runs no test: loading all takes as long as hundreds of tests."""
    chosen = config.getoption("markexpr")
    if not collection_path.match("test_*.py"):
        return None
    if chosen.startswith("not slow"):
        return bool(FOLDERS.intersection(collection_path.parts)) or None
    if chosen == "slow":
        return None if _may_be_slow(collection_path) else True
    if chosen.startswith("every_database"):
        return "every_database" not in collection_path.read_text() or None
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.getoption("write_long"):
        ran = [report for reports in terminalreporter.stats.values() for report in reports]
        calls = [report for report in ran if getattr(report, "when", "") == "call"]
        names = {name_of(report.nodeid) for report in calls if report.duration >= LONG_SECONDS}
        LONG.write_text("".join(f"{name}\n" for name in sorted(names)))


def is_slow(test: pytest.Item) -> bool:
    """Whether it is by its folder or by its time; those by a marker have that themselves."""
    return bool(FOLDERS.intersection(test.path.parts)) or name_of(test.nodeid) in long_tests()


def name_of(nodeid: str) -> str:
    """The name of the test, without those of its case."""
    return nodeid.partition("[")[0]


@cache
def long_tests() -> frozenset[str]:
    return frozenset(LONG.read_text().split())


def _may_be_slow(path: Path) -> bool:
    name = path.relative_to(LONG.parents[1]).as_posix()
    is_long = any(test.startswith(f"{name}::") for test in long_tests())
    return is_long or bool(FOLDERS.intersection(path.parts)) or "mark.slow" in path.read_text()
