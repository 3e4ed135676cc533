"""R12: a server that is asked to end tells who listens, and ends."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from django.db import connection
from websockets import Subprotocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from tests.end_to_end.servers import ROOT, Project, Served, wait_for
from tests.end_to_end.shop import served_shop
from tests.support import schemas
from tests.support.data import switch_on, token_of
from tests.support.peers import MODERN, meta

pytestmark = [pytest.mark.more("the end of each server"), pytest.mark.slow]

LISTEN = {
    "jsonrpc": "2.0",
    "id": "mine",
    "method": "subscriptions/listen",
    "params": {"notifications": {"resourceSubscriptions": ["db://flights/flight/1"]}, "_meta": meta()},
}
COMPLETED = {
    "jsonrpc": "2.0",
    "id": "mine",
    "result": {"resultType": "complete", "_meta": {"io.modelcontextprotocol/subscriptionId": "mine"}},
}
END_SECONDS = 60


def headers_of(token: str) -> dict[str, str]:
    """The headers of the listen."""
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "subscriptions/listen",
    }


SERVERS = ["daphne", "uvicorn", "hypercorn", "granian"]


@pytest.fixture(params=SERVERS)
def served(request: pytest.FixtureRequest, transactional_db: None, tmp_path: Any) -> Iterator[Served]:
    """The demo's application in a process of its own, on the database of the test."""
    variables = {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "TEST_DATABASE_NAME": str(connection.settings_dict["NAME"]),
        "DEMO_DIR": str(tmp_path),
    }
    project = Project(ROOT, "demo_project", tmp_path, variables)
    with project.served(request.param) as running:
        yield running


@pytest.fixture
def ignored() -> Iterator[signal.Signals]:
    """A signal that processes are started to ignore, as a shell starts the jobs in its background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    yield signal.SIGINT
    signal.signal(signal.SIGINT, before)


def messages(response: httpx.Response) -> Iterator[Any]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))


@contextmanager
def listening(served: Served, token: str) -> Iterator[Iterator[Any]]:
    """A listen that was acknowledged; yields what comes then."""
    with httpx.stream("POST", served.url, json=LISTEN, headers=headers_of(token), timeout=END_SECONDS) as response:
        received = messages(response)
        acknowledged = next(received)
        schemas.check(acknowledged, MODERN, "subscriptions/listen")
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        yield received


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_what_is_open_is_ended_as_its_protocol_says_before_the_server_ends(
    served: Served, users: Any, flights: Any
) -> None:
    token = token_of(users.admin)
    headers = {"Authorization": f"Bearer {token}"}
    socket = connect(
        served.socket_url, open_timeout=60, subprotocols=[Subprotocol("mcp")], additional_headers=headers
    )  # fmt: skip
    old = httpx.stream("GET", f"{served.origin}/sse", headers=headers | {"Accept": "text/event-stream"}, timeout=60)
    with socket, old as old_stream, listening(served, token) as received:
        old_lines = old_stream.iter_lines()
        assert next(old_lines) == "event: endpoint"
        socket.send(json.dumps(LISTEN))
        acknowledged = json.loads(socket.recv(END_SECONDS))

        served.process.terminate()
        rest = list(received)
        old_rest = list(old_lines)
        completed = json.loads(socket.recv(END_SECONDS))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(END_SECONDS)

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    for message in (*rest, completed):
        schemas.check(message, MODERN, "subscriptions/listen")
    assert rest == [COMPLETED]
    assert completed == COMPLETED
    assert [line for line in old_rest if line and not line.startswith((":", "data: /sse/messages"))] == []
    assert closed.value.rcvd is not None
    # Daphne lets an application say nothing between 1000 and 3000.
    assert closed.value.rcvd.code == (4001 if "daphne" in served.log.name else 1001)
    assert served.process.wait(END_SECONDS) is not None


@pytest.mark.parametrize("served", ["daphne", "uvicorn"], indirect=True)
def test_ctrl_c_completes_open_listens(served: Served, users: Any, flights: Any) -> None:
    with listening(served, token_of(users.admin)) as received:
        served.process.send_signal(signal.SIGINT)
        rest = list(received)

    assert rest == [COMPLETED]
    assert served.process.wait(END_SECONDS) is not None


@pytest.mark.parametrize("served", ["hypercorn", "granian"], indirect=True)
def test_a_signal_to_every_process_of_the_server_completes_open_listens(
    served: Served, users: Any, flights: Any
) -> None:
    """As systemd ends a service, unless it is told otherwise."""
    with listening(served, token_of(users.admin)) as received:
        for pid in (*children(served.process.pid), served.process.pid):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        rest = list(received)

    assert rest == [COMPLETED]
    assert served.process.wait(END_SECONDS) is not None


@pytest.mark.parametrize("served", ["daphne"], indirect=True)
def test_a_signal_that_the_server_ignores_ends_no_stream(
    ignored: signal.Signals, served: Served, users: Any, flights: Any
) -> None:
    switch_on("flights_flight_mark_cancelled")
    token = token_of(users.admin)
    with listening(served, token) as received:
        served.process.send_signal(ignored)
        served.ask(token, "tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {"ids": ["1"]}})
        told = next(received)

    assert told["method"] == "notifications/resources/updated"


_SLOW_TOOLS = """
import asyncio, pathlib, time
from mcp_django import tool

@tool(permission="auth.view_user")
def in_thread(request) -> None:
    "Takes a moment."
    pathlib.Path(r"{folder}", "in_thread").touch()
    time.sleep(0.5)

@tool(permission="auth.view_user")
async def on_loop(request) -> None:
    "Takes a moment."
    pathlib.Path(r"{folder}", "on_loop").touch()
    await asyncio.sleep(0.5)
"""


@pytest.mark.parametrize("server", SERVERS)
def test_calls_in_progress_below_synchronous_middleware_hold_no_server(
    server: str, transactional_db: None, users: Any, tmp_path: Path
) -> None:
    """A thread of Django waits for the view there, and Daphne ends the loop before it is answered."""
    (tmp_path / "slow_tools.py").write_text(_SLOW_TOOLS.format(folder=tmp_path))
    settings = 'MIDDLEWARE = [*MIDDLEWARE, "tests.transports.tenancy.by_variable"]'
    token = token_of(users.admin)

    with ThreadPoolExecutor() as pool, served_shop(server, tmp_path, settings, "slow_tools") as served:
        for name in ("in_thread", "on_loop"):
            pool.submit(served.ask, token, "tools/call", {"name": name, "arguments": {}})
            wait_for((tmp_path / name).exists, f"the call of {name}")
