"""The socket: its frames, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from functools import partial

from channels.consumer import AsyncConsumer

from mcp_django.access import challenges
from mcp_django.compat.servers import end_handshake
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InternalError, Unauthenticated
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import get_hub
from mcp_django.server import trail
from mcp_django.sites import MCPSite, site
from mcp_django.transports.duplex import DuplexConnection
from mcp_django.transports.pacing import hold_refusal
from mcp_django.transports.servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.servers.watchdog import get_watchdog
from mcp_django.transports.websocket import admission
from mcp_django.transports.websocket.frames import FrameWire
from mcp_django.types import Message, Receive, Scope, Send

logger = logging.getLogger("mcp_django")

# RFC 6455 §7.4.1 and the registry of its codes.
_NORMAL, _GOING_AWAY, _UNSUPPORTED_DATA, _POLICY, _TOO_BIG = 1000, 1001, 1003, 1008, 1009
_INTERNAL_ERROR, _TRY_AGAIN_LATER = 1011, 1013
#: Where the server lets an application say nothing but 1000 and 3000 to 4999, as Daphne does: 4001 stands for 1001.
_PRIVATE = 3000
_MAX_FAULTS = 10
#: How long a socket that ends waits for its last frame to be taken.
_CLOSE_SECONDS = 1.0


class MCPConsumer(AsyncConsumer):  # type: ignore[misc]
    """A socket: one reader, one task a message, one writer at a time, and no channel of its own.

    Channels' own consumer would open a channel of the layer for each socket, and handle one message at a time.
    """

    is_counted = False
    #: Its session is its own.
    session_key = None
    transport = "websocket"

    def __init__(self, site: MCPSite = site) -> None:
        self.site = site

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self._wire = FrameWire(send)
        self._faults = 0
        #: The code with which it ends, once that is known.
        self._code: int | None = None
        self._task = asyncio.current_task()
        self._is_receiving = False
        self._has_spoken = False
        #: Whether its client does not read, on a server that offers no way to drop it.
        self._is_given_up = False
        await receive()  # websocket.connect
        self.request = admission.request_of(scope)
        try:
            self.principal = await admission.admit(self.request)
            subprotocol = admission.subprotocol_of(scope)
            admission.check_number(self.principal)
        except MCPError as error:
            await self._deny(error, send)
            return
        except Exception:
            logger.exception("A socket could not be opened")
            await self._deny(InternalError(), send)
            return
        # Admission has read parts of the request that are not needed again.
        self.request = self.request.copy()
        admission.enter(self.principal)
        try:
            await self._wire.send({"type": "websocket.accept", "subprotocol": subprotocol})
            await self._serve(receive)
        finally:
            admission.leave(self.principal)

    async def _deny(self, error: MCPError, send: Send) -> None:
        trail.refuse(self.site, self.request, getattr(self, "principal", None), error, "websocket")
        if isinstance(error, Unauthenticated):
            error.challenge = challenges.complete(error.challenge, self.site, self.request)
        # A known caller may wait a little too: it was refused for something else than a crowd.
        await hold_refusal()
        for message in admission.denial(self.scope, error):
            await self._wire.send(message)
        end_handshake(send)

    async def _serve(self, receive: Receive) -> None:
        hub = get_hub()
        close_hub_at_shutdown(hub)
        self._connection = DuplexConnection(
            self.site,
            self.principal,
            self.request,
            self._wire.write,
            self.close,
            transport="websocket",
            crash=partial(self._end, _INTERNAL_ERROR),
        )
        self._received_at = time.monotonic()
        watchdog = get_watchdog()
        watchdog.add(self)
        hub.join(self)
        try:
            code = await self._read(receive)
            if code is not None:
                await self._finish(code)
        finally:
            watchdog.discard(self)
            hub.leave(self)
            self._connection.leave()

    def close(self, *, going_away: bool = False) -> None:
        """End the socket, after its listens are completed."""
        self._end(_GOING_AWAY if going_away else _POLICY)

    def _end(self, code: int) -> None:
        """Let the reader end the socket: at once if it waits for a frame, otherwise after the present one."""
        if self._code is None:
            self._code = code
            if self._is_receiving and self._task is not None:
                self._task.cancel()

    def look(self, now: float) -> None:
        """End the socket if its client does not read, or has nothing to do with it any more."""
        if self._wire.is_stalled(now):
            if not self._wire.abort() and not self._is_given_up and self._task is not None:
                self._is_given_up = True
                self._code = self._code or _TRY_AGAIN_LATER
                self._task.cancel()
            return
        conf = get_conf()
        if self._connection.is_busy:
            self._received_at = now
        elif not self._has_spoken and conf.REQUEST_SECONDS and now - self._received_at > conf.REQUEST_SECONDS:
            self._end(_POLICY)
        elif conf.SOCKET_IDLE_SECONDS and now - self._received_at > conf.SOCKET_IDLE_SECONDS:
            self._end(_NORMAL)

    # Frames.

    async def _read(self, receive: Receive) -> int | None:
        """Take frames in until the socket ends; the close code, unless it was the client that ended it."""
        try:
            while self._code is None:
                self._wire.resume_reading()
                self._is_receiving = True
                try:
                    received = await receive()
                finally:
                    self._is_receiving = False
                    self._wire.pause_reading()
                if received["type"] == "websocket.disconnect":
                    return None
                if received["type"] == "websocket.receive":
                    self._has_spoken = True
                    self._received_at = time.monotonic()
                    self._code = await self._take(received) or self._code
                    # A client that sends without a pause holds up no other, and quick requests are answered meanwhile.
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            # Ours, unless the server has its own reason to end this task.
            if self._code is None or self._task is None or self._task.uncancel():
                raise
        except Exception:
            logger.exception("A socket ends, since a frame could not be taken in")
            return _INTERNAL_ERROR
        return self._code

    async def _take(self, received: Message) -> int | None:
        """Take one frame in; the close code, if the socket is to end."""
        text = received.get("text")
        if text is None:
            return _UNSUPPORTED_DATA
        if len(text) > get_conf().MAX_BODY_BYTES or len(text.encode()) > get_conf().MAX_BODY_BYTES:
            return _TOO_BIG
        try:
            value = jsonrpc.decode(text)
            await self._connection.take(value)
        except jsonrpc.Malformed as malformed:
            return await self._fault(malformed.error, malformed.request_id)
        except MCPError as error:
            return await self._fault(error, None)
        self._faults = 0
        return None

    async def _fault(self, error: MCPError, request_id: jsonrpc.RequestId | None) -> int | None:
        """Answer a malformed frame with its error; a client that sends nothing else is shown out."""
        await self._wire.write(jsonrpc.encode(jsonrpc.error_message(request_id, error, LEGACY)))
        self._faults += 1
        return _POLICY if self._faults >= _MAX_FAULTS else None

    async def _finish(self, code: int) -> None:
        """Complete the listens, then close the socket. If its client does not read, drop the connection."""
        self._wire.resume_reading()
        if not self._is_given_up:
            await self._connection.finish()
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._send_close(code)
        except TimeoutError:
            self._wire.abort()

    async def _send_close(self, code: int) -> None:
        try:
            await self._wire.send({"type": "websocket.close", "code": code})
        except Exception:  # noqa: BLE001 - each server has its own
            with contextlib.suppress(Exception):  # The client is gone.
                await self._wire.send({"type": "websocket.close", "code": _PRIVATE + code})
