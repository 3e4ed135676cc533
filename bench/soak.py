"""Clients that come and go for hours: whether anything of them stays in the server, its database or its folders.

.venv/bin/python -m bench.soak [--minutes N] [--quarters N] [--clients N] [--check]
"""

from __future__ import annotations

import argparse
import asyncio
import io
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cluster import DATABASE, Cluster, Member, cluster
from bench.goals import Goal
from bench.memory import own_bytes
from tests.faults.servers import Held, start_management

MINUTES, QUARTERS, CLIENTS = 120, 4, 4
#: The pause of a client between two visits: what is measured is what stays, and not how much can come.
_PAUSE_SECONDS = 0.05
#: How much more memory there may be after a quarter than after the one before.
_GROWTH = 1.03
#: By then, what comes to an end has ended.
_QUIET_SECONDS = 120.0
#: Older than anything is kept.
_AGE = "400 days"
#: What is over soon, and no limit that a client meets which comes more often than any.
_SETTINGS = {
    "TASK_SECONDS": 60, "SESSION_SECONDS": 60, "CONN_MAX_AGE": 0, "MAX_UPLOADS": 100_000, "MAX_SESSIONS": 100_000,
    "THROTTLES": {"address": {"logins": None}},
}  # fmt: skip


@dataclass(frozen=True)
class Left:
    """What there is when everybody has gone."""

    memory: int
    worker_memory: int
    held: Held
    #: Table → rows that are left when all that is kept for a time has grown old.
    rows: Counter[str]
    files: int
    visits: Counter[str]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.soak", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=MINUTES, help=f"how long it takes in all ({MINUTES})")
    parser.add_argument("--quarters", type=int, default=QUARTERS, help=f"parts, after which all leave ({QUARTERS})")
    parser.add_argument("--clients", type=int, default=CLIENTS, help=f"clients at a time ({CLIENTS})")
    parser.add_argument("--check", action="store_true", help="exit with 1 where something stays")
    options = parser.parse_args(arguments)
    os.environ["BENCH_SOAK"] = "1"
    goals: list[Goal] = []
    with cluster(_SETTINGS) as run, run.serving(1) as [server], _worker(run) as worker:
        from bench.visits import prepare

        prepare()
        seconds = options.minutes * 60 / options.quarters
        print(f"\n## {options.quarters} parts of {seconds / 60:g} minutes, {options.clients} clients at a time\n")
        print("| part | visits | server | worker | threads | connections | files and sockets | rows | uploads |")
        print("|---|---:|---:|---:|---:|---:|---:|---:|---:|")
        quarters: list[Left] = []
        for number in range(1, options.quarters + 1):
            left = _quarter(run, server, worker, seconds, options.clients)
            print(f"| {number} | {_cells(left)} |", flush=True)
            if quarters:
                goals += _goals(number, quarters[0], quarters[-1], left)
            quarters.append(left)
        visits: Counter[str] = sum((one.visits for one in quarters), Counter())
        print("\n" + ", ".join(f"{name}: {count:,}" for name, count in sorted(visits.items())))
        goals.append(Goal("visits that failed", sum(visits[name] for name in visits if "failed" in name), 0, "visits"))
        goals.append(Goal("tracebacks in the log", run.logged("Traceback"), 0, "lines"))
    print("\nGoals", *(goal for goal in goals if not goal.holds), sep="\n")
    print(f"  {sum(goal.holds for goal in goals)} of {len(goals)} hold")
    return 0 if all(goal.holds for goal in goals) or not options.check else 1


def _cells(left: Left) -> str:
    held, sizes = left.held, " | ".join(f"{size / 1e6:.1f} MB" for size in (left.memory, left.worker_memory))
    files = held.files + held.sockets
    return (
        f"{left.visits.total():,} | {sizes} | {held.threads} | {held.connections} | {files} | "
        f"{left.rows.total():,} | {left.files}"
    )


def _goals(number: int, first: Left, before: Left, left: Left) -> Iterator[Goal]:
    yield Goal(f"part {number}, memory of the server to the part before", left.memory / before.memory, _GROWTH)
    yield Goal(
        f"part {number}, memory of the worker to the part before", left.worker_memory / before.worker_memory, _GROWTH
    )
    beyond = left.held.beyond(first.held)
    yield Goal(f"part {number}, more than after the first: {'; '.join(beyond) or 'nothing'}", len(beyond), 0, "things")
    more = {table: count for table, count in left.rows.items() if count > first.rows[table]}
    yield Goal(f"part {number}, tables with more rows: {more or 'none'}", len(more), 0, "tables")
    yield Goal(f"part {number}, files of uploads", left.files, first.files, "files")


