"""A server and a worker in separate processes: they reach each other, or do without each other."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import is_listening, need
from tests.end_to_end.servers import START_SECONDS, free_port, wait_for
from tests.push.processes import ROOT, ServedPeer, environment, new_prefix
from tests.support import forkserver, tasks
from tests.support.data import token_of
from tests.support.peers import MODERN, Message
from tests.support.tasks import TASKS, text_of

pytestmark = [pytest.mark.more("processes that die and are followed by others"), pytest.mark.slow]


class Processes:
    """Servers and workers on the test's database."""

    def __init__(self, folder: Path, prefix: str) -> None:
        self.folder = folder
        self._open = ExitStack()
        self._variables = {
            **environment(prefix),
            "DJANGO_SETTINGS_MODULE": "tests.bridge.tasks.served.settings",
            "TASK_FILES": str(folder),
            # With a broker, only the broker may carry the news.
            "TASK_SWEEP": "60" if prefix else "0.2",
        }
        self._number = 0

    def worker(self) -> forkserver.Process:
        return self._start(
            "django", "db_worker", "--backend", "database", "--interval", "0.05", "--no-startup-delay", "--no-reload"
        )

    def server(self) -> tuple[forkserver.Process, str]:
        """A server, and its address."""
        port = free_port()
        process = self._start("uvicorn", "--host", "127.0.0.1", "--port", str(port), "tests.asgi:application")
        origin = f"http://127.0.0.1:{port}"

        def answers() -> bool:
            assert process.poll() is None, self.logged()
            try:
                return httpx.post(f"{origin}/mcp", json={}, timeout=START_SECONDS).status_code == 401
            except httpx.TransportError:
                return False

        wait_for(answers, "the server", START_SECONDS)
        return process, origin

    def logged(self) -> str:
        return "\n".join(log.read_text() for log in sorted(self.folder.glob("*.log")))

    def trace(self, name: str, seconds: float = 60) -> str:
        """Wait for the file that a tool writes. The text of a file ``*.begun`` is returned."""
        path = self.folder / name
        wait_for(path.exists, f"{name}:\n{self.logged()}", seconds)
        return str(wait_for(path.read_text, name)) if name.endswith(".begun") else ""

    def let_go(self, name: str) -> None:
        (self.folder / name).touch()

    def close(self) -> None:
        self._open.close()

    def _start(self, *command: str) -> forkserver.Process:
        self._number += 1
        output = self._open.enter_context((self.folder / f"{self._number}.log").open("wb"))
        process = forkserver.start(["-m", *command], cwd=ROOT, env=self._variables, stdout=output, stderr=output)
        self._open.callback(_end, process)
        return process


def _end(process: forkserver.Process) -> None:
    process.kill()
    process.wait(60)


def kill(process: forkserver.Process) -> None:
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)


WITH_AND_WITHOUT_A_BROKER = pytest.mark.parametrize("processes", ["", "redis"], indirect=True)


@pytest.fixture
def processes(request: pytest.FixtureRequest, users: Any, tmp_path: Path) -> Iterator[Processes]:
    """Without a broker between the processes, or with one."""
    broker = getattr(request, "param", "")
    if broker:
        need(is_listening(6379), "Redis on 127.0.0.1:6379")
    made = Processes(tmp_path, new_prefix() if broker else "")
    yield made
    made.close()
    assert "Traceback" not in made.logged(), made.logged()


@pytest.fixture
def connect(users: Any) -> Iterator[Callable[[str], ServedPeer]]:
    """Clients of one token."""
    with ExitStack() as stack:
        token = token_of(users.admin)

        def connect(origin: str) -> ServedPeer:
            peer = ServedPeer(token, origin)
            peer.capabilities = {**TASKS, "elicitation": {}}
            stack.callback(peer.close)
            return peer

        yield connect


@contextmanager
def watching(peer: ServedPeer, task: Message) -> Iterator[Any]:
    params = {"notifications": {"taskIds": [task["taskId"]]}, "_meta": peer.meta()}
    message = {"jsonrpc": "2.0", "id": next(peer.ids), "method": "subscriptions/listen", "params": params}
    headers = peer.modern_headers("subscriptions/listen", params)
    stream = peer._stream("POST", MODERN, headers, json.dumps(message).encode())
    assert stream.next()["params"]["notifications"] == {"taskIds": [task["taskId"]]}
    yield stream
    stream.close()


def told(stream: Any, **expected: Any) -> Message:
    """The first notification with these values."""
    while True:
        params: Message = stream.next()["params"]
        if all(params.get(name) == value for name, value in expected.items()):
            return params


