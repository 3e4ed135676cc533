"""``make demo``: what it prints works as it is printed, and a second start loses nothing."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import need
from tests.end_to_end.conftest import ROWS
from tests.end_to_end.servers import ROOT, STOP_SECONDS, Project, demo, free_port, wait_for

CANCELLED = "db://flights/flight/1"


@contextmanager
def make_demo(project: Project, rows: str) -> Iterator[str]:
    """``make demo`` in a terminal of its own, ended by Ctrl-C; yields what it printed. It installs nothing."""
    need(shutil.which("make") is not None, "make")
    stamp = Path(sys.prefix, "demo.stamp")
    command = ["make", "demo", f"VENV={sys.prefix}", f"--old-file={stamp}", f"PORT={free_port()}", f"ROWS={rows}"]
    log = project.scratch / f"make-{rows}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, cwd=ROOT, env=project.environment, stdout=output, stderr=output, start_new_session=True
        )
    try:

        def listening() -> bool:
            assert process.poll() is None, log.read_text()
            return "Listening on TCP" in log.read_text()

        wait_for(listening, "the server of the demo", 60)
        yield log.read_text().partition("Serving at")[0]
    finally:
        os.killpg(process.pid, signal.SIGINT)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise


def token_of(printed: str) -> str:
    match = re.search(r"^Token +(mcpdj_\S+)$", printed, re.MULTILINE)
    assert match is not None, printed
    return match[1]


def curl_of(printed: str) -> str:
    """The command as it stands there, with its continued lines."""
    match = re.search(r"^  curl (?:.*\\\n)+.*$", printed, re.MULTILINE)
    assert match is not None, printed
    return match[0]


def run_curl(command: str) -> Any:
    need(shutil.which("curl") is not None, "curl")
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def calling(command: str, tool: str, **arguments: Any) -> str:
    """The printed command with a call of a tool in the place of tools/list."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
    return re.sub(r"-d '.*'", lambda _: f"-d '{json.dumps(message)}'", command)


@pytest.mark.more("starts the demo again")
def test_a_second_start_prints_the_same_token_and_keeps_what_was_changed(demo_data: Path, tmp_path: Path) -> None:
    shutil.copytree(demo_data, tmp_path, dirs_exist_ok=True)
    project = demo(tmp_path)
    more = str(int(ROWS) + 20)

    with make_demo(project, ROWS) as first:
        listed = run_curl(curl_of(first))
        run_curl(calling(curl_of(first), "flights_flight_mark_cancelled", ids=[1]))
    with make_demo(project, more) as second:
        listed_again = run_curl(curl_of(second))
        flight = run_curl(calling(curl_of(second), "get_record", model="flights.flight", id=1))
        added = run_curl(calling(curl_of(second), "get_record", model="flights.flight", id=int(more)))

    assert "find_records" in [tool["name"] for tool in listed["result"]["tools"]]
    assert listed_again == listed
    assert token_of(second) == token_of(first) == (demo_data / "token").read_text().strip()
    assert json.loads(flight["result"]["content"][0]["text"])["status"] == "cancelled"
    assert added["result"]["isError"] is False


@pytest.mark.more("starts the demo again")
def test_a_token_that_was_revoked_is_replaced_and_a_tool_that_was_switched_off_stays_off(
    demo_data: Path, tmp_path: Path
) -> None:
    shutil.copytree(demo_data, tmp_path, dirs_exist_ok=True)
    project = demo(tmp_path)
    project.run(
        "from mcp_django.models import AccessToken, Tool; AccessToken.objects.get().revoke(); "
        "Tool.objects.filter(name='flights_flight_mark_cancelled').update(enabled=False)"
    )

    printed = project.manage("demo", "--no-serve", "--rows", ROWS)
    enabled = project.run(
        "from mcp_django.models import Tool; print(Tool.objects.get(name='flights_flight_mark_cancelled').enabled)"
    )

    assert token_of(printed) != (demo_data / "token").read_text().strip()
    assert token_of(printed) == (tmp_path / "token").read_text().strip()
    assert enabled.strip() == "False"


def test_the_file_of_the_token_is_for_its_owner_alone(demo_data: Path) -> None:
    mode = (demo_data / "token").stat().st_mode

    assert mode & 0o077 == 0


def test_a_port_that_is_taken_is_said_before_anything_is_set_up(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        with pytest.raises(AssertionError) as refusal:
            demo(tmp_path).manage("demo", "--port", str(port))

    assert f"Port {port} cannot be used" in str(refusal.value)
    assert f"make demo PORT={port + 1}" in str(refusal.value)
    # Django's own check of JSON fields makes the file from Django 6.1 on.
    with closing(sqlite3.connect(tmp_path / "db.sqlite3")) as database:
        assert database.execute("SELECT name FROM sqlite_master").fetchall() == []
