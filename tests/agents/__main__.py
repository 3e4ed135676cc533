"""Asks a server the questions of an agent over a year of flights: ``python -m tests.agents [sqlite] [postgresql]``.

Each database is filled at first, which takes a minute or two, and kept: SQLite's in the folder ``.agents``,
PostgreSQL's as ``mcp_django_agents``. Exits with 1 if an answer or a bound is missed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from tests.matrix import ROOT

DATABASES = ("sqlite", "postgresql")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.agents", description=__doc__, allow_abbrev=False)
    parser.add_argument("databases", nargs="*", metavar="DATABASE", help=f"of: {', '.join(DATABASES)}; both, if none")
    options = parser.parse_args()
    if unknown := set(options.databases) - set(DATABASES):
        parser.error(f"there is no {', '.join(sorted(unknown))}")
    return max([_ask(name) for name in options.databases or DATABASES])


def _ask(database: str) -> int:
    print(f"{database}:", flush=True)
    environment = {**os.environ, "AGENTS_DATABASE": database}
    command = [sys.executable, "-m", "tests.agents.run"]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
