"""What a client sees of a refusal on each server, and what the server logs."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_django.transports.http.bodies import SMALL_BODY_BYTES
from tests.end_to_end.servers import Served
from tests.end_to_end.shop import served_shop
from tests.support.data import make_users, token_of

pytestmark = pytest.mark.more("each server; `make test` has one")

_LENGTH = 900_000
_PIECE = 30_000
_PING = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
_TIMES = 40


class Connection:
    """A connection that is written to before it is read."""

    def __init__(self, served: Served) -> None:
        self._socket = socket.create_connection(("127.0.0.1", served.port), timeout=60)
        self._buffer = b""

    def post(self, body: bytes, *headers: str) -> None:
        head = ["POST /mcp HTTP/1.1", "Host: localhost", "Content-Type: application/json", *headers]
        self._socket.sendall("\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode())
        for start in range(0, len(body), _PIECE):
            self._socket.sendall(body[start : start + _PIECE])

    def upgrade(self, path: str) -> None:
        head = [
            f"GET {path} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
            "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==", "", "",
        ]  # fmt: skip
        self._socket.sendall("\r\n".join(head).encode())

    def status(self) -> int:
        """The status of the next answer, which is read to its end."""
        head = self._read_until(b"\r\n\r\n")
        lines = head.decode().split("\r\n")
        names = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        while len(self._buffer) < int(names.get("content-length", 0)):
            self._receive()
        self._buffer = self._buffer[int(names.get("content-length", 0)) :]
        return int(lines[0].split()[1])

    def _read_until(self, end: bytes) -> bytes:
        while end not in self._buffer:
            self._receive()
        found, _, self._buffer = self._buffer.partition(end)
        return found

    def _receive(self) -> None:
        received = self._socket.recv(65_536)
        if not received:
            raise ConnectionResetError("the server has closed the connection")
        self._buffer += received

    def close(self) -> None:
        self._socket.close()


@pytest.mark.parametrize("server", ["uvicorn", "hypercorn", "granian", "daphne"])
def test_who_sends_a_large_body_without_a_token_gets_the_answer(
    server: str, transactional_db: None, tmp_path: Path
) -> None:
    token = token_of(make_users().admin)
    with served_shop(server, tmp_path, "") as served:
        statuses = [refused for _ in range(_TIMES) for refused in _refused(server, served)]

        assert set(statuses) == {401}
        assert len(statuses) == _TIMES or server == "granian"

        kept = Connection(served)
        kept.post(_PING.ljust(SMALL_BODY_BYTES + 1))
        first = kept.status()
        kept.post(_PING.ljust(SMALL_BODY_BYTES + 1), f"Authorization: Bearer {token}")

        assert (first, kept.status()) == (401, 200)
        kept.close()


def _refused(server: str, served: Served) -> Iterator[int]:
    """The status that a large body gets.

    granian has been seen to close the connection where a loaded machine sends the body slowly: its HTTP library ends a
    request whose answer is complete, though the application is still reading. Then there is none.
    """
    connection = Connection(served)
    try:
        connection.post(b" " * _LENGTH)
        yield connection.status()
    except OSError:
        assert server == "granian"
    finally:
        connection.close()


@pytest.mark.parametrize("server", ["uvicorn", "hypercorn", "granian", "daphne"])
def test_a_refused_socket_is_no_error_in_the_log(server: str, transactional_db: None, tmp_path: Path) -> None:
    with served_shop(server, tmp_path, "") as served:
        statuses = []
        for path in ("/mcp", "/mcp?ticket=guessed", "/elsewhere"):
            connection = Connection(served)
            connection.upgrade(path)
            statuses.append(connection.status())
            connection.close()

    assert statuses in ([401, 401, 403], [403, 403, 403])
    assert "ERROR" not in served.logged, served.logged
