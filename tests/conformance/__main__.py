"""Holds the project against the official conformance suite, in every revision that the suite knows.

Fails on any failure and any warning, scored by the suite or not, and on what was not shown at all.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.conformance import authorization, node, serving, verdict
from tests.end_to_end.servers import Served


@dataclass(frozen=True)
class Run:
    """One call of the suite."""

    name: str
    arguments: tuple[str, ...] = ()


_MAX_LINE_BYTES = 10_000_000
#: The suite's mode of its own for what logs clients in.
AUTHORIZATION = Run("authorization")
#: Lanes run beside each other, the runs of a lane one after the other.
LANES = (
    (Run("2026-07-28", ("--requirements", "2026-07-28")),),
    (
        Run("2025-11-25", ("--requirements", "2025-11-25")),
        Run("2025-06-18", ("--suite", "all", "--spec-version", "2025-06-18")),
        Run("2025-03-26", ("--suite", "all", "--spec-version", "2025-03-26")),
        AUTHORIZATION,
    ),
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("--scenario", help=f"run this scenario alone, or all of {AUTHORIZATION.name}")
    parser.add_argument("--spec-version", help="the revision in which to run it")
    parser.add_argument("--serve", type=int, metavar="PORT", help="only serve the project")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl-C does: every block that holds a process is left.
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    if options.serve is not None:
        return serving.serve(options.serve)
    try:
        suite = node.install()
    except node.NPMMissing as missing:
        needed = os.environ.get("CI") == "true"
        print(f"{'failed' if needed else 'skipped'}: the conformance suite was not run: {missing}", file=sys.stderr)
        return 1 if needed else 0
    lanes: Sequence[Sequence[Run]] = LANES
    if options.scenario == AUTHORIZATION.name:
        lanes = [[AUTHORIZATION]]
    elif options.scenario:
        revision = ("--spec-version", options.spec_version) if options.spec_version else ()
        lanes = [[Run(options.scenario, ("--scenario", options.scenario, *revision))]]
    with serving.served() as server:
        problems = asyncio.run(run_all(suite, server, lanes))
    return 1 if problems else 0


async def run_all(suite: node.Suite, server: Served, lanes: Sequence[Sequence[Run]]) -> int:
    """Run the lanes, print a line for each run, and return how many problems there were."""
    return sum(await asyncio.gather(*(_run_lane(suite, server, lane) for lane in lanes)))


async def _run_lane(suite: node.Suite, server: Served, lane: Iterable[Run]) -> int:
    return sum([await _run(suite, server, run) for run in lane])


async def _run(suite: node.Suite, server: Served, run: Run) -> int:
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mcp_django_conformance_") as folder:
        mode = ("server", "--url", server.url, *run.arguments)
        if run is AUTHORIZATION:
            mode = ("authorization", *authorization.arguments(server))
        hear = partial(authorization.hear, server)
        output = await _output(*suite.command, *mode, "--output-dir", folder, hear=hear)
        found = verdict.read(Path(folder), output)
    print(f"{run.name:12} {found} ({time.monotonic() - started:.0f} s)", flush=True)
    for problem in found.problems:
        print(f"  {problem}", flush=True)
    return len(found.problems)


async def _output(*command: str, hear: Callable[[str], Awaitable[None]]) -> str:
    """What a command wrote, of which ``hear`` is told each line at once. It does not outlive this call."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT, limit=_MAX_LINE_BYTES
    )
    assert process.stdout is not None
    lines = []
    try:
        async for line in process.stdout:
            lines.append(line.decode(errors="replace"))
            await hear(lines[-1])
        await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return "".join(lines)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
