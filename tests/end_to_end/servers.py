"""Projects in processes of their own: the demo, and projects that a test makes, served as a deployment serves them."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psycopg

from tests.support import forkserver

ROOT = Path(__file__).parents[2]
START_SECONDS = 60
STOP_SECONDS = 60

_SERVERS: dict[str, tuple[str, ...]] = {
    "daphne": ("-m", "daphne", "-b", "127.0.0.1", "-p", "{port}", "{module}.asgi:application"),
    "uvicorn": ("-m", "uvicorn", "--host", "127.0.0.1", "--port", "{port}", "{module}.asgi:application"),
    "hypercorn": ("-m", "hypercorn", "--bind", "127.0.0.1:{port}", "{module}.asgi:application"),
    "granian": ("-m", "granian", "--interface", "asgi", "--port", "{port}", "{module}.asgi:application"),
    "runserver": ("manage.py", "runserver", "--noreload", "127.0.0.1:{port}"),
    "gunicorn": ("-m", "gunicorn", "--bind", "127.0.0.1:{port}", "{module}.wsgi:application"),
    "grpc": ("manage.py", "mcp_grpc", "--port", "{port}"),
}
#: What the test process set for itself and a served project must not inherit.
_OURS = ("DJANGO_SETTINGS_MODULE", "DEMO_DIR", "REDIS_URL", "DEBUG", "SECRET_KEY")


#: What Django's own handler leaves behind where Daphne ends it together with a client that goes away, and what granian
#: says of a request that it cancels at its end.
_OF_ENDS = re.compile(
    r".*exception was never retrieved\nfuture: .*(?:"
    r"listen_for_disconnect.*\nTraceback(?:.*\n)+?.*RequestAborted"
    r"|exception=CancelledError\(\)>\nTraceback(?:.*\n)+?.*CancelledError"
    r")\n"
    r"|\[INFO\] Stopping worker-\d+\n(?:\[ERROR\] Application callable raised an exception\n"
    r"Traceback.*\n(?: .*\n)+CancelledError: Future cancelled\.\n)+"
)


def assert_no_traceback(logged: str) -> None:
    """What a server has logged tells of no failure."""
    assert "Traceback" not in _OF_ENDS.sub("", logged), logged


_reserved: list[socket.socket] = []


def free_port() -> int:
    """A port for a server that is still to be started: nobody is given it meanwhile, on either end of a connection."""
    probe = socket.socket()
    # A server that sets this too, as all do, may listen where somebody else is only bound.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    probe.bind(("127.0.0.1", 0))
    _reserved.append(probe)
    return int(probe.getsockname()[1])


def wait_for(condition: Any, what: str, seconds: float = 60) -> Any:
    """What ``condition()`` returns once it is true. Raises AssertionError that says ``what`` did not come."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := condition():
            return result
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s in vain for {what}")


