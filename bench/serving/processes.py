"""Server processes: on a core of their own, and what they have had of it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from bench.asgi_server import started
from bench.serving.environments import ROOT, python_of

_TICKS = os.sysconf("SC_CLK_TCK")

#: What serves → its command line. One process answers; under WSGI in as many threads as our own workers may share.
_COMMANDS: Mapping[str, tuple[str, ...]] = {
    "uvicorn": ("uvicorn", "--port", "{port}", "--no-access-log", "--log-level", "warning", "{application}"),
    "uvicorn, h11": (
        "uvicorn", "--port", "{port}", "--no-access-log", "--log-level", "warning", "--http", "h11", "--loop",
        "asyncio", "{application}",
    ),
    "daphne": ("daphne", "-b", "127.0.0.1", "-p", "{port}", "-v", "0", "{application}"),
    "granian": (
        "granian", "--interface", "asgi", "--host", "127.0.0.1", "--port", "{port}", "--no-access-log", "--log-level",
        "warning", "{application}",
    ),
    "gunicorn": (
        "gunicorn", "--bind", "127.0.0.1:{port}", "--worker-class", "gthread", "--threads", "4", "--keep-alive", "60",
        "--log-level", "warning", "{application}",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Server:
    """What is served, by what, and in which environment."""

    #: A file in ``bench/requirements``.
    environment: str
    application: str
    runner: str
    variables: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Running:
    """A server that answers."""

    port: int
    #: The first process of its session, which all of its processes are in.
    pid: int

    def processor_seconds(self) -> float:
        """What its processes have had of the processor until now (proc(5), /proc/pid/stat)."""
        ticks = 0
        for file in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # The name, in brackets, may hold anything. Behind it: state, parent, group, session, ...
                fields = file.read_text().rpartition(")")[2].split()
                if int(fields[3]) == self.pid:
                    ticks += int(fields[11]) + int(fields[12])
        return ticks / _TICKS


@contextmanager
def serving(server: Server, log: Path) -> Iterator[Running]:
    """Serve until the block ends. Raises RuntimeError with the log where nothing answers."""
    command = [word.replace("{application}", server.application) for word in _COMMANDS[server.runner]]
    python = str(python_of(server.environment))
    with started([python, "-m", *command], log, environment(dict(server.variables))) as (port, process):
        yield Running(port, process.pid)


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process: those of this one, without what chooses another project."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("DJANGO_SETTINGS_MODULE", "DEBUG")}
    return {**inherited, "PYTHONPATH": str(ROOT), **variables}
