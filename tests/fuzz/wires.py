"""The optional wires under test, by clients that put anything into the bytes of a message."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import grpc

from mcp_django import site
from mcp_django.protocol import jsonrpc, protobuf
from mcp_django.protocol.errors import ParseError
from mcp_django.transports.grpc.server import SERVICE, GRPCServer
from tests.fuzz.limits import LIMITS
from tests.fuzz.reading import Sent, read
from tests.support.base import Message
from tests.support.loop import LoopThread

#: The codes that end a session, in place of the close codes of a socket.
_TOO_BIG: int = grpc.StatusCode.RESOURCE_EXHAUSTED.value[0]


def packed(frame: str | bytes) -> bytes:
    """The message in Protobuf where the frame is JSON, or the bytes that it is."""
    if isinstance(frame, bytes):
        return frame
    try:
        return protobuf.encode(jsonrpc.encode(jsonrpc.decode(frame)))
    except ParseError:
        return frame.encode("utf-8", "surrogatepass")


def unpacked(body: bytes) -> bytes | None:
    """The JSON that bytes of Protobuf stand for; None where they stand for none."""
    try:
        return jsonrpc.encode(protobuf.decode(body))
    except ParseError:
        return None


class GRPCService:
    """A server of gRPC, with one connection to it."""

    def __init__(self, loop: LoopThread) -> None:
        self._loop = loop
        loop.run(self._start())

    async def _start(self) -> None:
        self._server = GRPCServer(site, "127.0.0.1:0")
        await self._server.start()
        self._channel = grpc.aio.insecure_channel(f"127.0.0.1:{self._server.port}")

    def connect(self, token: str | None) -> Messages:
        return Messages(self._channel, token, self._loop)

    def close(self) -> None:
        self._loop.run(self._stop())

    async def _stop(self) -> None:
        await self._channel.close()
        await self._server.stop()


class Messages:
    """A session over gRPC under test: bytes of any kind in, every message out kept."""

    def __init__(self, channel: Any, token: str | None, loop: LoopThread) -> None:
        self._loop = loop
        self._said: asyncio.Queue[Message] = asyncio.Queue()
        loop.run(self._open(channel, token))

    async def _open(self, channel: Any, token: str | None) -> None:
        metadata = [] if token is None else [("authorization", f"Bearer {token}")]
        # Without serializers, so that a message is whatever bytes are put into it.
        self._call = channel.stream_stream(f"/{SERVICE}/Session")(metadata=metadata)
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        with suppress(grpc.aio.AioRpcError):
            async for body in self._call:
                self._said.put_nowait({"text": jsonrpc.encode(protobuf.decode(body)).decode()})
        self._said.put_nowait({"code": (await self._call.code()).value[0]})

    def put(self, *frames: str | bytes) -> None:
        self._loop.run(self._put(frames))

    async def _put(self, frames: tuple[str | bytes, ...]) -> None:
        with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):  # The server has ended the session.
            for frame in frames:
                await self._call.write(packed(frame))

    def next(self, seconds: float = 60) -> Message:
        return self._loop.run(asyncio.wait_for(self._said.get(), seconds), seconds + 5)

    def read(self, frame: str | bytes) -> Sent | int | None:
        """What a message says, or the code that it earns."""
        body = packed(frame)
        if len(body) > LIMITS["MAX_BODY_BYTES"]:
            return _TOO_BIG
        text = unpacked(body)
        return Sent("no json") if text is None else read(text)

    def leave(self) -> None:
        """The client is gone."""
        self._loop.run(self._leave())

    async def _leave(self) -> None:
        self._call.cancel()
        with suppress(asyncio.CancelledError):
            await self._reading
