"""The project in processes of its own, a server and a worker for tasks, with a fresh database."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.end_to_end.servers import STOP_SECONDS, Project, Served
from tests.support import forkserver

HERE = Path(__file__).parent
#: The name and the password of somebody who can log a client in.
PERSON = ("ops", "ops")


@contextmanager
def served() -> Iterator[Served]:
    """The project, served on a free port. What its processes log must hold no traceback."""
    with _project() as project:
        with _worker(project) as log, project.served("uvicorn") as server:
            yield server
        logged = log.read_text(errors="replace")
        assert "Traceback" not in logged, logged


def serve(port: int) -> int:
    """Serve the project at the port until Ctrl-C."""
    with _project() as project, _worker(project):
        command = ["-m", "uvicorn", "--host", "127.0.0.1", "--port", str(port), "tests.conformance.asgi:application"]
        print(f"http://127.0.0.1:{port}/mcp", flush=True)
        return subprocess.run(
            [sys.executable, *command], cwd=project.folder, env=project.environment, check=False
        ).returncode


@contextmanager
def _project() -> Iterator[Project]:
    """The project on an empty database, which goes when the block ends."""
    with tempfile.TemporaryDirectory(prefix="mcp_django_conformance_") as folder:
        project = Project(HERE, "tests.conformance", Path(folder), {"CONFORMANCE_DIR": folder})
        project.manage("migrate", "--verbosity=0")
        project.run(_ADD_PERSON.format(*PERSON))
        yield project


@contextmanager
def _worker(project: Project) -> Iterator[Path]:
    """A process that runs the project's tasks, one at a time; yields the file that it logs to.

    Raises AssertionError if it does not end when it is told to: a task runs on that was cancelled.
    """
    log = project.scratch / "worker.log"
    with log.open("wb") as output:
        command = ["manage.py", "db_worker", "--interval=0.05", "--no-startup-delay"]
        process = forkserver.start(command, cwd=project.folder, env=project.environment, stdout=output, stderr=output)
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the worker did not end on SIGTERM:\n{log.read_text()}") from None


_ADD_PERSON = """
from django.contrib.auth.models import User
User.objects.create_user("{0}", password="{1}", is_staff=True)
"""
