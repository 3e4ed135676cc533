"""A fork server: starts processes of Python in which the packages that a project needs are imported already.

A process that starts with Django spends a second of processor time on imports, most of it on packages of others. The
server imports those once and forks for each process that a test asks for. Settings, models, the project and the code of
mcp_django are not among them: each process loads those itself, with the variables and in the folder that it was given.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any

#: What projects, the package and servers import: nothing of a project, no reactor, and nothing that starts a thread.
MODULES = (
    "asgiref.local", "asgiref.server", "asgiref.sync", "asgiref.timeout", "asgiref.wsgi", "channels.db",
    "channels.layers", "channels.routing", "channels_redis.core", "channels_redis.pubsub", "django.contrib.admin.apps",
    "django.contrib.admin.helpers", "django.contrib.auth.apps", "django.contrib.auth.hashers",
    "django.contrib.auth.password_validation", "django.contrib.contenttypes.apps", "django.contrib.messages.api",
    "django.contrib.postgres.apps", "django.contrib.postgres.fields", "django.contrib.sessions.apps",
    "django.contrib.sessions.backends.base", "django.contrib.staticfiles.apps", "django.core.asgi",
    "django.core.checks.registry", "django.core.handlers.asgi", "django.core.handlers.wsgi", "django.core.mail",
    "django.core.management.commands.migrate", "django.core.paginator", "django.core.servers.basehttp",
    "django.core.validators", "django.core.wsgi", "django.db.backends.postgresql.psycopg_any",
    "django.db.backends.sqlite3._functions", "django.db.migrations.executor", "django.db.migrations.writer",
    "django.db.models.sql.compiler", "django.forms.formsets", "django.forms.models", "django.middleware.csrf",
    "django.template.backends.django", "django.template.defaulttags", "django.template.loader",
    "django.template.loader_tags", "django.test.signals", "django.utils.autoreload", "django.utils.log",
    "django.utils.translation.reloader", "django.utils.translation.trans_real", "django.views.csrf",
    "django.views.debug", "django.views.generic", "django_tasks", "django_tasks_db.utils", "jsonschema", "mcp_types",
    "multiprocessing.util", "psycopg_pool", "pydantic", "redis.asyncio", "rest_framework.authentication",
    "rest_framework.request", "rest_framework.serializers", "autobahn.websocket.protocol", "gunicorn.app.wsgiapp",
    "gunicorn.workers.sync", "h11", "hypercorn.asyncio", "hypercorn.run", "twisted.internet.asyncioreactor",
    "twisted.internet.endpoints", "twisted.web.http", "uvicorn.lifespan.on", "uvicorn.loops.auto", "uvicorn.main",
    "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto", "websockets.server", "wsproto",
)  # fmt: skip
#: A process that takes longer to be forked has not been.
_START_SECONDS = 60
#: A process that would never end is named before the time of its test is over.
RUN_SECONDS = 280


@dataclass
class Process:
    """A process that the server has forked, in the words of subprocess.Popen."""

    args: list[str]
    pid: int
    _connection: socket.socket = field(repr=False)
    returncode: int | None = None

    def poll(self) -> int | None:
        return self._wait(0)

    def wait(self, timeout: float | None = None) -> int:
        """Raises subprocess.TimeoutExpired."""
        code = self._wait(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _wait(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], seconds)[0]:
            status = self._connection.recv(32)
            assert status, "the fork server has ended"
            self.returncode = os.waitstatus_to_exitcode(int(status))
            self._connection.close()
        return self.returncode


def start(
    arguments: Sequence[str | Path],
    *,
    cwd: str | Path,
    env: Mapping[str, str],
    stdout: IO[Any] | None = None,
    stderr: IO[Any] | None = None,
) -> Process:
    """A new process that does what ``python *arguments`` does, without input."""
    args = [str(argument) for argument in arguments]
    with ExitStack() as opened:
        null = opened.enter_context(Path(os.devnull).open("r+b"))
        files = [null.fileno(), _number_of(stdout, 1), _number_of(stderr, 2)]
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(_server())
        connection.settimeout(_START_SECONDS)
        ignored = [number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN]
        asked = json.dumps({"arguments": args, "cwd": str(cwd), "env": dict(env), "ignored": ignored}).encode()
        sent = socket.send_fds(connection, [asked], files)
        connection.sendall(asked[sent:] + b"\n")
        # Without a buffer, which would take along how a process ended that is faster than this line.
        pid = int(connection.makefile("rb", buffering=0).readline())
    return Process([sys.executable, *args], pid, connection)


def _number_of(file: IO[Any] | None, otherwise: int) -> int:
    return otherwise if file is None else file.fileno()


def run(
    arguments: Sequence[str | Path], *, cwd: str | Path, env: Mapping[str, str], timeout: float = RUN_SECONDS
) -> subprocess.CompletedProcess[str]:
    """Run to the end, without input; what was written is text. Raises subprocess.TimeoutExpired."""
    with tempfile.TemporaryFile("w+") as stdout, tempfile.TemporaryFile("w+") as stderr:
        process = start(arguments, cwd=cwd, env=env, stdout=stdout, stderr=stderr)
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        return subprocess.CompletedProcess(process.args, code, *map(_text_of, (stdout, stderr)))


def _text_of(file: IO[str]) -> str:
    file.seek(0)
    return file.read()


@cache
def _server() -> str:
    """The address of this process's server, which is started for the first one that asks."""
    folder = tempfile.TemporaryDirectory(prefix="forkserver_")
    address = str(Path(folder.name, "socket"))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen(64)
    # It ends as soon as its standard input does, whatever becomes of this process.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, __file__, str(listening.fileno())],
        stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, pass_fds=[listening.fileno()], env=env,
    )  # fmt: skip
    listening.close()

    def end() -> None:
        process.communicate(timeout=_START_SECONDS)
        folder.cleanup()

    atexit.register(end)
    return address


