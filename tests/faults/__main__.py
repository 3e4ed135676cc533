"""Breaks what a deployment stands on, while two servers tell hundreds of subscribers of committed changes.

After each fault everybody was told of every committed change that they may see, of none that was rolled back and of
none that they may not see; and nothing is left over. A known user waits neither for a user with many tokens nor for
unknown tokens. Exits with 1 where that is not so.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence

from tests.faults.churn import NAME as CHURN
from tests.faults.churn import churn
from tests.faults.fairness import NAME as FAIRNESS
from tests.faults.fairness import fairness
from tests.faults.faults import FAULTS
from tests.faults.services import nats_program, postgresql_programs, redis_program
from tests.faults.stage import NATS_BUS, POSTGRESQL, REDIS, Outcome, Size, Stage, set_up

COMPLETE = Size(subscribers=200, seconds=10, pause=20, pairs=3, users=3, watched=12, churn=10_000)

#: What is tried beside the faults, and over which buses: how fair a server is does not depend on its bus.
OTHERS: dict[str, Callable[[Stage, str], Awaitable[Outcome]]] = {CHURN: churn, FAIRNESS: fairness}
TRIALS = {CHURN: (REDIS, NATS_BUS, POSTGRESQL), FAIRNESS: (REDIS,)}
#: By bus: the program of its server, and how it is found.
PROGRAMS: dict[str, tuple[str, Callable[[], object]]] = {
    REDIS: ("redis-server", redis_program),
    NATS_BUS: ("nats-server", nats_program),
    POSTGRESQL: ("initdb", postgresql_programs),
}


def main() -> int:
    names = [*(fault.name for fault in FAULTS), *TRIALS]
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--only", help=f"some of {','.join(names)}")
    parser.add_argument("--subscribers", type=int, default=COMPLETE.subscribers, help="of each of the two servers")
    parser.add_argument("--seconds", type=float, default=COMPLETE.seconds, help="of changes while a fault lasts")
    parser.add_argument("--pause", type=float, default=COMPLETE.pause, help="seconds for which a server is stopped")
    parser.add_argument("--churn", type=int, default=COMPLETE.churn, help="connects and disconnects")
    parser.add_argument("--bus", choices=PROGRAMS, action="append", help="all, if none is named")
    options = parser.parse_args()
    buses = options.bus or list(PROGRAMS)
    missing = sorted({PROGRAMS[bus][0] for bus in (POSTGRESQL, *buses) if PROGRAMS[bus][1]() is None})
    if missing:
        print(f"{' and '.join(missing)}: missing", file=sys.stderr)
        return 1
    wanted = options.only.split(",") if options.only else names
    if unknown := set(wanted) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    size = Size(
        options.subscribers, options.seconds, options.pause, COMPLETE.pairs, COMPLETE.users, COMPLETE.watched,
        options.churn,
    )  # fmt: skip
    for number in (signal.SIGTERM, signal.SIGHUP):
        # As Ctrl-C does: no process is left behind.
        signal.signal(number, lambda number, frame: sys.exit(128 + number))
    trials = [(fault.name, bus) for bus in buses for fault in FAULTS if fault.name in wanted and bus in fault.buses]
    outcomes = asyncio.run(
        attempt_all(
            size,
            [
                *trials,
                *((name, bus) for name, among in TRIALS.items() for bus in among if name in wanted and bus in buses),
            ],
        )
    )
    print(table(outcomes))
    return 1 if any(outcome.violations for outcome in outcomes) else 0


async def attempt_all(size: Size, trials: Sequence[tuple[str, str]]) -> list[Outcome]:
    """Try faults, each named with its bus, one after the other, and say each step in a line."""
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    faults = {fault.name: fault for fault in FAULTS}
    outcomes = []
    async with set_up(size, say) as stage:
        for name, bus in trials:
            say(f"--- {name}, over {bus}")
            outcomes.append(await (OTHERS[name](stage, bus) if name in OTHERS else stage.attempt(faults[name], bus)))
    return outcomes


def table(outcomes: Sequence[Outcome]) -> str:
    lines = [
        f"{'fault':10} {'bus':10} {'subscribers':>11} {'commits':>8} {'told':>8} {'resyncs':>8} {'p50 ms':>8} "
        f"{'last ms':>8} {'seconds':>8}  verdict"
    ]
    for one in outcomes:
        verdict = f"{len(one.violations)} VIOLATIONS" if one.violations else "ok"
        lines.append(
            f"{one.name:10} {one.bus:10} {one.subscribers:11,} {one.commits:8,} {one.told:8,} {one.resyncs:8,} "
            f"{one.middle_ms:8.1f} {one.last_ms:8.1f} {one.seconds:8.1f}  {verdict}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
