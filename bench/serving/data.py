"""The flights and the reader of them, in a database for each environment, with a token that its server knows."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from bench.serving.environments import python_of
from bench.serving.processes import environment

OURS = "served"
#: Its first twenty rows are those of all flights.
ROWS = "january"


def prepare(folder: Path, names: list[str]) -> dict[str, str]:
    """Make the databases of these environments in a folder; returns the reader's token in each.

    What is there already is used again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    ours = _made(folder, OURS, [sys.executable, "-m", "bench.served.prepare", ROWS])
    tokens = {OURS: ours}
    for name in names:
        if name != OURS:
            tokens[name] = _made(folder, name, [str(python_of(name)), "-m", "bench.peers.prepare"])
    return tokens


def variables(folder: Path, name: str) -> dict[str, str]:
    """How a process of that environment finds its database."""
    found = {"BENCH_DATABASE_FILE": str(folder / f"{name}.sqlite3"), "DEMO_DIR": str(folder)}
    return found if name == OURS else {**found, "BENCH_PEER": name}


def _made(folder: Path, name: str, command: list[str]) -> str:
    """Run a command on a database, if it was not yet; what it prints is the token."""
    database, token = folder / f"{name}.sqlite3", folder / f"{name}.token"
    if not token.exists():
        database.unlink(missing_ok=True)
        if name != OURS:
            shutil.copyfile(folder / f"{OURS}.sqlite3", database)
        done = subprocess.run(
            command, env=environment(variables(folder, name)), stdout=subprocess.PIPE, text=True, check=True
        )
        token.write_text(done.stdout.strip())
    return token.read_text()
