"""R12: a server that is asked to end tells who listens, and ends."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from django.db import connection

from tests.end_to_end.servers import ROOT, Project, Served
from tests.support import schemas
from tests.support.data import switch_on, token_of
from tests.support.peers import MODERN, meta

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
END_SECONDS = 30


def headers_of(token: str) -> dict[str, str]:
    """The headers of the listen."""
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "subscriptions/listen",
    }


@pytest.fixture(params=["daphne", "uvicorn"])
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_open_listens_are_completed_before_the_server_ends(
    served: Served, users: Any, flights: Any, number: signal.Signals
) -> None:
    headers = headers_of(token_of(users.admin))
    with httpx.stream("POST", served.url, json=LISTEN, headers=headers, timeout=END_SECONDS) as response:
        received = messages(response)
        acknowledged = next(received)

        served.process.send_signal(number)
        rest = list(received)

    for message in (acknowledged, *rest):
        schemas.check(message, MODERN, "subscriptions/listen")
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert rest == [COMPLETED]
    assert served.process.wait(END_SECONDS) is not None


@pytest.mark.parametrize("served", ["daphne"], indirect=True)
def test_a_signal_that_the_server_ignores_ends_no_stream(
    ignored: signal.Signals, served: Served, users: Any, flights: Any
) -> None:
    switch_on("flights_flight_mark_cancelled")
    token = token_of(users.admin)
    with httpx.stream("POST", served.url, json=LISTEN, headers=headers_of(token), timeout=END_SECONDS) as response:
        received = messages(response)
        acknowledged = next(received)

        served.process.send_signal(ignored)
        served.ask(token, "tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {"ids": ["1"]}})
        told = next(received)

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert told["method"] == "notifications/resources/updated"


def test_sockets_are_told_that_the_server_is_going_away(served: Served, users: Any, flights: Any) -> None:
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    headers = {"Authorization": f"Bearer {token_of(users.admin)}"}
    with connect(served.socket_url, open_timeout=60, subprotocols=["mcp"], additional_headers=headers) as socket:  # type: ignore[list-item]
        socket.send(json.dumps(LISTEN))
        acknowledged = json.loads(socket.recv(END_SECONDS))

        served.process.terminate()
        completed = json.loads(socket.recv(END_SECONDS))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(END_SECONDS)

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert completed == COMPLETED
    assert closed.value.rcvd is not None
    # Daphne lets an application say nothing between 1000 and 3000.
    assert closed.value.rcvd.code == (4001 if "daphne" in served.log.name else 1001)
    assert served.process.wait(END_SECONDS) is not None


def test_streams_of_the_old_transport_end_with_the_server(served: Served, users: Any) -> None:
    headers = {"Authorization": f"Bearer {token_of(users.admin)}", "Accept": "text/event-stream"}
    with httpx.stream("GET", f"{served.origin}/sse", headers=headers, timeout=END_SECONDS) as response:
        lines = response.iter_lines()
        assert next(lines) == "event: endpoint"

        served.process.terminate()
        rest = list(lines)

    assert [line for line in rest if line and not line.startswith((":", "data: /sse/messages"))] == []
    assert served.process.wait(END_SECONDS) is not None
