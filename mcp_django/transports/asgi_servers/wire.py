"""What lies below an ASGI ``send``: how much the client has not taken yet, and how to end the connection anyway.

ASGI says nothing of a client that stops reading. uvicorn and hypercorn let ``send`` wait, Daphne keeps everything in
memory, and all of them hold a connection that is closed until its client has read the last byte. So the transport is
looked up where the server is one that we know; elsewhere, as in granian, ``send`` waits and there is nothing to see.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import Awaitable, Callable
from typing import Any

from mcp_django.conf import get_conf
from mcp_django.core.compat.servers import bears_end_by_system, is_twisted, transport_below, unsent_by_twisted

Send = Callable[[Any], Awaitable[None]]

#: Where in its scope a request that Django answers finds the server's ``send``, which Django keeps to itself.
SEND = "mcp_django.send"
#: Whether a scope holds the place of a call, so that the view takes none.
HELD = "mcp_django.held"

#: Bytes that may wait in a transport before its writer waits too: what asyncio's own transports have.
_HIGH_WATER_BYTES = 65_536
#: How often a transport that tells nobody when it is empty is asked.
_ASK_SECONDS = 0.02


class Wire:
    """One connection, as its writer sees it. Without a ``send``, the server writes."""

    __slots__ = ("_is_twisted", "_paused", "_send", "_transport", "_wrote_at", "writing_since")

    def __init__(self, send: Send | None) -> None:
        self._send = send
        self._transport = transport_below(send)
        self._is_twisted = is_twisted(self._transport)
        self._paused = False
        self._wrote_at = time.monotonic()
        #: When the write began that is not completed yet, or 0.
        self.writing_since = 0.0
        # hypercorn would take such an end for a defect of its own, and log it.
        if self._is_twisted or bears_end_by_system(send):
            _let_the_system_give_up(self._transport)

    async def send(self, message: Any) -> None:
        """Send, and wait while the client has too much to read. One at a time."""
        if self._send is None:
            raise TypeError("somebody else writes to this connection")
        self.begin()
        try:
            await self._send(message)
            if self._is_twisted:
                await self.taken()
        finally:
            self.end()

    def begin(self) -> None:
        """A write begins."""
        self.writing_since = time.monotonic()

    def end(self) -> None:
        """The write is over."""
        self._wrote_at = time.monotonic()
        self.writing_since = 0.0

    async def taken(self) -> None:
        """Wait until the client has taken most of what was sent, where the server's ``send`` does not."""
        while self._is_twisted and self.unsent > _HIGH_WATER_BYTES:  # noqa: ASYNC110 - nobody sets an event
            await asyncio.sleep(_ASK_SECONDS)

    @property
    def unsent(self) -> int:
        """The bytes that wait in this process; 0 where that cannot be seen."""
        transport = self._transport
        if transport is None:
            return 0
        if not self._is_twisted:
            return int(transport.get_write_buffer_size())
        return unsent_by_twisted(transport)

    def is_stalled(self, now: float) -> bool:
        """Whether the client has not taken for WRITE_SECONDS what was written."""
        seconds = get_conf().WRITE_SECONDS
        if not seconds:
            return False
        if self.writing_since:
            return now - self.writing_since > seconds
        return now - self._wrote_at > seconds and self.unsent > 0

    def abort(self) -> bool:
        """End the connection without waiting for its client; the server tells the application. False if it cannot."""
        if self._transport is None:
            return False
        if self._is_twisted:
            self._transport.abortConnection()
        else:
            self._transport.abort()
        return True

    # Daphne reads on whether the application takes what came or not; the others stop by themselves.

    def pause_reading(self) -> None:
        """Take nothing in from the network until ``resume_reading``."""
        if self._is_twisted and not self._paused:
            self._paused = True
            self._transport.pauseProducing()

    def resume_reading(self) -> None:
        if self._paused:
            self._paused = False
            if not getattr(self._transport, "disconnected", False):
                self._transport.resumeProducing()


def _let_the_system_give_up(transport: Any) -> None:
    """Let the system end a connection whose other end takes nothing for WRITE_SECONDS, or is not there any more."""
    option, seconds = getattr(socket, "TCP_USER_TIMEOUT", None), get_conf().WRITE_SECONDS
    if transport is None or option is None or not seconds:
        return
    with contextlib.suppress(OSError, AttributeError):  # No TCP: a proxy on a Unix socket.
        extra = getattr(transport, "get_extra_info", None)
        below = extra("socket") if extra is not None else transport.getHandle()
        below.setsockopt(socket.IPPROTO_TCP, option, int(seconds * 1000))
