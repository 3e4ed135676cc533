"""The server that a client starts: what reaches its standard output, how it ends, and the official client."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.subscriptions import ResourceUpdated
from mcp_types import ResourceUpdatedNotification

from tests.end_to_end.sdk import contents_of, text_of
from tests.end_to_end.servers import START_SECONDS, Project, demo, wait_for
from tests.support import schemas
from tests.support.base import MODERN, meta
from tests.support.loop import LoopThread

further = pytest.mark.more("starts a process")

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

SECONDS = 30

#: An app that says something wherever it can, by every way there is.
_NOISE = """
import logging, os, subprocess, sys
print("noise of an import")
"""
_NOISY_APP = """
from django.apps import AppConfig
print("noise of an app")
class NoisyConfig(AppConfig):
    name = "noisy"
    def ready(self):
        print("noise of ready")
        sys_write(1, b"noise of C\\n")
from os import write as sys_write
"""
_NOISY_TOOLS = """
import logging, os, subprocess, sys, time
from mcp_django import tool
print("noise of mcp.py")

@tool(read_only=True)
def make_noise(request) -> str:
    \"\"\"Print by every way there is, and read what is there to be read.\"\"\"
    print("noise of print")
    sys.stdout.write("noise of stdout\\n")
    sys.__stdout__.write("noise of the first stdout\\n")
    os.write(1, b"noise of a descriptor\\n")
    logging.getLogger("noisy").warning("noise of a log")
    subprocess.run(["/bin/sh", "-c", "echo noise of a child; cat"], check=True)
    return f"read {sys.stdin.read()!r}"

@tool(read_only=True)
def sleep(request) -> str:
    \"\"\"Take ten minutes, and listen to nobody.\"\"\"
    sys.stderr.write("asleep\\n")
    sys.stderr.flush()
    time.sleep(600)
"""
_SETTINGS = """
import sys
print("noise of the settings")
INSTALLED_APPS = ["noisy", *INSTALLED_APPS]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"out": {"class": "logging.StreamHandler", "stream": sys.stdout}},
    "root": {"handlers": ["out"], "level": "INFO"},
}
"""


def modern(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": meta()}}


def call(request_id: Any, tool: str, **arguments: Any) -> dict[str, Any]:
    return modern(request_id, "tools/call", name=tool, arguments=arguments)


class Process:
    """The command in a process of its own, as a client holds it."""

    def __init__(self, project: Project, user: str = "admin", stdin: int | IO[bytes] = subprocess.PIPE) -> None:
        self.logged = project.scratch / "stderr.log"
        self._log = self.logged.open("wb")
        environment = {name: value for name, value in project.environment.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen(
            [sys.executable, "manage.py", "mcp_stdio", "--user", user, "--scopes", "read,actions"],
            cwd=project.folder, env=environment, stdin=stdin, stdout=subprocess.PIPE, stderr=self._log,
        )  # fmt: skip

    def send(self, message: Any) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> Any:
        """The next line, which must be a message."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.log
        return json.loads(line)

    def end(self) -> list[Any]:
        """End the input and wait for the end; returns the messages that still came."""
        rest, _ = self.process.communicate(timeout=SECONDS)
        return [json.loads(line) for line in rest.splitlines()]

    @property
    def log(self) -> str:
        return self.logged.read_text(errors="replace")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self._log.close()


@contextmanager
def started(project: Project, **options: Any) -> Iterator[Process]:
    process = Process(project, **options)
    try:
        yield process
    finally:
        process.close()


@pytest.fixture
def noisy(demo_folder: Path) -> Project:
    """The demo with an app that prints at every occasion."""
    app = demo_folder / "noisy"
    app.mkdir(exist_ok=True)
    (app / "__init__.py").write_text(_NOISE)
    (app / "apps.py").write_text(_NOISY_APP)
    (app / "mcp.py").write_text(_NOISY_TOOLS)
    return demo(demo_folder, _SETTINGS)


def test_nothing_but_messages_reaches_standard_output(noisy: Project) -> None:
    with started(noisy) as process:
        process.send(modern(1, "server/discover"))
        discovered = process.receive()
        process.send(call(2, "make_noise"))
        called = process.receive()
        rest = process.end()

        logged = [line for line in process.log.splitlines() if line.startswith("noise")]

    schemas.check(discovered, MODERN, "server/discover")
    assert called["result"]["content"] == [{"type": "text", "text": "read ''"}]
    assert rest == []
    assert process.process.returncode == 0
    assert sorted(logged) == sorted(
        f"noise of {what}"
        for what in (
            "the settings", "an import", "an app", "ready", "C", "mcp.py", "print", "stdout", "the first stdout",
            "a descriptor", "a log", "a child",
        )
    )  # fmt: skip


@further
def test_a_call_that_cannot_be_stopped_does_not_keep_the_process(noisy: Project) -> None:
    with started(noisy) as process:
        process.send(call(1, "sleep"))
        wait_for(lambda: "asleep" in process.log or process.process.poll() is not None, "the call")
        assert "asleep" in process.log

        assert process.end() == []

    assert process.process.returncode == 0


