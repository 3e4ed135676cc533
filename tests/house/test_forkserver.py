"""Processes that the fork server starts are those that Python itself would start."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import forkserver

LOOK = """
import atexit, json, os, signal, sys, threading
import beside
atexit.register(print, "at exit")
print(json.dumps({
    "arguments": sys.argv, "folder": os.getcwd(), "variable": os.environ.get("LOOK"), "variables": sorted(os.environ),
    "main": __name__, "path": sys.path, "threads": threading.active_count(), "beside": beside.__file__,
    "ours": [name for name in sys.modules if name.partition(".")[0] in ("mcp_django", "tests", "demo_project")],
    "signals": [str(signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)],
}))
sys.exit(3)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "look.py").write_text(LOOK)
    (tmp_path / "beside.py").touch()
    return tmp_path


@pytest.mark.parametrize("arguments", [["-c", LOOK, "a"], ["-m", "look", "a", "b"], ["look.py", "a"]])
def test_a_process_is_as_python_starts_it(folder: Path, arguments: list[str]) -> None:
    env = {"PATH": os.environ["PATH"], "LOOK": "here", "PYTHONPATH": str(folder.parent), "LC_CTYPE": "C.UTF-8"}

    forked = forkserver.run(arguments, cwd=folder, env=env)
    fresh = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=env, capture_output=True, text=True, check=False
    )

    assert (forked.returncode, forked.stderr) == (3, "")
    assert fresh.returncode == 3, fresh.stderr
    seen, ends = zip(*(done.stdout.strip().split("\n") for done in (forked, fresh)), strict=True)
    assert ends == ("at exit", "at exit")
    assert json.loads(seen[0]) == json.loads(seen[1])


def test_a_signal_ends_it(tmp_path: Path) -> None:
    process = forkserver.start(["-c", "import signal; signal.pause()"], cwd=tmp_path, env={})

    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()

    assert process.wait(60) == process.poll() == -signal.SIGKILL
