"""Servers in processes of their own, on a core of their own."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
_START_SECONDS, _STOP_SECONDS = 90, 20
#: The server has the first core, and the load the last.
SERVER_CORE = 0


def pin_load() -> None:
    """Keep this process off the server's core, where there are several, and it can be said."""
    if _has_cores():
        os.sched_setaffinity(0, set(range(os.cpu_count() or 1)) - {SERVER_CORE})


def _has_cores() -> bool:
    return hasattr(os, "sched_setaffinity") and (os.cpu_count() or 1) > 1


@dataclass(frozen=True, slots=True)
class Served:
    """A server that answers."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def websocket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/mcp"

    @contextmanager
    def asked(self, path: str) -> Iterator[None]:
        """Ask for a path; its answer is read at the end of the block. Raises RuntimeError where it is no success."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
            yield
            answer = b""
            while read := connection.recv(4_096):
                answer += read
        status = answer.partition(b"\r\n")[0]
        if b" 2" not in status:
            raise RuntimeError(f"{path} was answered with {status.decode(errors='replace')}")

    def processor_seconds(self) -> float:
        return processor_seconds_of(self.process.pid)


def processor_seconds_of(pid: int) -> float:
    """What the threads of a process have had of a processor until now (Linux)."""
    running = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(file.read_text().split()[0]) for file in running) / 1e9


@contextmanager
def uvicorn(application: str, log: Path, **environment: str) -> Iterator[Served]:
    """Serve an ASGI application until the block ends. Raises RuntimeError with its log where it does not start."""
    command = ["uvicorn", "--port", "{port}", "--no-access-log", "--lifespan", "off", "--ws-ping-interval", "3600"]
    with serve([*command, application], log, **environment) as served:
        yield served


@contextmanager
def serve(arguments: Sequence[str], log: Path, **environment: str) -> Iterator[Served]:
    """Run a server's module until the block ends; one of its arguments is ``{port}``. Raises RuntimeError."""
    with started([sys.executable, "-m", *arguments], log, {**os.environ, **environment}) as (port, process):
        yield Served(port, process)


@contextmanager
def started(
    command: Sequence[str], log: Path, environment: Mapping[str, str]
) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    """Run a command on the server's core until the block ends, once it answers on the port that it finds in ``{port}``.

    All that it starts ends with it, since it leads a session. Raises RuntimeError with its log where nothing answers.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    words = [word.replace("{port}", str(port)) for word in command]
    with log.open("wb") as output:
        process = subprocess.Popen(
            words, cwd=ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
    if _has_cores():
        # What it starts is where it is.
        os.sched_setaffinity(process.pid, {SERVER_CORE})
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not _answers(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(words)} has not started:\n{log.read_text()}")
            time.sleep(0.05)
        yield port, process
    finally:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_SECONDS)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
