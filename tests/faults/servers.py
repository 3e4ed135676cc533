"""The processes that faults are tried on: a server, looked at from outside and inside, and a writer."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import IO, Any

import httpx

from tests.end_to_end.servers import ROOT, START_SECONDS, STOP_SECONDS, free_port, wait_for
from tests.support import forkserver

#: Threads of pools, which are as many as there was work for.
_POOLS = re.compile(r"(mcp_django|asyncio|ThreadPoolExecutor-\d+)_\d+")


@dataclass(frozen=True)
class Held:
    """What a server holds while nobody listens to it. Pools and their threads are left out of it."""

    sockets: int
    files: int
    connections: int
    threads: int
    tasks: int
    listeners: int
    members: int
    watched: int
    expected: int
    stored_streams: int
    running: int
    taken: int

    def beyond(self, allowed: Held) -> list[str]:
        """What is more than is allowed, in words."""
        names = [field.name for field in fields(self)]
        both = [(name, getattr(self, name), getattr(allowed, name)) for name in names]
        return [f"{name}: {found}, not {least}" for name, found, least in both if found > least]


class Server:
    """A server process that is killed, stopped and started again on the same port."""

    application = "tests.faults.asgi:application"

    def __init__(self, name: str, variables: Mapping[str, str], folder: Path) -> None:
        self.name = name
        self.port = free_port()
        self.origin = f"http://127.0.0.1:{self.port}"
        self._grpc_port = free_port()
        self.grpc = f"127.0.0.1:{self._grpc_port}"
        self._variables = {**variables, "FAULTS_NAME": name, "FAULTS_GRPC_PORT": str(self._grpc_port)}
        self._log = Path(folder, f"{name}.log").open("ab")  # noqa: SIM115
        self._process: forkserver.Process | None = None
        #: How often it was started.
        self.starts = 0

    def __str__(self) -> str:
        return self.name

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self} does not run"
        return self._process.pid

    def start(self) -> None:
        command = ("uvicorn", "--host", "127.0.0.1", "--port", str(self.port), self.application)
        self._process = _python(command, self._variables, self._log)
        self.starts += 1

    def wait(self) -> None:
        def answers() -> bool:
            assert self._process is not None
            assert self._process.poll() is None, f"{self} has ended, and logged to {self._log.name}"
            try:
                return httpx.post(f"{self.origin}/mcp", json={}, timeout=START_SECONDS).status_code == 401
            except httpx.TransportError:
                return False

        wait_for(answers, self.name, START_SECONDS)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait(STOP_SECONDS)
            self._process = None

    def signal(self, number: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(number)

    def close(self) -> None:
        """End it as an init system does. Raises AssertionError if it does not go."""
        if self._process is None:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self} did not end on SIGTERM; it logged to {self._log.name}") from None
        finally:
            self._process = None

    # What it holds.

    def inside(self, *, collect: bool = False) -> dict[str, Any]:
        url = f"{self.origin}/held/" + ("?collect" if collect else "")
        found: dict[str, Any] = httpx.get(url, headers={"Connection": "close"}, timeout=60).raise_for_status().json()
        return found

    def resyncs(self) -> int:
        """How often its hub has told its subscribers to look again."""
        return int(self.inside()["resyncs"])

    def held(self, connections: Mapping[str, int]) -> Held:
        """What it holds now; ``connections`` are those that the database sees, by application."""
        inside = self.inside(collect=True)
        threads = [name for name in inside.pop("threads") if _POOLS.fullmatch(name) is None]
        del inside["resyncs"]
        kinds = Counter(self._open_files())
        return Held(
            sockets=kinds["socket"], files=kinds.total() - kinds["socket"], connections=connections.get(self.name, 0),
            threads=len(threads), **inside,
        )  # fmt: skip

    def _open_files(self) -> list[str]:
        found = []
        for entry in Path(f"/proc/{self.pid}/fd").iterdir():
            try:
                found.append(str(entry.readlink()).partition(":")[0])
            except FileNotFoundError:
                continue  # Closed meanwhile.
        return found

    def memory(self) -> int:
        """Resident bytes."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * 4096

    def all_threads(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/task").iterdir())


class Writer:
    """The handle of a process that writes."""

    def __init__(self, variables: Mapping[str, str], folder: Path) -> None:
        self._variables = {**variables, "FAULTS_NAME": "writer"}
        self._log = Path(folder, "writer.log").open("ab")  # noqa: SIM115
        self._process: asyncio.subprocess.Process | None = None
        self._answers: asyncio.Queue[Any] = asyncio.Queue()
        self._reading: asyncio.Task[None] | None = None
        #: What it has committed since ``forget``.
        self.commits: list[dict[str, Any]] = []

    async def start(self) -> None:
        self._process = await self._run()
        self._reading = asyncio.create_task(self._read(self._process))

    async def ask(self, do: str, **line: Any) -> Any:
        """What it answers once it has done it."""
        self.tell(do, **line)
        return await self.answer()

    def tell(self, do: str, **line: Any) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **line}).encode() + b"\n")

    async def answer(self) -> Any:
        answer = await self._answers.get()
        assert answer is not None, f"the writer has ended, and logged to {self._log.name}"
        return answer["done"]

    async def run_once(self, uris: Sequence[str]) -> None:
        """Change rows in a process that ends right after it."""
        process = await self._run(*uris)
        await self._read(process)
        assert await process.wait() == 0, f"a writer has failed, and logged to {self._log.name}"

    async def close(self) -> None:
        if self._process is not None and self._process.stdin is not None:
            self._process.stdin.close()
            await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
        if self._reading is not None:
            await self._reading

    def kill(self) -> None:
        """End it, whatever it is doing."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def _run(self, *uris: str) -> asyncio.subprocess.Process:
        return await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.faults.writer", *uris, cwd=ROOT, env=environment(self._variables),
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=self._log, limit=2**24,
        )  # fmt: skip

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            message = json.loads(line)
            if "done" in message:
                self._answers.put_nowait(message)
            else:
                self.commits.append(message)
        if process is self._process:
            self._answers.put_nowait(None)


def start_management(command: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> forkserver.Process:
    """A process that runs a command of manage.py."""
    return _python(("django", *command), variables, log)


def run_management(command: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> None:
    process = start_management(command, {**variables, "FAULTS_NAME": "management"}, log)
    assert process.wait(300) == 0, f"{' '.join(command)} has failed, and logged to {log.name}"


def environment(variables: Mapping[str, str]) -> dict[str, str]:
    ours = {"DJANGO_SETTINGS_MODULE": "tests.faults.settings", "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    return {**os.environ, **ours, **variables}


def _python(module: Sequence[str], variables: Mapping[str, str], log: IO[bytes]) -> forkserver.Process:
    return forkserver.start(["-m", *module], cwd=ROOT, env=environment(variables), stdout=log, stderr=log)
