"""A project's own API as tools: ours, and four other servers on the same project, each in its own environment.

.venv/bin/python -m bench.apis [--only NAME ...] [--check] [--failing]

The project is that of ``tests/api``, with its middleware, below WSGI and on SQLite, all in one process. An operation is
a method of a URL. It works if each of its requests in ``tests/api/project/requests.py`` does for anna and for stella,
who is staff, what it does over HTTP: the same refusals, the same values, and of a change the same rows in the database.
Times are the processor's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.apis.table import lines, ratio
from bench.goals import Goal
from bench.serving.environments import ROOT, python_of

OURS = "mcp_django"
#: By the name in the table: that of the module, and of the environment.
PEERS = {
    "frisian-mcp": "frisian",
    "django-rest-framework-mcp": "rest",
    "django-mcp-server": "toolset",
    "FastMCP, from OpenAPI": "fast",
}
MOST_BYTES = 2_500
MOST_TIMES = 1.25
_SECONDS = 300


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.apis", description=(__doc__ or "").partition("\n")[0])
    names = ["ours", *PEERS.values()]
    parser.add_argument("--only", nargs="+", choices=names, default=names, help="which of them (all)")
    parser.add_argument("--check", action="store_true", help="exit with 1 where a goal of ours is missed")
    parser.add_argument("--failing", action="store_true", help="say of each operation that fails why")
    options = parser.parse_args(arguments)
    found: dict[str, dict[str, Any]] = {}
    if "ours" in options.only:
        found[OURS] = _measured("", "bench.apis.ours", Path(sys.executable))
    for name, module in PEERS.items():
        if module in options.only:
            found[name] = _peer(module)
    print(*lines(found), sep="\n")
    if options.failing:
        for name, one in found.items():
            print(f"\n{name}", *(f"  {key}: {why}" for key, why in one.get("failing", {}).items()), sep="\n")
            print(*(f"  done though forbidden: {call}" for call in one.get("forbidden", ())), sep="\n")
    ours = found.get(OURS)
    if ours is None:
        return 0
    if "error" in ours:
        return 1
    goals = [
        Goal("bytes of tools/list", ours["bytes"], MOST_BYTES, "bytes"),
        Goal("order.list, to HTTP", ours["list"]["median"], MOST_TIMES),
    ]
    print(
        f"\nOf {ours['all']} operations {ours['offered']} are offered by default. A light one: {ratio(ours['light'])}."
    )
    print("\nGoals", *goals, sep="\n")
    return 1 if options.check and not all(goal.holds for goal in goals) else 0


def _peer(module: str) -> dict[str, Any]:
    try:
        python = python_of(f"apis-{module}")
    except subprocess.CalledProcessError as error:
        return {"version": "", "error": f"It cannot be installed: {error}"}
    return _measured(module, "bench.apis.peer", python)


def _measured(peer: str, module: str, python: Path) -> dict[str, Any]:
    """What a process of its own prints, or the last line of its error."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "BENCH_PEER": peer, "BENCH_DATABASE_FILE": f"{folder}/db.sqlite3"}
        try:
            process = subprocess.run(
                [python, "-m", module],
                check=False, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=_SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return {"version": "", "error": f"It was not done after {_SECONDS} s."}
    if process.returncode:
        return {"version": "", "error": (process.stderr.strip().splitlines() or ["It ended."])[-1]}
    found: Mapping[str, Any] = json.loads(process.stdout)
    return dict(found)


if __name__ == "__main__":
    sys.exit(main())
