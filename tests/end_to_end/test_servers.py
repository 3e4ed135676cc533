"""Every ASGI server that the documentation names, with the command lines of docs/deployment.md.

Calls, streams and sockets work, and clients that go away are noticed.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import SHUT_RDWR
from typing import Any

import httpx
import pytest
from websockets import Subprotocol
from websockets.sync.client import ClientConnection, connect

from tests.end_to_end.servers import ROOT, Served, demo, wait_for
from tests.support import schemas
from tests.support.peers import MODERN, Message, meta

#: The server, and what answers: our ASGI application, or a view behind Django's own handler.
SERVERS = [
    ("daphne", "application"),
    ("uvicorn", "application"),
    ("hypercorn", "application"),
    ("granian", "application"),
    ("gunicorn", "application"),
    ("hypercorn", "django"),
]
#: Django's own handler has none.
with_sockets = pytest.mark.parametrize(
    "server", [case for case in SERVERS if case[1] == "application"], ids=" ".join, indirect=True, scope="module"
)
#: A stream that is idle writes nothing for an hour, so that no write can find out that its client has gone.
SETTINGS = 'MCP = {"KEEPALIVE_SECONDS": 3600, "MAX_LISTENS": 1}'
#: Middleware that our application does not know makes it leave the endpoint to Django.
BEHIND_DJANGO = 'MIDDLEWARE = [*MIDDLEWARE, "tests.support.through_django.middleware"]'

LEGACY = "2025-11-25"
FIND = {
    "name": "find_records",
    "arguments": {"model": "flights.flight", "filter": {"id": 13}, "fields": ["carrier", "number"]},
}
FOUND = {"columns": ["id", "carrier", "number"], "rows": [[13, "UA", 194]]}


def documented(server: str) -> list[str]:
    """The arguments of Python that start a server as the documentation says, with one process of it."""
    [line] = re.findall(rf"^{server} .*$", (ROOT / "docs/deployment.md").read_text(), re.MULTILINE)
    line = re.sub(r"--workers \d+", "--workers 1", line.replace("8000", "{port}"))
    return ["-m", *line.replace("project.asgi", "{module}.asgi").split()]


@pytest.fixture(scope="module", params=SERVERS, ids=" ".join)
def server(request: pytest.FixtureRequest, demo_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    name, answers = request.param
    folder = tmp_path_factory.mktemp(f"{name}_{answers}".replace(" ", "_"))
    shutil.copytree(demo_data, folder, dirs_exist_ok=True)
    settings = f"{SETTINGS}\n{BEHIND_DJANGO}" if answers == "django" else SETTINGS
    with demo(folder, settings).served(name, documented(name)) as served:
        yield served, (folder / "token").read_text().strip(), answers


@pytest.fixture(scope="module")
def served(server: tuple[Served, str, str]) -> Served:
    return server[0]


@pytest.fixture(scope="module")
def token(server: tuple[Served, str, str]) -> str:
    return server[1]


def modern(method: str, params: Message) -> Message:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": {**params, "_meta": meta()}}


def modern_headers(token: str, method: str, name: str = "") -> dict[str, str]:
    return {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
        **({"Mcp-Name": name} if name else {}),
    }


def listen_to(flight: int) -> Message:
    wanted = {"resourceSubscriptions": [f"db://flights/flight/{flight}"]}
    return modern("subscriptions/listen", {"notifications": wanted})


def updated(flight: int) -> Message:
    """What the listen is told when the flight has changed."""
    params = {"uri": f"db://flights/flight/{flight}", "_meta": {"io.modelcontextprotocol/subscriptionId": 7}}
    return {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}


@contextmanager
def listening(served: Served, token: str, flight: int) -> Iterator[tuple[httpx.Response, Iterator[Message]]]:
    """A listen on a flight: the answer, and its messages."""
    headers = modern_headers(token, "subscriptions/listen")
    with httpx.stream("POST", served.url, json=listen_to(flight), headers=headers, timeout=60) as response:
        lines = response.iter_lines()
        yield response, (json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: "))


@contextmanager
def socket_of(served: Served, token: str) -> Iterator[ClientConnection]:
    headers = {"Authorization": f"Bearer {token}"}
    opened = connect(
        served.socket_url, open_timeout=60, subprotocols=[Subprotocol("mcp")], additional_headers=headers
    )  # fmt: skip
    with opened as socket:
        yield socket


def cancel(served: Served, token: str, flight: int) -> None:
    """Change a flight, in the server."""
    params = {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [str(flight)]}}
    assert not served.ask(token, "tools/call", params).json()["result"]["isError"]


def test_a_call_of_the_modern_era_is_answered(served: Served, token: str) -> None:
    headers = modern_headers(token, "tools/call", "find_records")

    answer = httpx.post(served.url, json=modern("tools/call", FIND), headers=headers, timeout=60)

    schemas.check(answer.json(), MODERN, "tools/call")
    assert answer.status_code == 200
    assert json.loads(answer.json()["result"]["content"][0]["text"]) == FOUND


def test_a_call_in_a_session_of_the_legacy_era_is_answered(served: Served, token: str) -> None:
    client = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    opened = served.ask(token, "initialize", client)
    session = {
        "Authorization": f"Bearer {token}",
        "Accept": "application/json, text/event-stream",
        "Mcp-Session-Id": opened.headers["Mcp-Session-Id"],
        "MCP-Protocol-Version": LEGACY,
    }
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": FIND}

    with httpx.stream("POST", served.url, json=message, headers=session, timeout=60) as answer:
        data = [line.removeprefix("data: ") for line in answer.iter_lines() if line.startswith(("data: {", "{"))]
    ended = httpx.delete(served.url, headers=session, timeout=60)

    assert opened.json()["result"]["protocolVersion"] == LEGACY
    schemas.check(json.loads(data[-1]), LEGACY, "tools/call")
    assert json.loads(json.loads(data[-1])["result"]["content"][0]["text"]) == FOUND
    assert ended.status_code == 204


def test_a_listen_is_told_at_once_in_a_stream_that_no_proxy_holds_back(served: Served, token: str) -> None:
    with listening(served, token, 13) as (answer, messages):
        acknowledged = next(messages)
        cancel(served, token, 13)
        told = next(messages)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["Cache-Control"] == "no-store, no-transform"
    assert answer.headers["Content-Encoding"] == "identity"
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    schemas.check(told, MODERN, "subscriptions/listen")
    assert told == updated(13)


def test_a_stream_whose_client_goes_away_leaves_its_place_at_once(served: Served, token: str) -> None:
    def is_admitted() -> bool:
        with listening(served, token, 13) as (answer, _):
            return answer.status_code == 200

    for _ in range(3):
        wait_for(is_admitted, "the place of a client that has gone")


@with_sockets
def test_a_socket_is_answered_and_told(served: Served, token: str) -> None:
    with socket_of(served, token) as socket:
        socket.send(json.dumps(modern("tools/call", FIND)))
        answer = json.loads(socket.recv(60))
        socket.send(json.dumps(listen_to(64)))
        acknowledged = json.loads(socket.recv(60))
        cancel(served, token, 64)
        told = json.loads(socket.recv(60))

    assert json.loads(answer["result"]["content"][0]["text"]) == FOUND
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    schemas.check(told, MODERN, "subscriptions/listen")
    assert told == updated(64)


@with_sockets
@pytest.mark.parametrize("politely", [True, False])
def test_a_socket_whose_client_goes_away_leaves_its_place_at_once(served: Served, token: str, politely: bool) -> None:
    def is_admitted() -> bool:
        with socket_of(served, token) as socket:
            socket.send(json.dumps(listen_to(64)))
            told = json.loads(socket.recv(60))
            if not politely:
                socket.socket.shutdown(SHUT_RDWR)
            return "error" not in told

    for _ in range(3):
        wait_for(is_admitted, "the place of a client that has gone")
