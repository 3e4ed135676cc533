"""How many requests a second one process answers on one core, beside other servers.

.venv/bin/python -m bench.serving [--only asgi|servers|wsgi|asgi-tokens|postgresql|wsgi-tokens|websocket|audit]
    [--rounds N] [--seconds N] [--ours] [--folder FOLDER] [--check]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from bench.asgi_server import pin_load
from bench.serving import data, report
from bench.serving.environments import ROOT, python_of
from bench.serving.load import check_wrk
from bench.serving.measuring import measure, turns
from bench.serving.tables import SOCKET, TABLES, Table

ROUNDS, SECONDS = 4, 1
FOLDER = ROOT / ".demo" / "bench" / "serving"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.serving", description=(__doc__ or "").partition("\n")[0])
    names = [table.name for table in TABLES]
    parser.add_argument("--only", choices=names, action="append", help="measure this table alone; may be given again")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"how often each line has its turn ({ROUNDS})")
    parser.add_argument("--seconds", type=int, default=SECONDS, help=f"how long a turn takes ({SECONDS})")
    parser.add_argument("--ours", action="store_true", help="our own server alone, without any other beside it")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the databases and the logs lie")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    chosen = [table for table in TABLES if table.name in (options.only or names)]
    if options.ours:
        chosen = [table.ours() for table in chosen]
    try:
        return _run(chosen, options.folder, options.rounds, options.seconds, options.check)
    except RuntimeError as error:
        print(error, file=sys.stderr)
        return 1


def _run(tables: Sequence[Table], folder: Path, rounds: int, seconds: int, check: bool) -> int:
    lines = [line for table in tables for line in table.lines]
    if any(line.way != SOCKET for line in lines):
        check_wrk()
    if any(line.way == SOCKET for line in lines):
        python_of("load")
    servers = list(dict.fromkeys(line.server for line in lines))
    for server in servers:
        python_of(server.environment)
    tokens = data.prepare(folder, servers)
    pin_load()
    goals: list[report.Goal] = []
    print(report.heading(rounds, seconds))
    with tqdm(total=sum(turns(table, rounds) for table in tables), unit=" turns", disable=None) as bar:
        for table in tables:
            readings = measure(table, folder, tokens, (rounds, seconds), lambda: bar.update(1))
            print(report.table(table, readings), flush=True)
            goals += report.goals(table, readings)
    if goals:
        print("\nGoals", *goals, sep="\n")
    return 1 if check and not all(goal.holds for goal in goals) else 0


if __name__ == "__main__":
    sys.exit(main())
