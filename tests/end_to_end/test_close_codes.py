"""With which code a socket ends, on each server."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from websockets import Subprotocol
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from mcp_django.models import AccessToken
from tests.end_to_end.servers import Served
from tests.end_to_end.shop import served_shop
from tests.support.data import make_users, token_of
from tests.support.peers import MODERN, meta

pytestmark = pytest.mark.more("each server; `make test` has one")

_SETTINGS = 'MCP = {**MCP, "MAX_BODY_BYTES": 10_000, "SOCKET_IDLE_SECONDS": 3.0}'
#: The registered codes, each by what leads to it.
_CODES = {"idle": 1000, "binary": 1003, "faults": 1008, "revoked": 1008, "too big": 1009}
DISCOVER = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta()}}


def dial(served: Served, token: str) -> connect:
    headers = {"Authorization": f"Bearer {token}"}
    return connect(served.socket_url, open_timeout=60, subprotocols=[Subprotocol("mcp")], additional_headers=headers)


def code_of(socket: ClientConnection) -> int | None:
    """With what the server closes the socket, after whatever it says before."""
    try:
        while True:
            socket.recv(timeout=60)
    except ConnectionClosed as closed:
        return None if closed.rcvd is None else closed.rcvd.code


def _act(name: str, socket: ClientConnection) -> ClientConnection:
    """Send what leads to the code of that name, after a request that is answered."""
    socket.send(json.dumps(DISCOVER))
    assert json.loads(socket.recv(timeout=60))["result"]["supportedVersions"] == [MODERN]
    if name == "revoked":
        listen = {"notifications": {"toolsListChanged": True}, "_meta": meta()}
        socket.send(json.dumps({**DISCOVER, "method": "subscriptions/listen", "params": listen}))
        AccessToken.objects.get(name=name).revoke()
    elif name == "binary":
        socket.send(json.dumps(DISCOVER).encode())
    elif name == "too big":
        socket.send(json.dumps(DISCOVER).ljust(10_001))
    elif name == "faults":
        for _ in range(10):
            socket.send("{")
    return socket


@pytest.mark.parametrize("server", ["uvicorn", "daphne", "hypercorn", "granian"])
def test_a_socket_ends_with_the_code_that_says_why(server: str, transactional_db: None, tmp_path: Path) -> None:
    admin = make_users().admin
    tokens = {name: token_of(admin, name=name) for name in _CODES}
    with served_shop(server, tmp_path, _SETTINGS) as served, ExitStack() as opened:
        codes = {name: code_of(_act(name, opened.enter_context(dial(served, tokens[name])))) for name in _CODES}

    # Daphne lets an application say nothing between 1000 and 3000.
    private = 3000 if server == "daphne" else 0
    assert codes == {name: code if code == 1000 else code + private for name, code in _CODES.items()}
