"""A client of HTTP/2 that sends what no client of gRPC sends: parts of a message, and the rest later or never."""

from __future__ import annotations

import asyncio
from typing import Any

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, SettingsAcknowledged, TrailersReceived
from h2.settings import SettingCodes

#: A message of gRPC begins with a flag and its length.
_HEAD_BYTES = 5


class HTTP2Call:
    """One call of a method of gRPC, on a connection of its own."""

    def __init__(self, port: int, path: str, metadata: Any) -> None:
        self._port = port
        self._headers = [
            (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "localhost"),
            ("content-type", "application/grpc"), ("te", "trailers"), *metadata,
        ]  # fmt: skip
        self._connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
        self._came = asyncio.Event()
        self._acknowledged = 0
        self.answer = b""
        self.trailers: dict[str, str] | None = None

    async def open(self) -> None:
        reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._connection.initiate_connection()
        self._stream = self._connection.get_next_available_stream_id()
        self._connection.send_headers(self._stream, self._headers)
        self._flush()
        self._reading = asyncio.ensure_future(self._read(reader))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(65_536):
            for event in self._connection.receive_data(data):
                match event:
                    case SettingsAcknowledged():
                        self._acknowledged += 1
                    case DataReceived():
                        self.answer += event.data
                    case TrailersReceived():
                        self.trailers = {str(name): str(value) for name, value in event.headers or ()}
            self._flush()
            self._came.set()

    def _flush(self) -> None:
        self._writer.write(self._connection.data_to_send())

    async def send_all_that_is_taken(self, message: bytes, rounds: int = 10) -> bytes:
        """Begin to send a message, until the server lets no more come. Returns the bytes that are left."""
        left = b"\0" + len(message).to_bytes(_HEAD_BYTES - 1, "big") + message
        await self._until(lambda: self._acknowledged)
        for _ in range(rounds):
            left = self._send(left)
            # What the server allows on top it has said before it acknowledges this. A ping it would take for an attack.
            acknowledged = self._acknowledged
            self._connection.update_settings({SettingCodes.MAX_HEADER_LIST_SIZE: 65_536 + acknowledged})
            self._flush()
            await self._until(lambda before=acknowledged: self._acknowledged > before)  # type: ignore[misc]
        return left

    async def send_rest(self, left: bytes) -> None:
        """Send the rest as the server lets it come, and end the call."""
        while left := self._send(left):
            self._came.clear()
            await self._came.wait()
        self._connection.end_stream(self._stream)
        self._flush()
        await self._until(lambda: self.trailers is not None)

    def _send(self, left: bytes) -> bytes:
        connection = self._connection
        while left:
            size = min(connection.local_flow_control_window(self._stream), connection.max_outbound_frame_size)
            if size <= 0:
                break
            connection.send_data(self._stream, left[:size])
            left = left[size:]
        self._flush()
        return left

    async def _until(self, is_so: Any) -> None:
        while not is_so():
            self._came.clear()
            await self._came.wait()

    async def close(self) -> None:
        self._writer.close()
        self._reading.cancel()


async def outlast(port: int) -> None:
    """Open a connection, make no call, and return once the server has ended it."""
    connection = H2Connection(H2Configuration(client_side=True))
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connection.initiate_connection()
    writer.write(connection.data_to_send())
    while data := await reader.read(65_536):
        connection.receive_data(data)
        writer.write(connection.data_to_send())
    writer.close()
