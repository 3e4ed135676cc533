"""Runs a lane: its steps, and at the end a table of what ran.

    python -m tests.lanes check | test | more | release

Steps stand in tracks. The steps of a track run one after the other, and the tracks of a lane beside each other: what
waits by nature (processes that end, browsers) beside what computes. The first track writes what it has to say at once,
the others when a step is over. A lane fails where a step fails, and where fewer than 95 % of the cases ran that
ran when they were last counted.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
CORES = os.cpu_count() or 1
#: A lane runs at least this part of the cases that its steps name.
LEAST = 0.95
#: Names the file into which a run of pytest writes how its tests ended: see ``tests/conftest.py``.
REPORT = "TEST_REPORT"


@dataclass(frozen=True)
class Step:
    """One command of a lane."""

    name: str
    command: tuple[str, ...]
    #: How many cases ran when they were last counted; 0 where the command runs no pytest.
    cases: int = 0
    environment: dict[str, str] = field(default_factory=dict)


@dataclass
class Outcome:
    """How a step ended."""

    step: Step
    code: int
    seconds: float
    report: dict[str, Any] | None

    @property
    def ran(self) -> int:
        return self.report["ran"] if self.report else 0

    @property
    def missing(self) -> dict[str, int]:
        """What the machine does not have → how many tests were skipped for it."""
        return self.report["missing"] if self.report else {}

    @property
    def failed(self) -> list[str]:
        """The tests that failed, with what they said."""
        return self.report["failed"] if self.report else []

    @property
    def is_short(self) -> bool:
        """Whether too few cases ran; what was skipped with a line counts here, and is a failure under CI=true."""
        if self.report is None:
            return bool(self.step.cases) and os.environ.get("CI") == "true"
        return self.ran + sum(self.missing.values()) < LEAST * self.step.cases

    @property
    def verdict(self) -> str:
        if self.code:
            return f"FAILED ({self.code})"
        return "FAILED: too few" if self.is_short else "" if self.report or not self.step.cases else "not run"


def pytest(*arguments: str, workers: int = CORES) -> tuple[str, ...]:
    """A run of pytest in several processes, files in the order of ``tests/conftest.py``."""
    shared = ("--quiet", "--numprocesses", str(workers), "--dist", "loadfile", "--no-loadscope-reorder")
    return ("-m", "pytest", *shared, *arguments)


def newest(*arguments: str) -> tuple[str, ...]:
    """The same on the newest pair of Python and Django that is found."""
    return ("-m", "tests.matrix", "--newest", "--even-here", *pytest(*arguments)[2:])


POSTGRESQL = {"TEST_DATABASE": "postgresql"}
MARIADB = {"TEST_DATABASE": "mariadb"}
COMPUTING, WAITING = ("-m", "not slow"), ("-m", "slow")
#: A database is asked over one transport, since how messages are carried is no matter of it.
DATABASE = ("-m", "every_database and not slow", "--lane", "test", "--one-transport")
NO_DATABASE = "not slow and not every_database"
DATABASE_WAITING = ("-m", "every_database and slow", "--lane", "test", "--one-transport")
LINT = (
    Step("ruff", ("-m", "ruff", "check", "--quiet", ".")),
    Step("format", ("-m", "ruff", "format", "--quiet", "--check", ".")),
    Step("imports", ("-c", "from importlinter.cli import lint_imports_command as c; c()")),
    Step("types", ("-m", "mypy")),
)
#: Lane → what it installs before its time is taken.
INSTALLED = {"test": ("node",), "more": ("node", "clients", "newest"), "release": ("node", "clients", "newest")}
CONFORMANCE = Step("conformance", ("-m", "tests.conformance"))

#: Lane → its tracks.
LANES: dict[str, tuple[tuple[Step, ...], ...]] = {
    "check": (
        (Step("SQLite", pytest("--lane", "check", *COMPUTING), 3455),),
        LINT,
    ),
    "test": (
        (
            Step("SQLite", pytest("--lane", "test", *COMPUTING), 5785),
            Step("PostgreSQL", pytest(*DATABASE), 1250, POSTGRESQL),
        ),
        (
            *LINT,
            Step("servers", pytest("--lane", "test", *WAITING), 513),
            CONFORMANCE,
        ),
    ),
    "more": (
        (
            Step("SQLite", pytest("--lane", "more", *COMPUTING), 1224),
            Step("MariaDB", pytest(*DATABASE), 1170, MARIADB),
            Step("newest pair", newest("--lane", "test", "--one-transport", "-m", NO_DATABASE), 3701),
            Step("newest, PostgreSQL", newest(*DATABASE), 1236, POSTGRESQL),
        ),
        (
            Step("servers", pytest("--lane", "more", *WAITING, workers=CORES + 1), 887),
            Step("servers, PostgreSQL", pytest(*DATABASE_WAITING), 113, POSTGRESQL),
        ),
    ),
    "release": (
        (
            *LINT,
            Step("SQLite", pytest(*COMPUTING), 5130),
            Step("servers", pytest(*WAITING), 1330),
            Step("MariaDB", pytest("-m", "every_database"), 1250, MARIADB),
            Step("newest, PostgreSQL", newest("-m", "every_database"), 1250, POSTGRESQL),
            Step("lowest", ("-m", "tests.matrix", "--lowest", *pytest("--lane", "check", *COMPUTING)[2:])),
            Step("pairs", ("-m", "tests.matrix", *pytest("--one-transport", *COMPUTING)[2:])),
            Step("Protobuf", pytest("--wire", "http-protobuf"), 1010),
            Step("gRPC", pytest("--wire", "grpc"), 240),
            CONFORMANCE,
            Step("fuzzers", pytest("tests/fuzz"), 50, {"FUZZ_EXAMPLES": "5000"}),
            Step("projects", ("-m", "tests.projects")),
            Step("agents", ("-m", "tests.agents")),
            Step("faults", ("-m", "tests.faults")),
            Step("mutations", ("-m", "tests.mutations")),
            Step("processes", ("-m", "bench.processes", "--check")),
            Step("large trail", ("-m", "bench.large_trail", "--check")),
            Step("steady", ("-m", "bench.steady", "--check")),
            Step("soak", ("-m", "bench.soak", "--check")),
        ),
    ),
}


def run(step: Step, is_heard: bool) -> Outcome:
    """Run a step; unless it is heard, its output is written when it is over."""
    print(f"{step.name}: begun", flush=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        report, said = Path(folder, "report.json"), Path(folder, "output.txt")
        environment = {**os.environ, **step.environment, REPORT: str(report)}
        with said.open("w") as output:
            done = subprocess.run(
                [sys.executable, *step.command], cwd=ROOT, env=environment, check=False,
                stdout=None if is_heard else output, stderr=None if is_heard else subprocess.STDOUT,
            )  # fmt: skip
        found = json.loads(report.read_text()) if report.exists() else None
        outcome = Outcome(step, done.returncode, time.monotonic() - begun, found)
        print(f"{said.read_text()}{step.name}: {outcome.verdict or 'passed'} after {outcome.seconds:.0f} s", flush=True)
    return outcome


def install(lane: str) -> list[Outcome]:
    names = INSTALLED.get(lane)
    return [run(Step("installing", ("-m", "tests.environments", *names)), True)] if names else []


def run_lane(name: str) -> list[Outcome]:
    tracks = LANES[name]
    with ThreadPoolExecutor(len(tracks)) as pool:
        done = pool.map(lambda track: [run(step, track is tracks[0]) for step in track], tracks)
        return [outcome for track in done for outcome in track]


def table(name: str, outcomes: Sequence[Outcome], seconds: float, load: float) -> str:
    """What ran: a line for each step, for each thing that the machine does not have, and for each test that failed."""
    lines = ["", f"{'make ' + name:20} {'ran':>6} {'kept':>6} {'skipped':>8} {'seconds':>8}"]
    for outcome in outcomes:
        counts = (outcome.ran, outcome.step.cases, sum(outcome.missing.values()))
        cells = " ".join(f"{count or '':>{width}}" for count, width in zip(counts, (6, 6, 8), strict=True))
        lines.append(f"{outcome.step.name:20} {cells} {outcome.seconds:8.0f}  {outcome.verdict}".rstrip())
    missing: dict[str, int] = {}
    for outcome in outcomes:
        for reason, number in outcome.missing.items():
            missing[reason] = missing.get(reason, 0) + number
    lines += [f"skipped {number}: {reason}" for reason, number in sorted(missing.items())]
    lines += [f"failed in {outcome.step.name}: {one}" for outcome in outcomes for one in outcome.failed]
    if held := {outcome.report["held"] for outcome in outcomes if outcome.report}:
        lines += sorted(held)
    lines.append(
        f"{seconds:.0f} s without what was installed, on {CORES} cores "
        f"({processor()}, Python {platform.python_version()}), beside a load of {load:.1f} at the beginning"
    )
    return "\n".join(lines)


def processor() -> str:
    names = [line for line in _read("/proc/cpuinfo").splitlines() if line.startswith("model name")]
    return names[0].partition(":")[2].strip() if names else platform.processor() or platform.machine()


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lane", choices=LANES)
    name = parser.parse_args().lane
    installed, load, begun = install(name), os.getloadavg()[0], time.monotonic()
    outcomes = [*installed, *run_lane(name)]
    failed = [outcome.step.name for outcome in outcomes if outcome.code or outcome.is_short]
    print(table(name, outcomes, time.monotonic() - begun, load), flush=True)
    print(f"make {name} {'failed: ' + ', '.join(failed) if failed else 'passed'}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
