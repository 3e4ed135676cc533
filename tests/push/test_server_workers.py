"""A server that has several worker processes itself: what is saved in one is told by the others."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from websockets import Subprotocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.conftest import is_listening, need
from tests.end_to_end.servers import wait_for
from tests.push.processes import new_prefix, served
from tests.support import schemas
from tests.support.data import Users, switch_on, token_of
from tests.support.peers import MODERN, Message, meta

pytestmark = [pytest.mark.more("servers with several workers"), pytest.mark.slow]

FLIGHT = "db://flights/flight/1"
#: Which process takes a connection, the system decides.
_SECONDS = 60


@pytest.fixture
def token(users: Users) -> str:
    switch_on("process", "parent", "touch")
    return token_of(users.admin)


@pytest.fixture(scope="module", params=["uvicorn with workers", "granian with workers"])
def origin(
    request: pytest.FixtureRequest, django_db_setup: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A server of two workers. It is one for the file, whose last test ends it."""
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    log = tmp_path_factory.mktemp("server") / "log"
    with served(request.param, new_prefix(), log, module="tests.push.worker_tools") as origin:
        yield origin


@pytest.fixture
def of_process(origin: str, token: str, flights: Any) -> Iterator[dict[int, ClientConnection]]:
    """A socket of each worker, by its process.

    A worker that granian has forked loses a SIGTERM which comes before it has imported the application, and then the
    server never ends. So a test begins when both workers have answered.
    """
    with ExitStack() as stack:
        found: dict[int, ClientConnection] = {}

        def are_two() -> bool:
            socket = stack.enter_context(opened(origin, token))
            found.setdefault(call(socket, "process"), socket)
            return len(found) == 2

        wait_for(are_two, "an answer of the second worker", _SECONDS)
        yield found


def opened(origin: str, token: str) -> ClientConnection:
    headers = {"Authorization": f"Bearer {token}"}
    url = origin.replace("http", "ws", 1) + "/mcp"
    return connect(url, open_timeout=60, additional_headers=headers, subprotocols=[Subprotocol("mcp")])


def send(socket: ClientConnection, request_id: str, method: str, params: Message) -> None:
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": meta()}}
    socket.send(json.dumps(message))


def call(socket: ClientConnection, name: str, **arguments: Any) -> int:
    """Call a tool that tells of a process."""
    send(socket, name, "tools/call", {"name": name, "arguments": arguments})
    answer: Message = {}
    while "id" not in answer:  # It may be told before to look again.
        answer = json.loads(socket.recv(60))
    return int(answer["result"]["content"][0]["text"])


def test_a_save_in_one_worker_is_told_to_those_who_listen_to_another(of_process: dict[int, ClientConnection]) -> None:
    (here, saving), (there, listening) = of_process.items()
    send(listening, "mine", "subscriptions/listen", {"notifications": {"resourceSubscriptions": [FLIGHT]}})
    acknowledged = json.loads(listening.recv(60))

    # More often than a process tells its clients to look again since it has only just joined the others.
    for _ in range(5):
        saved_by = call(saving, "touch", flight=1)
        told = json.loads(listening.recv(60))
        schemas.check(told, MODERN, "subscriptions/listen")
        assert (saved_by, told["params"]["uri"]) == (here, FLIGHT)

    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert here != there


def test_each_worker_completes_its_listens_before_it_ends(of_process: dict[int, ClientConnection]) -> None:
    for socket in of_process.values():
        send(socket, "mine", "subscriptions/listen", {"notifications": {"resourceSubscriptions": [FLIGHT]}})
        assert json.loads(socket.recv(60))["method"] == "notifications/subscriptions/acknowledged"

    os.kill(call(next(iter(of_process.values())), "parent"), signal.SIGTERM)
    ends = [rest_of(socket) for socket in of_process.values()]

    for messages, code in ends:
        assert [message["result"]["resultType"] for message in messages if "id" in message] == ["complete"]
        assert code == 1001


def rest_of(socket: ClientConnection) -> tuple[list[Message], int | None]:
    """What the socket is told until it ends, and with which code it does."""
    messages: list[Message] = []
    try:
        while True:
            messages.append(json.loads(socket.recv(60)))
    except ConnectionClosed as closed:
        return messages, closed.rcvd.code if closed.rcvd is not None else None
