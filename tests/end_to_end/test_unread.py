"""Clients of real servers that open what they can and read nothing: others are told as before, and nothing is left."""

from __future__ import annotations

import json
import socket
import struct
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tests.end_to_end.servers import Served, wait_for
from tests.end_to_end.shop import served_shop
from tests.push.processes import ServedSocket
from tests.shop.models import Tag
from tests.support.data import make_users, switch_on, token_of
from tests.support.peers import MODERN, Message, meta

pytestmark = pytest.mark.more("each server; `make test` has one")

#: So many long names that a few changes of all fill every buffer on the way to a client.
NAMES = [f"{number:03}{'🛫' * 45}" for number in range(200)]
URIS = [f"db://shop/tag/{quote(name)}" for name in NAMES]

_SETTINGS = 'MCP = {**MCP, "WRITE_SECONDS": 1.0}\n'
_THROUGH_DJANGO = 'MIDDLEWARE = [*MIDDLEWARE, "tests.support.through_django.middleware"]\n'
_TOOLS = "tests.support.holding"


@pytest.fixture
def token(transactional_db: None) -> str:
    token = token_of(make_users().admin)
    switch_on("touch")
    Tag.objects.bulk_create(Tag(name=name) for name in NAMES)
    return token


class Caller:
    """A client that calls the tools of ``tests.support.holding``, on one connection: servers keep them for a while."""

    def __init__(self, served: Served, token: str) -> None:
        self._url = served.url
        headers = {"Accept": "application/json, text/event-stream", "Authorization": f"Bearer {token}"}
        self._client = httpx.Client(headers=headers, timeout=60)

    def call(self, name: str) -> Any:
        params = {"name": name, "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        result = self._client.post(self._url, json=message).raise_for_status().json()["result"]
        assert not result.get("isError"), result
        return result

    def held(self) -> dict[str, int]:
        counted: dict[str, int] = json.loads(self.call("held")["content"][0]["text"])
        return counted


def listen() -> Message:
    params = {"notifications": {"resourceSubscriptions": URIS}, "_meta": meta()}
    return {"jsonrpc": "2.0", "id": "unread", "method": "subscriptions/listen", "params": params}


class Unread:
    """A connection whose client reads nothing but the head of the first answer."""

    def __init__(self, served: Served) -> None:
        self.connection = socket.socket()
        # Before it connects, since it says how much the server may send unasked.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        self.connection.settimeout(60)
        self.connection.connect(("127.0.0.1", served.port))

    def send(self, head: str, body: bytes = b"") -> bytes:
        self.connection.sendall(head.replace("\n", "\r\n").encode() + body)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self.connection.recv(1)
        return answer

    def send_frame(self, message: Message) -> None:
        body = json.dumps(message).encode()
        # Masked with zeros, which leave it as it is.
        length = struct.pack("!BH", 0x80 | 126, len(body)) if len(body) < 65_536 else struct.pack("!BQ", 255, len(body))
        self.connection.sendall(b"\x81" + length + bytes(4) + body)

    def read_to_the_end(self) -> None:
        """What is on the way comes, and then the end. Raises TimeoutError where the server holds the connection."""
        try:
            while self.connection.recv(1_000_000):
                pass
        except ConnectionError:
            pass


def unread_socket(served: Served, token: str) -> Unread:
    """A socket with a listen of every tag, and ten answers of half a megabyte on their way."""
    unread = Unread(served)
    answer = unread.send(
        f"GET /mcp HTTP/1.1\nHost: localhost\nAuthorization: Bearer {token}\nUpgrade: websocket\nConnection: Upgrade\n"
        "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"
    )
    assert b" 101 " in answer
    unread.send_frame(listen())
    for number in range(10):
        params = {"name": "fill", "arguments": {}, "_meta": meta()}
        unread.send_frame({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
    return unread


def unread_stream(served: Served, token: str) -> Unread:
    """An event stream that listens to every tag."""
    return posted(served, token, listen())


def posted(served: Served, token: str, message: Message) -> Unread:
    """A message whose answer is an event stream."""
    unread = Unread(served)
    body = json.dumps(message).encode()
    answer = unread.send(
        f"POST /mcp HTTP/1.1\nHost: localhost\nAuthorization: Bearer {token}\nContent-Type: application/json\n"
        f"Accept: application/json, text/event-stream\nMCP-Protocol-Version: {MODERN}\n"
        f"Mcp-Method: {message['method']}\nMcp-Name: {message['params'].get('name', '')}\n"
        f"Content-Length: {len(body)}\n\n",
        body,
    )
    assert b" 200 " in answer
    assert b"text/event-stream" in answer
    return unread


@pytest.mark.parametrize("server", ["uvicorn", "daphne", "hypercorn", "granian"])
def test_who_does_not_read_is_let_go_and_slows_nobody(server: str, token: str, tmp_path: Path) -> None:
    with served_shop(server, tmp_path, _SETTINGS, _TOOLS) as served, ExitStack() as opened:
        caller = Caller(served, token)
        caller.held()
        before = caller.held()
        unread = [unread_socket(served, token), unread_stream(served, token)]
        reading = ServedSocket(token, served.origin, [URIS[0]])
        opened.callback(reading.close)
        told = 0

        def only_the_reader_is_left() -> bool:
            nonlocal told
            caller.call("touch")
            assert reading.next()["params"]["uri"] == URIS[0]
            told += 1
            held = caller.held()
            return (held["members"], held["listeners"]) == (2, 1)

        wait_for(only_the_reader_is_left, "the end of those who do not read", 90)
        for one in unread:
            # granian keeps to itself what is on its way, and nobody can take it from there.
            if server != "granian":
                one.read_to_the_end()
            one.connection.close()
        reading.close()

        assert told >= 1
        wait_for(lambda: caller.held()["members"] == 0, "an empty hub")
        if server != "granian":
            wait_for(lambda: caller.held()["sockets"] <= before["sockets"], "the end of every connection")


@pytest.mark.parametrize("server", ["uvicorn", "daphne"])
def test_behind_middleware_who_does_not_read_is_let_go_too(server: str, token: str, tmp_path: Path) -> None:
    with served_shop(server, tmp_path, _SETTINGS + _THROUGH_DJANGO, _TOOLS) as served:
        caller = Caller(served, token)
        unread = unread_stream(served, token)

        def nobody_is_left() -> bool:
            caller.call("touch")
            return caller.held()["members"] == 0

        wait_for(nobody_is_left, "the end of who does not read", 90)
        unread.read_to_the_end()
        unread.connection.close()


@pytest.mark.parametrize("server", ["uvicorn", "daphne", "hypercorn"])
def test_a_tool_waits_for_who_does_not_read_and_ends_with_the_connection(
    server: str, token: str, tmp_path: Path
) -> None:
    with served_shop(server, tmp_path, _SETTINGS, _TOOLS) as served:
        caller = Caller(served, token)
        params = {"name": "pour", "_stream": True, "_meta": meta()}
        unread = posted(served, token, {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})

        def poured() -> dict[str, int]:
            found: dict[str, int] = json.loads(caller.call("poured")["content"][0]["text"])
            return found

        wait_for(lambda: poured()["closed"], "the end of the generator")
        unread.connection.close()

        assert poured()["rows"] < 5_000
