"""Installs what is released into empty environments, and asks a project of two lines there.

    python -m tests.installs [--python 3.13] [--django 6.1]

On each Python that is found, with each Django that runs on it: the wheel alone, with each extra and with all of them,
and the source distribution. The packages come from the index that pip knows. The last lines install another package
with our import name beside it, and look for the errors that docs/install.md shows.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import matrix
from tests.end_to_end.projects import serve_endpoint
from tests.end_to_end.servers import Project, free_port, wait_for
from tests.end_to_end.wheels import build
from tests.support.pages import cells

#: Series of Django → the oldest Python that it runs on.
DJANGOS = {"5.2": "3.10", "6.0": "3.12", "6.1": "3.12"}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = tuple(tomllib.loads((matrix.ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
#: What an extra brings, by a module of ours that needs it.
NEEDED = {
    "redis": "channels_redis.pubsub", "nats": "mcp_django.core.events.nats",
    "postgres": "mcp_django.core.events.postgresql", "otel": "opentelemetry.trace", "tasks": "django_tasks_db",
    "protobuf": "mcp_django.protocol.protobuf", "grpc": "grpc_health.v1.health, mcp_django.protocol.mcp_pb2_grpc",
}  # fmt: skip
_SETTINGS = "INSTALLED_APPS += ['mcp_django']\n"


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


class Failed(Exception):
    """What a step printed."""


def run(*command: object, cwd: Path) -> str:
    words = [str(one) for one in command]
    done = subprocess.run(words, cwd=cwd, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failed(f"{' '.join(words)}\n{done.stdout[-1500:]}{done.stderr[-1500:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    ours = ("PYTHONPATH", "DJANGO_SETTINGS_MODULE", "VIRTUAL_ENV")
    return {name: value for name, value in os.environ.items() if name not in ours}


class Environment:
    """An empty virtual environment in a folder, and a project beside it."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        run(python, "-m", "venv", folder / "venv", cwd=folder)
        self.python = folder / "venv/bin/python"

    def install(self, *what: str) -> None:
        run(self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what, cwd=self.folder)
        run(self.python, "-m", "pip", "check", cwd=self.folder)

    def make_project(self) -> Project:
        """One fresh from ``startproject``, with the two lines of docs/install.md."""
        run(self.python, "-m", "django", "startproject", "project", ".", cwd=self.folder)
        project = Project(self.folder, "project", self.folder)
        settings = self.folder / "project/settings.py"
        settings.write_text(f"{settings.read_text()}{_SETTINGS}")
        serve_endpoint(project)
        return project

    def manage(self, *arguments: str) -> str:
        return run(self.python, "manage.py", *arguments, cwd=self.folder)

    @contextmanager
    def served(self) -> Iterator[str]:
        port = free_port()
        command = [str(self.python), "manage.py", "runserver", "--noreload", str(port)]
        with (self.folder / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=self.folder, env=_environment(), stdout=log, stderr=log)
        try:
            wait_for(lambda: _listens(port), "runserver")
            yield f"http://127.0.0.1:{port}/mcp"
        finally:
            process.terminate()
            process.wait()

    def ask(self) -> None:
        """Migrate, check, make a token, and list the tools over HTTP."""
        self.make_project()
        self.manage("migrate", "--verbosity", "0")
        self.manage("check")
        make_user = "from django.contrib.auth.models import User; User.objects.create_superuser('admin')"
        self.manage("shell", "-c", make_user)
        token = self.manage("mcp_token", "admin").strip()
        with self.served() as url:
            client = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client})
            headers = {
                "Authorization": f"Bearer {token}", "Content-Type": "application/json",
                "Accept": "application/json, text/event-stream",
            }  # fmt: skip
            request = urllib.request.Request(url, body.encode(), headers)
            with urllib.request.urlopen(request) as answer:
                assert json.load(answer)["result"]["serverInfo"], "no serverInfo"


def try_one(python: str, django: str, what: str, extras: tuple[str, ...]) -> str:
    """ "ok", or what failed. ``what`` is the wheel or the source distribution."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            made = Environment(python, Path(folder))
            asked = f"{what}[{','.join(extras)}]" if extras else what
            made.install(asked, f"django=={django}.*")
            for extra in extras:
                code = f"import django.conf; django.conf.settings.configure(); import {NEEDED[extra]}"
                run(made.python, "-c", code, cwd=made.folder)
            if len(extras) != 1:
                made.ask()
        except (Failed, AssertionError) as failed:
            print(failed, flush=True)
            return "FAILED"
    return "ok"


def try_the_other(python: str, wheel: str) -> bool:
    """Whether each error of the page is what one sees, with the distribution mcp-django beside ours."""
    right = True
    for row in cells("docs/install.md", "### Another package of that name"):
        error, installed = row[0].strip("`"), row[1]
        with tempfile.TemporaryDirectory() as folder:
            made = Environment(python, Path(folder))
            for what in {"`mcp-django` alone": ["mcp-django"], "both, `mcp-django` last": [wheel, "mcp-django"]}.get(
                installed, ["mcp-django", wheel]
            ):
                made.install(what)
            made.make_project()
            try:
                said = made.manage("check")
            except Failed as failed:
                said = str(failed)
        is_seen = error in re.sub(r"\s+", " ", said)
        right &= is_seen
        print(f"{installed}: {'as the page says' if is_seen else 'FAILED, it says: ' + said[-400:]}", flush=True)
    return right


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", choices=PYTHONS)
    parser.add_argument("--django", choices=DJANGOS)
    options = parser.parse_args()
    found = {python: matrix.interpreter(python) for python in PYTHONS if options.python in (None, python)}
    tries = [("alone", ()), *((extra, (extra,)) for extra in EXTRAS), ("all", EXTRAS)]
    outcomes: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        made = build(Path(folder))
        print(f"| Python | Django | {' | '.join(name for name, _ in tries)} | sdist |", flush=True)
        for python, path in found.items():
            for django, oldest in DJANGOS.items():
                runs = tuple(map(int, python.split("."))) >= tuple(map(int, oldest.split(".")))
                if not runs or options.django not in (None, django):
                    continue
                if path is None:
                    print(f"| {python} | {django} | not run: there is no python{python} here |", flush=True)
                    continue
                row = [try_one(path, django, str(made.wheel), extras) for _, extras in tries]
                row.append(try_one(path, django, str(made.sdist), ()))
                outcomes += row
                print(f"| {python} | {django} | {' | '.join(row)} |", flush=True)
        first = next(path for path in found.values() if path is not None)
        outcomes.append("ok" if try_the_other(first, str(made.wheel)) else "FAILED")
    return int(set(outcomes) != {"ok"})


if __name__ == "__main__":
    sys.exit(main())
