"""Processes that the fork server starts are those that Python itself would start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.support import forkserver
from tests.support.forkserver import MODULES

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


def test_an_error_is_written_and_ends_it_with_1(tmp_path: Path) -> None:
    done = forkserver.run(["-c", "raise RuntimeError('no')"], cwd=tmp_path, env={})

    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.endswith("RuntimeError: no\n")


def test_how_a_process_ended_is_known_to_a_caller_that_was_slower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(socket.socket):
        def sendall(self, data: Any, flags: int = 0) -> None:
            super().sendall(data, flags)
            while self.recv(32, socket.MSG_PEEK).partition(b"\n")[2] == b"":
                time.sleep(0.01)

    forkserver.run(["-c", ""], cwd=tmp_path, env={})  # The server is there.
    monkeypatch.setattr("tests.support.forkserver.socket.socket", Slow)

    assert forkserver.run(["-c", "raise SystemExit(4)"], cwd=tmp_path, env={}).returncode == 4


def test_a_signal_ends_it(tmp_path: Path) -> None:
    process = forkserver.start(["-c", "import signal; signal.pause()"], cwd=tmp_path, env={})

    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.kill()

    assert process.wait(30) == process.poll() == -signal.SIGKILL


def test_what_is_imported_before_is_there_and_starts_no_thread() -> None:
    before = set(threading.enumerate())

    for name in MODULES:
        if find_spec(name.partition(".")[0]) is not None:  # Django has the tasks framework in itself from 6.0 on.
            import_module(name)

    # Threads of other tests may end meanwhile.
    assert set(threading.enumerate()) <= before
