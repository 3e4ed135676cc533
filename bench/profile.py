"""Where the time of one message goes: the parts of a call in this process, and what a server and a thread take.

.venv/bin/python -m bench.profile [--calls N] [--rows all|january] [--folder FOLDER] [--check]
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from bench.serving import data
from bench.serving.environments import ROOT
from bench.serving.processes import Server

CALLS = 1_000
FOLDER = ROOT / ".demo" / "bench" / "profile"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.profile", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--calls", type=int, default=CALLS, help=f"how often each is called ({CALLS:,})")
    parser.add_argument("--rows", default=data.ROWS, help=f"which flights the database holds ({data.ROWS})")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the database and the logs lie")
    parser.add_argument("--check", action="store_true", help="fail where a goal is missed")
    options = parser.parse_args(arguments)
    server = Server(data.OURS, "bench.served.asgi:application", "uvicorn")
    token, *_ = data.prepare(options.folder, [server], options.rows)[data.database_of(server)].split()
    os.environ |= {
        "DJANGO_SETTINGS_MODULE": "bench.served.settings",
        # All runs in the thread of the loop, where its parts can be told apart.
        "DJANGO_ALLOW_ASYNC_UNSAFE": "1",
        **data.variables(options.folder, server),
    }

    import django

    django.setup()

    from bench import calls_in_process, floors

    with_wrk = shutil.which("wrk") is not None
    print(floors.table(options.folder, options.calls, with_wrk=with_wrk), flush=True)
    table, goal = calls_in_process.measure(token, options.calls)
    print(table, "\nGoals", goal, sep="\n")
    return 0 if goal.holds or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