Connect = Callable[[str], ServedPeer]


@pytest.mark.every_database
@WITH_AND_WITHOUT_A_BROKER
def test_a_worker_in_another_process(processes: Processes, connect: Connect) -> None:
    processes.worker()
    _, origin = processes.server()
    peer = connect(origin)

    created = tasks.start(peer, "wait", name="a")
    assert created["status"] == "working"
    with watching(peer, created) as stream:
        told(stream, status="working", statusMessage="waits")
        processes.let_go("a")
        done = told(stream, status="completed")

    assert text_of(done) == "a is there"
    assert text_of(tasks.get(peer, created)) == "a is there"


@WITH_AND_WITHOUT_A_BROKER
def test_a_question_of_another_process(processes: Processes, connect: Connect) -> None:
    processes.worker()
    _, origin = processes.server()
    peer = connect(origin)

    created = tasks.start(peer, "confirm")
    with watching(peer, created) as stream:
        assert set(told(stream, status="input_required")["inputRequests"]) == {"who"}
        tasks.update(peer, created, who={"action": "accept", "content": {"name": "Ada"}})
        assert text_of(told(stream, status="completed")) == "Hello, Ada."


def test_a_task_survives_the_death_of_the_server_that_accepted_it(processes: Processes, connect: Connect) -> None:
    processes.worker()
    server, origin = processes.server()
    created = tasks.start(connect(origin), "wait", name="a")
    processes.trace("a.begun")

    kill(server)
    _, origin = processes.server()
    processes.let_go("a")

    assert text_of(tasks.wait(connect(origin), created, "completed", "failed", seconds=60)) == "a is there"


def test_a_task_that_no_worker_has_seen_survives_everybody(processes: Processes, connect: Connect) -> None:
    server, origin = processes.server()
    created = tasks.start(connect(origin), "wait", name="a")
    kill(server)
    processes.let_go("a")

    processes.worker()
    _, origin = processes.server()

    assert text_of(tasks.wait(connect(origin), created, "completed", "failed", seconds=60)) == "a is there"


@pytest.mark.every_database
def test_a_task_whose_worker_is_killed_has_failed(processes: Processes, connect: Connect) -> None:
    worker = processes.worker()
    _, origin = processes.server()
    peer = connect(origin)
    created = tasks.start(peer, "wait", name="a")
    processes.trace("a.begun")

    kill(worker)
    failed = tasks.wait(peer, created, "failed", "completed", seconds=60)
    assert failed["error"]["data"] == {"reason": "WORKER_LOST"}

    processes.worker()
    processes.let_go("b")
    assert (
        text_of(tasks.wait(peer, tasks.start(peer, "wait", name="b"), "completed", "failed", seconds=60))
        == "b is there"
    )
    assert tasks.get(peer, created) == failed


def test_a_worker_that_must_end_finishes_its_task(processes: Processes, connect: Connect) -> None:
    worker = processes.worker()
    _, origin = processes.server()
    peer = connect(origin)
    created = tasks.start(peer, "wait", name="a")
    processes.trace("a.begun")

    worker.terminate()
    processes.let_go("a")

    assert text_of(tasks.wait(peer, created, "completed", "failed", seconds=60)) == "a is there"
    assert worker.wait(60) == 0


@pytest.mark.every_database
def test_cancelling_reaches_the_worker(processes: Processes, connect: Connect) -> None:
    processes.worker()
    _, origin = processes.server()
    peer = connect(origin)
    created = tasks.start(peer, "wait", name="a")
    processes.trace("a.begun")

    tasks.cancel(peer, created)
    assert tasks.get(peer, created)["status"] == "cancelled"
    processes.trace("a.cancelled")

    processes.let_go("b")
    assert (
        text_of(tasks.wait(peer, tasks.start(peer, "wait", name="b"), "completed", "failed", seconds=60))
        == "b is there"
    )
    assert tasks.get(peer, created)["status"] == "cancelled"


@WITH_AND_WITHOUT_A_BROKER
def test_a_server_knows_the_tasks_of_another(processes: Processes, connect: Connect) -> None:
    processes.worker()
    (_, one), (_, other) = processes.server(), processes.server()
    created = tasks.start(connect(one), "wait", name="a")

    with watching(connect(other), created) as stream:
        told(stream, status="working", statusMessage="waits")
        tasks.cancel(connect(other), created)
        told(stream, status="cancelled")

    processes.trace("a.cancelled")
    assert tasks.get(connect(one), created)["status"] == "cancelled"
