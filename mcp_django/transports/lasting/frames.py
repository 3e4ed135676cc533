"""Writing the frames of a lasting connection, one at a time, and those of its listeners in the hub's turns."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from mcp_django.push.hub import get_hub
from mcp_django.push.listeners import Listener
from mcp_django.transports.asgi_servers.wire import Wire

if TYPE_CHECKING:
    from mcp_django.transports.lasting.duplex import DuplexConnection


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


class ListenerWriter:
    """Writes the notifications of one listener of a connection, after an ``acknowledgement``.

    If the server ends the listener, its ``completion`` follows.
    """

    __slots__ = (
        "_acknowledgement",
        "_completion",
        "_connection",
        "_delivery",
        "_end",
        "_hub",
        "_is_left",
        "_is_over",
        "_task",
        "_write",
        "listener",
    )

    def __init__(
        self,
        connection: DuplexConnection,
        listener: Listener,
        acknowledgement: bytes = b"",
        completion: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.listener = listener
        self._connection = connection
        self._hub = get_hub()
        # A change may go to thousands of writers, so each keeps at hand what it needs then.
        self._delivery = self._hub.delivery
        self._write = connection.write
        self._acknowledgement = acknowledgement
        self._completion = completion
        #: The task that writes now.
        self._task: asyncio.Task[Any] | None = None
        self._is_left = self._is_over = False
        self._end: asyncio.Future[None] | None = None
        connection.writers.add(self)
        listener.write_to(self)
        if acknowledgement:
            self.wake()

    def wake(self) -> None:
        if self._task is None:
            self._delivery.add(self)

    async def flush(self, task: asyncio.Task[Any]) -> None:
        """Write the pending messages, and those that come meanwhile. ``task`` is the running one."""
        if self._task is not None or self._is_over:
            return
        self._task = task
        listener, write = self.listener, self._write
        try:
            if self._acknowledgement:
                acknowledgement, self._acknowledgement = self._acknowledgement, b""
                if not listener.abandoned:
                    await write(acknowledgement)
            while pending := listener.take():
                for body in pending:
                    if listener.abandoned:
                        break
                    await write(body)
            if listener.closed:
                await self._finish()
        except asyncio.CancelledError:
            # ``leave`` cancelled this write, since the connection is gone: the task goes on with other writers.
            if not self._is_left or self._task is None or self._task.uncancel():
                raise
        except Exception as error:  # noqa: BLE001 - the connection logs it
            self._give_up()
            self._connection.crash(error)
        finally:
            self._task = None

    async def _finish(self) -> None:
        self._hub.remove(self.listener)
        if self._completion is not None:
            await self._completion()
        self._over()

    def close(self) -> asyncio.Future[None]:
        """End the listener; done when all of its notifications are written."""
        self._end = self._end or asyncio.get_running_loop().create_future()
        self.listener.close()
        return self._end

    def leave(self) -> None:
        """The connection is gone."""
        self._is_left = True
        if self._task is not None:
            self._task.cancel()
        self._give_up()

    def _give_up(self) -> None:
        self.listener.abandon()
        self._hub.remove(self.listener)
        self._over()

    def _over(self) -> None:
        self._is_over = True
        self._connection.writers.discard(self)
        if self._end is not None and not self._end.done():
            self._end.set_result(None)


async def close_writers(
    writers: Iterable[ListenerWriter], seconds: float, tasks: Iterable[asyncio.Future[None]] = ()
) -> None:
    """Close the writers, and wait no longer than ``seconds`` until they and the tasks have come to their end."""
    ends = {writer.close() for writer in list(writers)}.union(tasks)
    if ends:
        await asyncio.wait(ends, timeout=seconds)
