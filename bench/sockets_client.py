"""Many WebSockets read by one thread that does nothing else: it must never be what is measured.

RFC 6455, as far as is needed of a client: an upgrade, unfragmented text frames without extensions, and pongs.
"""

from __future__ import annotations

import resource
import select
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from urllib.parse import urlsplit

_TEXT, _CLOSE, _PING, _PONG = 0x1, 0x8, 0x9, 0xA
#: Upgrades that are on their way at a time: fewer than may wait of one address whose credentials nobody has seen yet.
_AT_ONCE = 25
_READ_BYTES = 65_536


def raise_open_files() -> int:
    """Let this process have as many open files as it may; returns how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


@dataclass(slots=True, eq=False)
class Socket:
    """One open WebSocket."""

    connection: socket.socket
    buffer: bytearray = field(default_factory=bytearray)

    def send(self, payload: bytes, opcode: int = _TEXT) -> None:
        """Send a frame of less than 64 KiB, masked with zeros, which leave it as it is."""
        length = len(payload)
        head = struct.pack("!BB", 0x80 | opcode, 0x80 | length) if length < 126 else b""
        head = head or struct.pack("!BBH", 0x80 | opcode, 0x80 | 126, length)
        self.connection.sendall(head + bytes(4) + payload)

    def frames(self) -> Iterator[bytes]:
        """The text frames that have come whole; pings are answered.

        Raises ConnectionError where the server has closed the socket.
        """
        while (frame := self._frame()) is not None:
            opcode, payload = frame
            if opcode == _CLOSE:
                raise ConnectionError(f"the server has closed a socket: {payload!r}")
            if opcode == _PING:
                self.send(payload, _PONG)
            if opcode == _TEXT:
                yield payload

    def _frame(self) -> tuple[int, bytes] | None:
        if len(self.buffer) < 2:
            return None
        begin, length = 2, self.buffer[1]
        if length == 126:
            begin = 4
            length = int.from_bytes(self.buffer[2:4]) if len(self.buffer) >= begin else _READ_BYTES
        elif length == 127:
            begin = 10
            length = int.from_bytes(self.buffer[2:10]) if len(self.buffer) >= begin else _READ_BYTES
        if len(self.buffer) < begin + length:
            return None
        opcode, payload = self.buffer[0] & 0xF, bytes(self.buffer[begin : begin + length])
        del self.buffer[: begin + length]
        return opcode, payload


class Sockets:
    """Open WebSockets of one server, read together."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._by_file: dict[int, Socket] = {}

    def __len__(self) -> int:
        return len(self._by_file)

    def __iter__(self) -> Iterator[Socket]:
        return iter(self._by_file.values())

    def open(self, url: str, tokens: Iterable[str]) -> Iterator[list[Socket]]:
        """Open a socket with each of the tokens, no token where it is empty; yields those that were opened together."""
        waiting: list[socket.socket] = []
        parts = urlsplit(url)
        for token in tokens:
            connection = socket.create_connection((parts.hostname, parts.port), timeout=60)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            given = f"Authorization: Bearer {token}\r\n" if token else ""
            connection.sendall(
                f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                f"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n{given}\r\n".encode()
            )
            waiting.append(connection)
            if len(waiting) == _AT_ONCE:
                yield [self._admit(connection) for connection in waiting]
                waiting = []
        yield [self._admit(connection) for connection in waiting]

    def _admit(self, connection: socket.socket) -> Socket:
        """Read the answer to an upgrade. Raises ConnectionError."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            read = connection.recv(_READ_BYTES)
            if not read:
                raise ConnectionError("the server has closed a connection instead of answering its upgrade")
            answer += read
        head, _, rest = answer.partition(b"\r\n\r\n")
        if b" 101 " not in head.partition(b"\r\n")[0]:
            raise ConnectionError(f"the upgrade was refused: {head.decode(errors='replace')}")
        opened = self._by_file[connection.fileno()] = Socket(connection, bytearray(rest))
        self._epoll.register(connection, select.EPOLLIN)
        return opened

    def gather(self, frames: int, seconds: float = 60) -> Iterator[tuple[float, bytes]]:
        """The next text frames of all sockets together, each with the time at which it was read.

        Raises TimeoutError.
        """
        end = perf_counter() + seconds
        while frames > 0:
            found = self._epoll.poll(max(0.0, end - perf_counter()), 1_024)
            if not found:
                raise TimeoutError(f"{frames} frames have not come in {seconds:.0f} seconds")
            for file, _ in found:
                one = self._by_file[file]
                read = one.connection.recv(_READ_BYTES)
                if not read:
                    raise ConnectionError("the server has ended a connection")
                one.buffer += read
                for frame in one.frames():
                    frames -= 1
                    yield perf_counter(), frame

    def drain(self, quiet_seconds: float) -> None:
        """Read whatever comes until nothing has come for so long."""
        with suppress(TimeoutError):
            while True:
                for _ in self.gather(1, quiet_seconds):
                    pass

    def close(self) -> None:
        self._epoll.close()
        for one in self:
            one.connection.close()
        self._by_file.clear()
