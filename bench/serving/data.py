"""The flights and the reader of them, in a database for each environment, with a token that its server knows."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bench.peers import DATABASE_NAME
from bench.serving.environments import python_of
from bench.serving.processes import Server, environment

OURS = "served"
#: Its first twenty rows are those of all flights.
ROWS = "january"
#: The variable of a server whose database is not the file: ``postgresql``.
DATABASE = "BENCH_DATABASE"


def prepare(folder: Path, servers: Sequence[Server], rows: str = ROWS) -> dict[str, str]:
    """Make the databases of these servers; returns the tokens of the reader in each, one a line, by its name.

    Files lie in the folder. What is there already is used again.
    """
    folder.mkdir(parents=True, exist_ok=True)
    # The databases of the others are copies of ours.
    own = [replace(server, environment=OURS) for server in servers]
    return {database_of(server): _made(folder, server, rows) for server in [*own, *servers]}


def database_of(server: Server) -> str:
    """Names the database of a server."""
    return "-".join(filter(None, [server.environment, dict(server.variables).get(DATABASE)]))


def variables(folder: Path, server: Server) -> dict[str, str]:
    """How a process of that server finds its database."""
    found = {"BENCH_DATABASE_FILE": str(folder / f"{database_of(server)}.sqlite3"), "DEMO_DIR": str(folder)}
    return found if server.environment == OURS else {**found, "BENCH_PEER": server.environment}


def _made(folder: Path, server: Server, rows: str) -> str:
    """Make a database, if it was not yet; what the environment's own command prints are the tokens."""
    token = folder / f"{database_of(server)}.token"
    if not token.exists():
        ours = database_of(replace(server, environment=OURS))
        known = {**dict(server.variables), **variables(folder, server)}
        if DATABASE in known:
            _make_on_postgresql(server.environment)
        else:
            (folder / f"{database_of(server)}.sqlite3").unlink(missing_ok=True)
            if server.environment != OURS:
                shutil.copyfile(folder / f"{ours}.sqlite3", folder / f"{database_of(server)}.sqlite3")
        command = (
            [sys.executable, "-m", "bench.served.prepare", rows]
            if server.environment == OURS
            else [str(python_of(server.environment)), "-m", "bench.peers.prepare"]
        )
        done = subprocess.run(command, env=environment(known), stdout=subprocess.PIPE, text=True, check=True)
        token.write_text(done.stdout.strip())
    return token.read_text()


def _make_on_postgresql(name: str) -> None:
    """An empty database for ours, and a copy of it for the others."""
    import psycopg
    from psycopg.sql import SQL, Identifier

    database, template = Identifier(DATABASE_NAME.format(name)), Identifier(DATABASE_NAME.format(OURS))
    user = os.environ.get("PGUSER", "postgres")
    with psycopg.connect(host="127.0.0.1", user=user, dbname="postgres", autocommit=True) as connection:
        connection.execute(SQL("DROP DATABASE IF EXISTS {}").format(database))
        copied = SQL("") if name == OURS else SQL(" TEMPLATE {}").format(template)
        connection.execute(SQL("CREATE DATABASE {}{}").format(database, copied))
