"""The socket: its frames, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Any

from channels.consumer import AsyncConsumer

from mcp_django.access import challenges, https
from mcp_django.bridge.sites import MCPSite, site
from mcp_django.conf import get_conf
from mcp_django.core.compat.servers import end_handshake
from mcp_django.core.types import Message, Receive, Scope, Send
from mcp_django.exceptions import MCPError
from mcp_django.exchange.requests import without_credentials
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import Paused, Unauthenticated
from mcp_django.transports.lasting.frames import FrameWire
from mcp_django.transports.lasting.lasting import Ended, Ending, LastingConnection
from mcp_django.transports.pacing import hold_refusal
from mcp_django.transports.websocket import handshake

#: RFC 6455 §7.4.1 and the registry of its codes.
_CODES = {
    Ending.IDLE: 1000,
    Ending.GOING_AWAY: 1001,
    Ending.PAUSED: 1013,
    Ending.UNSUPPORTED_DATA: 1003,
    Ending.POLICY: 1008,
    Ending.FAULTS: 1008,
    Ending.TOO_LONG: 1009,
    Ending.CRASHED: 1011,
    Ending.NOT_READ: 1013,
}
#: Added where the server allows only the codes 1000 and 3000 to 4999, as Daphne does: 4001 stands for 1001.
_PRIVATE = 3000
#: How long a socket that ends waits for its last frame to be taken.
_CLOSE_SECONDS = 1.0
#: How long the reason of a close may be (RFC 6455 §5.5).
_REASON_BYTES = 123


class MCPConsumer(LastingConnection, AsyncConsumer):  # type: ignore[misc]
    """A socket, without a channel of its own.

    Channels' own consumer would open a channel of the layer for each socket, and handle one message at a time.
    """

    transport = "websocket"

    def __init__(self, site: MCPSite = site) -> None:
        super().__init__(site)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope = without_credentials(scope)
        self.wire = FrameWire(send)
        self._receive = receive
        await receive()  # websocket.connect
        request = handshake.request_of(scope).restrict(self.site)
        redirect = https.redirect_of(request)
        if redirect is not None:
            await self._deny(handshake.redirection(scope, redirect["Location"]), send)
            return
        refused = await self.admit(request)
        if refused is not None:
            await self._refuse(refused, send)
            return
        await self.serve()

    def check(self) -> None:
        self._subprotocol = handshake.subprotocol_of(self.scope)

    async def begin(self) -> None:
        await self.wire.send({"type": "websocket.accept", "subprotocol": self._subprotocol})

    async def _refuse(self, error: MCPError, send: Send) -> None:
        if isinstance(error, Unauthenticated):
            error.challenge = challenges.complete(error.challenge, self.site, self.request)
        # A known caller may wait a little too, though it is not part of a crowd.
        await hold_refusal()
        await self._deny(handshake.denial(self.scope, error), send)

    async def _deny(self, messages: list[dict[str, Any]], send: Send) -> None:
        for message in messages:
            await self.wire.send(message)
        end_handshake(send)

    # Frames.

    async def receive(self) -> Message | None:
        while True:
            received = await self._receive()
            if received["type"] == "websocket.disconnect":
                return None
            if received["type"] == "websocket.receive":
                return received

    async def decode(self, frame: Message) -> Any:
        text = frame.get("text")
        if text is None:
            raise Ended(Ending.UNSUPPORTED_DATA)
        if len(text) > get_conf().MAX_BODY_BYTES or len(text.encode()) > get_conf().MAX_BODY_BYTES:
            raise Ended(Ending.TOO_LONG)
        return jsonrpc.decode(text)

    async def finish(self, ending: Ending) -> None:
        """Close the socket. If its client does not read, drop the connection."""
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._send_close(_CODES[ending], _reason(self.connection.paused))
        except TimeoutError:
            self.wire.abort()

    async def _send_close(self, code: int, said: Mapping[str, str]) -> None:
        try:
            await self.wire.send({"type": "websocket.close", "code": code, **said})
        except Exception:  # noqa: BLE001 - each server has its own
            with contextlib.suppress(Exception):  # The client is gone.
                await self.wire.send({"type": "websocket.close", "code": _PRIVATE + code, **said})


def _reason(paused: Paused | None) -> Mapping[str, str]:
    """What the last frame says of a pause, cut to what it may hold."""
    return {} if paused is None else {"reason": paused.said.encode()[:_REASON_BYTES].decode(errors="ignore")}
