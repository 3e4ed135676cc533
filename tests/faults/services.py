"""PostgreSQL, Redis and NATS of our own, on ports of their own, so that they can be killed without harm to anybody."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import psycopg

from tests.end_to_end.servers import free_port, wait_for

DATABASE = "faults"
_START_SECONDS = 120
_STOP_SECONDS = 30
_SYSTEM_USER = "postgres"


def postgresql_programs() -> Path | None:
    """The folder of PostgreSQL's server programs; None where they are not installed."""
    on_path = shutil.which("initdb")
    folders = [Path(on_path).parent] if on_path else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((folder for folder in folders if Path(folder, "initdb").exists()), None)


def redis_program() -> str | None:
    return shutil.which("redis-server")


def nats_program() -> str | None:
    # Debian's is where only the administrator looks.
    return shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin:/usr/local/sbin")


def memcached_program() -> str | None:
    return shutil.which("memcached")


class Service(ABC):
    """A process that is started, killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] = Path(folder, "log").open("ab")  # noqa: SIM115

    @property
    @abstractmethod
    def command(self) -> Sequence[str]: ...

    @abstractmethod
    def is_up(self) -> bool: ...

    def start(self) -> None:
        process = self.process = self._run(self.command)
        what = f"{type(self).__name__}, which logged to {self._log.name}"
        wait_for(lambda: process.poll() is not None or self.is_up(), what, _START_SECONDS)
        assert process.poll() is None, f"{what}, has ended"

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal that ends it, and wait until it is gone."""
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(_STOP_SECONDS)
            self.process = None

    def send(self, number: signal.Signals) -> None:
        if self.process is not None:
            self.process.send_signal(number)

    def close(self) -> None:
        self.end(signal.SIGTERM)
        self._log.close()

    def _run(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(command, cwd=self.folder, stdout=self._log, stderr=self._log)


class Redis(Service):
    """A broker that keeps nothing on a disk."""

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}"

    @property
    def command(self) -> Sequence[str]:
        address = ("--bind", "127.0.0.1", "--port", str(self.port))
        return (redis_program() or "redis-server", *address, "--save", "", "--appendonly", "no", "--dir", self.folder)  # type: ignore[return-value]

    def is_up(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            if probe.connect_ex(("127.0.0.1", self.port)):
                return False
            probe.sendall(b"PING\r\n")
            return probe.recv(16).startswith(b"+PONG")


class NATS(Service):
    """A broker that keeps nothing. ``settings`` are lines of its configuration."""

    def __init__(self, folder: Path, settings: str = "") -> None:
        super().__init__(folder)
        self._settings = settings

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    @property
    def command(self) -> Sequence[str]:
        configuration = Path(self.folder, "nats.conf")
        configuration.write_text(f'listen: "127.0.0.1:{self.port}"\n{self._settings}\n')
        return (nats_program() or "nats-server", "-c", str(configuration))

    def is_up(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return not probe.connect_ex(("127.0.0.1", self.port)) and probe.recv(16).startswith(b"INFO")


class Memcached(Service):
    """A cache; it refuses to run as root."""

    @property
    def command(self) -> Sequence[str]:
        return (memcached_program() or "memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(self.port), "-U", "0")

    def is_up(self) -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class PostgreSQL(Service):
    """A cluster in a folder of its own; it refuses to run as root, and runs as its system user then.

    ``settings`` are those of its postgresql.conf.
    """

    user = "postgres"

    def __init__(self, folder: Path, **settings: str) -> None:
        super().__init__(folder)
        self._settings = settings
        self._programs = postgresql_programs() or Path()
        self._data = Path(folder, "data")
        self._as = _SYSTEM_USER if os.geteuid() == 0 else None
        if self._as is not None:
            shutil.chown(folder, self._as)
        made = self._run(
            (str(self._programs / "initdb"), "-D", str(self._data), "-U", self.user, "-A", "trust", "-E", "UTF8", "-N")
        )
        if made.wait() != 0:
            raise RuntimeError(f"initdb failed: {Path(folder, 'log').read_text()}")

    @property
    def command(self) -> Sequence[str]:
        options = {
            "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "max_connections": "200", "fsync": "off",
            **self._settings,
        }  # fmt: skip
        given = [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
        return (str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), *given)

    def is_up(self) -> bool:
        try:
            self.query("SELECT 1")
        except psycopg.OperationalError:
            return False
        return True

    def query(self, sql: str) -> list[tuple[object, ...]]:
        """The rows of a statement that is run on the maintenance database."""
        place: dict[str, Any] = {"host": "127.0.0.1", "port": self.port, "user": self.user, "dbname": "postgres"}
        with psycopg.connect(**place, autocommit=True, connect_timeout=5) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def connections(self, database: str = DATABASE) -> dict[str, int]:
        """How many connections each application holds to the project's database."""
        rows = self.query(
            f"SELECT application_name, count(*) FROM pg_stat_activity WHERE datname = '{database}' GROUP BY 1"
        )
        return {str(name): int(str(count)) for name, count in rows}

    def _run(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        # By a program: Popen's own `user` forks, and a fork beside a client of gRPC may hang before its program begins.
        prefix = ("setpriv", f"--reuid={self._as}", f"--regid={self._as}", "--clear-groups") if self._as else ()
        return super()._run((*prefix, *command))
