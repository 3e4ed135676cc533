"""Clients over gRPC, of a server on a port of loopback."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc

from mcp_django import MCPSite
from mcp_django.protocol import jsonrpc, mcp_pb2_grpc, protobuf
from mcp_django.protocol import mcp_pb2 as pb
from mcp_django.transports.grpc.server import GRPCServer
from tests.support.duplex import Connection, DuplexPeer
from tests.support.loop import LoopThread


class GRPCPeer(DuplexPeer):
    """A client over gRPC, and its server."""

    def __init__(self, token: str | None, site: MCPSite, loop: LoopThread) -> None:
        super().__init__(token, loop)
        loop.run(self._start(site))

    async def _start(self, site: MCPSite) -> None:
        self.server = GRPCServer(site, "127.0.0.1:0")
        await self.server.start()
        own = [("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{self.server.port}", options=own)
        self.stub = mcp_pb2_grpc.MCPStub(self.channel)

    @property
    def metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self.token}"),) if self.token else ()

    def connect(self, metadata: Any = None) -> Stream:
        """A new session, before any message; it may have been refused."""
        stream = Stream(self.loop, self.stub, self.metadata if metadata is None else metadata)
        self.connections[f"extra {len(self.connections)}"] = stream
        return stream

    def _connect(self) -> Stream:
        return Stream(self.loop, self.stub, self.metadata)

    def ask_alone(self, message: Any, **more: Any) -> Any:
        """The answer to one request without a session. Raises grpc.aio.AioRpcError."""
        return self.loop.run(self._call(protobuf.message_of(message), more))

    async def _call(self, message: pb.Message, more: Any) -> Any:
        return protobuf.value_of(await self.stub.Call(message, **{"metadata": self.metadata, "timeout": 30, **more}))

    def close(self) -> None:
        super().close()
        self.loop.run(self._stop())

    async def _stop(self) -> None:
        await self.channel.close()
        await self.server.stop()


class Stream(Connection):
    """One session."""

    def __init__(self, loop: LoopThread, stub: Any, metadata: Any) -> None:
        super().__init__(loop)
        loop.run(self._open(stub, metadata))

    async def _open(self, stub: Any, metadata: Any) -> None:
        self.call = stub.Session(metadata=metadata)
        self._reader = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        try:
            async for message in self.call:
                await self.sort(jsonrpc.encode(protobuf.value_of(message)))
        except grpc.aio.AioRpcError:
            return

    def send_text(self, text: str) -> None:
        try:
            message = protobuf.message_of(jsonrpc.decode(text))
        except jsonrpc.ParseError:
            # No message of JSON-RPC: an empty one is none in Protobuf.
            message = pb.Message()
        self.send_message(message)

    def send_message(self, message: pb.Message) -> None:
        self.loop.run(self.call.write(message))

    def half_close(self) -> None:
        """Send nothing more."""
        self.loop.run(self.call.done_writing())

    def status(self, seconds: float = 60) -> tuple[grpc.StatusCode, str]:
        """The status at the end of the session, once the server has ended it."""
        return self.loop.run(self._status(seconds), seconds + 5)

    async def _status(self, seconds: float) -> tuple[grpc.StatusCode, str]:
        await asyncio.wait_for(asyncio.shield(self._reader), seconds)
        return await self.call.code(), await self.call.details()

    def assert_shut_out(self, seconds: float = 60) -> None:
        assert self.status(seconds)[0] is grpc.StatusCode.UNAUTHENTICATED

    def close(self) -> None:
        self.loop.run(self._close())

    async def _close(self) -> None:
        self.call.cancel()
        await asyncio.wait([self._reader])