# In the server.


class _Server:
    """Forks for each connection; writes the number of the process to it, and how it ended when it has."""

    def __init__(self, listening: socket.socket) -> None:
        self._listening = listening
        self._running: dict[int, socket.socket] = {}
        #: Written to by the signal that a child has ended.
        self._ended, self._wakeup = socket.socketpair()
        for end in (self._ended, self._wakeup):
            end.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def serve(self) -> Callable[[], None] | None:
        """Returns in each child, with what it is to do; in the server, when nobody can ask any more."""
        while True:
            ready, _, _ = select.select([self._listening, self._ended, sys.stdin], [], [])
            if self._ended in ready:
                self._reap()
            if self._listening in ready and (child := self._fork()) is not None:
                return child
            if sys.stdin in ready:
                return None

    def _fork(self) -> Callable[[], None] | None:
        connection, _ = self._listening.accept()
        asked, files = _received(connection)
        pid = os.fork()
        if pid == 0:
            self._close(connection)
            return partial(_become, files=files, **asked)
        for file in files:
            os.close(file)
        self._running[pid] = connection
        connection.sendall(b"%d\n" % pid)
        return None

    def _close(self, connection: socket.socket) -> None:
        """A child keeps nothing of the server's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for opened in (self._listening, self._ended, self._wakeup, connection, *self._running.values()):
            opened.close()

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            self._ended.recv(4096)
        for pid, status in _ended_children():
            with self._running.pop(pid) as connection, suppress(OSError):  # Nobody waits for it any more.
                connection.sendall(b"%d" % status)


def _received(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    asked, files, _, _ = socket.recv_fds(connection, 1 << 16, 3)
    while not asked.endswith(b"\n"):
        asked += connection.recv(1 << 16)
    return json.loads(asked), files


def _ended_children() -> Iterator[tuple[int, int]]:
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            yield ended


def _become(arguments: list[str], cwd: str, env: dict[str, str], ignored: list[int], files: list[int]) -> None:
    """Be the process ``python *arguments`` in that folder, with those variables, signals and standard streams."""
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    first, rest = arguments[0], arguments[1:]
    path = [str(Path(entry).resolve()) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    sys.path[:0] = [{"-c": "", "-m": cwd}.get(first, str(Path(first).resolve().parent)), *path]
    importlib.invalidate_caches()
    match first:
        case "-c":
            sys.argv = ["-c", *rest[1:]]
            main = sys.modules["__main__"] = ModuleType("__main__")
            exec(compile(rest[0], "<string>", "exec"), main.__dict__)
        case "-m":
            sys.argv = rest
            runpy.run_module(rest[0], run_name="__main__", alter_sys=True)
        case _:
            sys.argv = arguments
            runpy.run_path(first, run_name="__main__")


def _import_what_is_there() -> None:
    for name in MODULES:
        # Where something is not installed, the tests that need it say so.
        with suppress(ImportError):
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def main() -> Callable[[], None] | None:
    listening = socket.socket(fileno=int(sys.argv[1]))
    del sys.path[0]  # The folder of this file.
    _import_what_is_there()
    return _Server(listening).serve()


if __name__ == "__main__" and (child := main()) is not None:
    child()