@dataclass
class Project:
    """A project on the disk: where it stands, and in which environment its commands run."""

    folder: Path
    #: The package that holds settings, urls, asgi and wsgi.
    module: str
    #: Where its servers log.
    scratch: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        return {**inherited, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", **self.variables}

    def manage(self, *arguments: str) -> str:
        """Run a management command to its end and return what it wrote. Raises AssertionError with its errors."""
        done = forkserver.run(["manage.py", *arguments], cwd=self.folder, env=self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, code: str) -> str:
        """Run Python in a process of its own, with Django set up, and return what it printed."""
        return self.manage("shell", "--no-imports", "-c", code)

    @contextmanager
    def served(
        self, server: str = "daphne", arguments: Sequence[str] = (), *, port: int = 0, may_fail: bool = False
    ) -> Iterator[Served]:
        """Serve the project until the block ends; what it logged must then hold no traceback, unless it ``may_fail``.

        ``arguments`` are those of Python, with ``{port}`` and ``{module}`` in them, where the server has others.
        ``port``: of ``free_port``, where the server shall be found there again after a restart.
        """
        port = port or free_port()
        command = [part.format(port=port, module=self.module) for part in arguments or _SERVERS[server]]
        log = self.scratch / f"{server}-{port}.log"
        with log.open("wb") as output:
            process = forkserver.start(command, cwd=self.folder, env=self.environment, stdout=output, stderr=output)
        served = (GRPCServed if server == "grpc" else Served)(self, process, port, log)
        try:
            served.wait_until_it_answers()
            yield served
        finally:
            served.stop()
        if not may_fail:
            assert_no_traceback(served.logged)


@dataclass
class Served:
    """A project that is being served."""

    project: Project
    process: forkserver.Process
    port: int
    log: Path

    @property
    def origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.origin}/mcp"

    @property
    def socket_url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/mcp"

    @property
    def logged(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until_it_answers(self) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, f"the server has ended:\n{self.logged}"
            try:
                # 400, where a caller without credentials is let in.
                return httpx.post(self.url, json={}, timeout=START_SECONDS).status_code in (400, 401)
            except httpx.TransportError:
                return False

        wait_for(answers, f"an answer of the server, which logged:\n{self.logged}", START_SECONDS)

    def stop(self) -> None:
        """End the server as an init system does. Raises AssertionError if it does not go."""
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"the server did not end on SIGTERM:\n{self.logged}") from None

    def token(self, username: str, *scopes: str) -> str:
        """A new token of the user, made with the command that the README names."""
        wanted = ",".join(scopes or ("read", "actions"))
        return self.project.manage("mcp_token", username, "--scopes", wanted).strip()

    def ask(self, token: str | None, method: str, params: Any = None) -> httpx.Response:
        """One sessionless request of an old revision, as curl sends it."""
        headers = {"Accept": "application/json, text/event-stream"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        message = {"jsonrpc": "2.0", "id": 1, "method": method, **({} if params is None else {"params": params})}
        return httpx.post(self.url, json=message, headers=headers, timeout=60)

    def tools(self, token: str) -> list[str]:
        return [tool["name"] for tool in self.ask(token, "tools/list").json()["result"]["tools"]]


class GRPCServed(Served):
    """A project that is served over gRPC."""

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def wait_until_it_answers(self) -> None:
        def answers() -> bool:
            assert self.process.poll() is None, f"the server has ended:\n{self.logged}"
            return "Serving gRPC" in self.logged

        wait_for(answers, "a server of gRPC", START_SECONDS)


class Person:
    """Somebody at work in the admin, by its forms."""

    def __init__(self, served: Served, username: str, password: str) -> None:
        self.client = httpx.Client(base_url=served.origin, follow_redirects=True, timeout=60)
        self.post("/admin/login/?next=/admin/", username=username, password=password)
        assert "sessionid" in self.client.cookies, f"{username} could not log in"

    def post(self, path: str, **fields: str) -> str:
        """Fill in the form of a page and send it; returns the page that comes. Fails where the form is refused."""
        page = self.client.get(path).text
        match = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page)
        assert match is not None, f"{path} holds no form"
        answer = self.client.post(path, data={"csrfmiddlewaretoken": match[1], **fields}).raise_for_status()
        assert "errornote" not in answer.text, answer.text
        return answer.text

    def close(self) -> None:
        self.client.close()


def demo(folder: Path, settings: str = "", **variables: str) -> Project:
    """The demo project, with its data in ``folder``; ``settings`` are lines that follow those of its own settings."""
    variables = {"DEMO_DIR": str(folder), **variables}
    if settings:
        module = f"settings_of_{re.sub(r'[^a-z0-9]', '_', folder.name.lower())}"
        (folder / f"{module}.py").write_text(f"from demo_project.settings import *\n\n{settings}\n")
        path = f"{ROOT}{os.pathsep}{folder}"
        variables |= {"DJANGO_SETTINGS_MODULE": module, "PYTHONPATH": path}
    return Project(ROOT, "demo_project", folder, variables)


@contextmanager
def postgresql_database() -> Iterator[str]:
    """A database of its own; yields DATABASES as Python, for the settings of a project."""
    name = f"mcp_django_end_to_end_{os.getpid()}"
    user = os.environ.get("PGUSER", "postgres")
    with psycopg.connect(host="127.0.0.1", user=user, dbname="postgres", autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name}")
        connection.execute(f"CREATE DATABASE {name}")
        try:
            engine = "django.db.backends.postgresql"
            yield f"DATABASES = { ({'default': {'ENGINE': engine, 'NAME': name, 'HOST': '127.0.0.1', 'USER': user}})!r}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
