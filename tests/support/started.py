"""What a start of the smallest project with an admin costs: a command that runs in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tests.support.pages import ROOT

DJANGO = tuple(f"django.contrib.{app}" for app in ("admin", "auth", "contenttypes", "sessions", "messages"))
OURS = "mcp_django"
#: The same with a function tool, which the first call calls; without one it lists the tools of the models.
OURS_WITH_TOOL = "mcp_django, a tool"
#: A command that serves nothing.
SHELL = ("shell", "--verbosity=0", "--command=pass")


@dataclass(frozen=True)
class Started:
    seconds: float
    bytes: int
    modules: frozenset[str]
    #: Under ASGI, those that were there before the first request.
    warm: frozenset[str]


def started(
    *command: str,
    server: str = "",
    apps: Sequence[str] = (),
    database: object = ":memory:",
    python: object = sys.executable,
    environment: Mapping[str, str] | None = None,
) -> Started:
    """Start the project, run a command of ``manage.py``, or "wsgi", "asgi" or "warm", and end it.

    ``server`` answers calls: see ``started_project``. Raises AssertionError with what it says where it fails.
    """
    installed = [*apps, *DJANGO, *([OURS] if server.startswith(OURS) else [])]
    given = json.dumps([server, installed, str(database)])
    done = subprocess.run(
        [str(python), "-m", "tests.support.started_project", given, *command],
        cwd=ROOT, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    seconds, size, modules, warm = json.loads(done.stdout.splitlines()[-1])
    return Started(seconds, size, frozenset(modules), frozenset(warm))