@contextmanager
def _worker(run: Cluster) -> Iterator[int]:
    """The pid of a process that runs tasks."""
    variables = {"DJANGO_SETTINGS_MODULE": "bench.settings", "PGAPPNAME": "worker"}
    with Path(run.folder, "worker.log").open("ab") as log:
        process = start_management(("db_worker", "--interval", "0.2"), variables, log)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(60)


def _quarter(run: Cluster, server: Member, worker: int, seconds: float, clients: int) -> Left:
    visits = asyncio.run(_visit(server, seconds, clients))
    _clear(run)
    # The rest is cleared when the next one comes, in batches.
    visits += asyncio.run(_visit(server, 0.0, 1))
    while _has_expired_uploads():
        visits += asyncio.run(_visit(server, 0.0, 1))
    held = _settled(run, server)
    _clear(run)
    uploads = Path(os.environ["DEMO_DIR"], "uploads")
    files = sum(path.is_file() for path in uploads.rglob("*"))
    return Left(own_bytes(server.pid), own_bytes(worker), held, _rows(), files, visits)


async def _visit(server: Member, seconds: float, clients: int) -> Counter[str]:
    """Let so many clients come for so long, or once for each kind of visit; how often each has come, and failed."""
    import httpx
    from asgiref.sync import sync_to_async

    from bench.visits import Visitor, visitor_token

    end, done = time.monotonic() + seconds, Counter[str]()

    async def come(position: int) -> None:
        token = await sync_to_async(visitor_token)()
        async with httpx.AsyncClient(timeout=60) as http:
            visitor = Visitor(server, token, http)
            kinds = visitor.visits[position % len(visitor.visits) :] + visitor.visits[: position % len(visitor.visits)]
            while True:
                for visit in kinds:
                    try:
                        await visit()
                        done[visit.__name__] += 1
                    except Exception as error:  # noqa: BLE001 - counted and printed, and fails the run
                        done[f"{visit.__name__} failed"] += 1
                        print(f"{visit.__name__}: {error!r}", file=sys.stderr)
                    await asyncio.sleep(_PAUSE_SECONDS)
                if time.monotonic() >= end:
                    return

    await asyncio.gather(*(come(position) for position in range(clients)))
    return done


def _settled(run: Cluster, server: Member) -> Held:
    """What the server holds once that has stayed the same for a while."""
    end, held, before = time.monotonic() + _QUIET_SECONDS, _held(run, server), None
    while held != before and time.monotonic() < end:
        time.sleep(5)
        held, before = _held(run, server), held
    return held


def _held(run: Cluster, server: Member) -> Held:
    return server.held(run.database.connections(DATABASE))


def _clear(run: Cluster) -> None:
    """Let everything that is stored grow old, and clear it as a deployment does every day."""
    from django.core.management import call_command
    from django.db import connection, models

    with connection.cursor() as cursor:
        for model in _models():
            times = [field.column for field in model._meta.local_fields if isinstance(field, models.DateTimeField)]
            if times:
                older = ", ".join(f'"{column}" = "{column}" - interval \'{_AGE}\'' for column in times)
                cursor.execute(f'UPDATE "{model._meta.db_table}" SET {older}')
    for command in (("mcp_audit", "--clear"), ("mcp_token", "--clear", "1"), ("clearsessions",)):
        call_command(*command, stdout=io.StringIO(), stderr=io.StringIO())


def _has_expired_uploads() -> bool:
    from django.utils import timezone

    from mcp_django.models import Upload

    return Upload.objects.filter(expires_at__lte=timezone.now()).exists()


def _models() -> list[Any]:
    from django.apps import apps

    return [model for label in ("mcp_django", "mcp_django_oauth") for model in apps.get_app_config(label).get_models()]


def _rows() -> Counter[str]:
    return Counter({model._meta.db_table: model._base_manager.count() for model in _models()})


if __name__ == "__main__":
    sys.exit(main())