@further
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_open_listens_are_completed_before_the_process_ends(demo_project: Project, number: signal.Signals) -> None:
    wanted = {"resourceSubscriptions": ["db://flights/flight/1"]}
    with started(demo_project) as process:
        process.send(modern("mine", "subscriptions/listen", notifications=wanted))
        acknowledged = process.receive()

        process.process.send_signal(number)
        completed = process.receive()
        assert process.process.wait(SECONDS) == 0, process.log

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert completed == {
        "jsonrpc": "2.0",
        "id": "mine",
        "result": {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": "mine"}},
    }
    assert "Traceback" not in process.log


@further
def test_a_file_of_requests_is_answered(demo_project: Project, tmp_path: Path) -> None:
    client = {"name": "tests", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    requests = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        modern(3, "tools/list"),
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(json.dumps(request) for request in requests))

    with path.open("rb") as file, started(demo_project, stdin=file) as process:
        answers = {answer["id"]: answer for answer in process.end()}

    assert answers.keys() == {1, 2, 3}
    schemas.check(answers[1], "2025-11-25", "initialize")
    schemas.check(answers[2], "2025-11-25", "tools/list")
    schemas.check(answers[3], MODERN, "tools/list")


@further
def test_a_terminal_is_read_line_by_line(demo_project: Project) -> None:
    ours, theirs = pty.openpty()
    with started(demo_project, stdin=theirs) as process:
        os.close(theirs)
        os.write(ours, json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode() + b"\n")
        answer = process.receive()
        os.write(ours, b"\x04")  # Ctrl-D
        assert process.process.wait(SECONDS) == 0, process.log
    os.close(ours)

    assert answer == {"jsonrpc": "2.0", "id": 1, "result": {}}


@further
def test_a_user_who_is_deactivated_ends_the_process(demo_project: Project) -> None:
    with started(demo_project, user="viewer") as process:
        process.send({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        process.receive()

        change = (
            "from django.contrib.auth.models import User; User.objects.filter(username='viewer').update(is_active={})"
        )
        demo_project.run(change.format(False))

        assert process.process.wait(SECONDS) == 1
        assert "The user 'viewer' was refused: inactive or deleted by now." in process.log
    demo_project.run(change.format(True))


def test_a_mistake_is_told_on_standard_error_alone(demo_project: Project) -> None:
    with started(demo_project, user="nobody") as process:
        assert process.end() == []

    assert process.process.returncode == 1
    assert process.log == "CommandError: There is no user 'nobody'. Make one with: manage.py createsuperuser\n"


@further
def test_its_help_is_printed_as_that_of_any_command(demo_project: Project) -> None:
    assert "--user NAME" in demo_project.manage("mcp_stdio", "--help")


# The official client.


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_official_client_works_in_both_eras(
    demo_project: Project, mode: str, revision: str, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The process starts while its client waits for this answer, and where none comes it speaks an older revision.
    monkeypatch.setattr("mcp.client.session.DISCOVER_TIMEOUT_SECONDS", START_SECONDS)
    key = 40 if mode == "auto" else 41
    uri = f"db://flights/flight/{key}"

    async def conversation() -> tuple[Any, ...]:
        told: asyncio.Queue[str] = asyncio.Queue()

        async def handler(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                await told.put(str(message.params.uri))

        server = StdioServerParameters(
            command=sys.executable, cwd=demo_project.folder, env=demo_project.environment,
            args=["manage.py", "mcp_stdio", "--user", "admin", "--scopes", "read,actions"],
        )  # fmt: skip
        async with Client(stdio_client(server), mode=mode, message_handler=handler) as client:
            tools = [tool.name for tool in (await client.list_tools()).tools]
            found = text_of(await client.call_tool("find_records", {"model": "flights.flight", "limit": 1}))
            before = contents_of(await client.read_resource(uri))["status"]
            if mode == "legacy":
                await client.subscribe_resource(uri)
                await client.call_tool("flights_flight_mark_cancelled", {"ids": [key]})
                heard = await asyncio.wait_for(told.get(), 30)
            else:
                async with client.listen(resource_subscriptions=[uri]) as listening:
                    await client.call_tool("flights_flight_mark_cancelled", {"ids": [key]})
                    event = await asyncio.wait_for(anext(listening), 30)
                    assert isinstance(event, ResourceUpdated)
                    heard = event.uri
            after = contents_of(await client.read_resource(uri))["status"]
            return client.protocol_version, tools, json.loads(found)["rows"], before, heard, after

    spoken, tools, rows, before, heard, after = serving_loop.run(conversation(), 2 * START_SECONDS)

    assert spoken == revision
    assert {"find_records", "flights_flight_mark_cancelled"} <= set(tools)
    assert len(rows) == 1
    assert before != "cancelled"
    assert heard == uri
    assert after == "cancelled"
