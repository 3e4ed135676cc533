"""Writing the frames of a lasting connection, one at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from mcp_django.transports.servers.wire import Wire


class FrameWire(Wire):
    """The wire of one socket. Frames are written in the order in which they are given to ``write``.

    A change may go to thousands of sockets. A lock for each would cost more than all else that is done here.
    """

    __slots__ = ("_is_gone", "_is_taken", "_turns")

    def __init__(self, send: Any) -> None:
        super().__init__(send)
        self._is_gone = False
        #: Whether a frame is being written, and the frames that wait for their turn meanwhile.
        self._is_taken = False
        self._turns: deque[asyncio.Future[None]] | None = None

    def frame(self, body: bytes) -> Any:
        """The frame that carries an encoded message."""
        return {"type": "websocket.send", "text": body.decode()}

    async def write(self, body: bytes) -> None:
        """Write a frame, unless the client is gone: the reader finds that out too, and ends the socket."""
        if self._is_taken:
            await self._turn()
        self._is_taken = True
        try:
            if not self._is_gone:
                await self.send(self.frame(body))
        except Exception:  # noqa: BLE001 - each server has its own
            self._is_gone = True
        finally:
            if self._turns:
                self._pass_on()
            else:
                self._is_taken = False

    async def _turn(self) -> None:
        """Wait until all earlier frames are written."""
        turn = asyncio.get_running_loop().create_future()
        self._turns = deque() if self._turns is None else self._turns
        self._turns.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._pass_on()  # It had its turn already.
            raise

    def _pass_on(self) -> None:
        """Give the turn to the next frame. No frame that comes meanwhile can take it."""
        while self._turns:
            turn = self._turns.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False
