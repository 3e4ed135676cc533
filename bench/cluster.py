"""PostgreSQL, Redis and servers of a run's own: what they count, nobody else has done."""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import redis

from bench.asgi_server import processor_seconds_of
from tests.faults.servers import Server
from tests.faults.services import PostgreSQL, Redis

DATABASE = "mcp_django_bench_cluster"


class Member(Server):
    """A server of the demo under uvicorn."""

    application = "demo_project.asgi:application"

    @property
    def websocket_url(self) -> str:
        return f"{self.origin.replace('http', 'ws', 1)}/mcp"

    def processor_seconds(self) -> float:
        return processor_seconds_of(self.pid)


@dataclass
class Cluster:
    """Everything that runs. Made by ``cluster``."""

    folder: Path
    database: PostgreSQL
    broker: Redis
    servers: list[Member] = field(default_factory=list)

    @contextmanager
    def serving(self, number: int) -> Iterator[list[Member]]:
        """So many servers until the block ends; each ends as on SIGTERM, or an AssertionError says that it did not."""
        with ExitStack() as ends:
            for position in range(number):
                name = f"server-{position}"
                server = Member(name, {"PGAPPNAME": name, "DJANGO_SETTINGS_MODULE": "bench.settings"}, self.folder)
                ends.enter_context(closing(server))
                self.servers.append(server)
                server.start()
            for server in self.servers:
                server.wait()
            yield self.servers
        self.servers = []

    def messages(self) -> int:
        """How many messages the broker was given so far."""
        with closing(redis.Redis.from_url(self.broker.url)) as client:
            stats: Any = client.info("commandstats")
        return int(stats.get("cmdstat_publish", {}).get("calls", 0))

    def statements(self) -> int:
        """How many statements the database was given so far, those of transactions left out."""
        return sum(count for text, count in self.counted() if text.split()[0] not in ("BEGIN", "COMMIT", "ROLLBACK"))

    def counted(self) -> list[tuple[str, int]]:
        """Each statement with how often it was run, the most frequent first."""
        place: dict[str, Any] = {"host": "127.0.0.1", "port": self.database.port, "user": self.database.user}
        with psycopg.connect(**place, dbname=DATABASE, autocommit=True) as connection:
            found = connection.execute(
                "SELECT query, calls FROM pg_stat_statements WHERE dbid = (SELECT oid FROM pg_database"
                " WHERE datname = current_database()) AND query NOT LIKE '%pg_stat_statements%' ORDER BY 2 DESC"
            )
            return [(str(text), int(count)) for text, count in found.fetchall()]

    def logged(self, text: str) -> int:
        """How many lines of the servers' logs hold the text."""
        logs = [Path(self.folder, f"{server.name}.log").read_text(errors="replace") for server in self.servers]
        return sum(text in line for log in logs for line in log.splitlines())


@contextmanager
def cluster(settings: Mapping[str, Any] | None = None, *, bus: bool = True) -> Iterator[Cluster]:
    """Start PostgreSQL and Redis, name them in the environment, and set Django up; all ends with the block.

    ``settings`` go into ``MCP``. Without a ``bus`` there is no Redis.
    """
    folder = Path(tempfile.mkdtemp(prefix="mcp_django-bench-"))
    # PostgreSQL's system user passes through it.
    folder.chmod(0o755)
    with ExitStack() as ends:
        ends.callback(shutil.rmtree, folder)
        preloaded = {"shared_preload_libraries": "pg_stat_statements", "max_wal_size": "8GB"}
        database = PostgreSQL(_made(folder, "postgresql"), **preloaded)
        broker = Redis(_made(folder, "redis"))
        # As SIGINT ends it, PostgreSQL does not wait for those who are connected.
        for service, number in ((database, signal.SIGINT), (broker, signal.SIGTERM))[: 1 + bus]:
            ends.callback(service.end, number)
            service.start()
        # The publisher of this process goes on until the process ends, and would log that its broker is gone.
        ends.callback(logging.disable)
        os.environ |= {
            "DJANGO_SETTINGS_MODULE": "bench.settings",
            "BENCH_DATABASE": "postgresql",
            "BENCH_ROWS": "cluster",
            "BENCH_URLCONF": "tests.faults.urls",
            "BENCH_MCP": json.dumps(dict(settings or {})),
            "PGHOST": "127.0.0.1",
            "PGPORT": str(database.port),
            "PGUSER": database.user,
            "PGAPPNAME": "bench",
            "DEMO_DIR": str(folder),
        }
        if bus:
            os.environ["REDIS_URL"] = broker.url
        database.query(f"CREATE DATABASE {DATABASE}")
        _set_up()
        yield Cluster(folder, database, broker)


def _set_up() -> None:
    import django

    django.setup()

    from django.core.management import call_command
    from django.db import connection

    from demo_project.flights.management.commands.demo import create_users, switch_on_tools
    from demo_project.flights.models import Airline

    call_command("migrate", verbosity=0)
    switch_on_tools()
    create_users()
    Airline.objects.create(carrier="UA", name="United")
    with connection.cursor() as cursor:
        cursor.execute("CREATE EXTENSION pg_stat_statements")


def _made(parent: Path, name: str) -> Path:
    made = Path(parent, name)
    made.mkdir()
    return made
