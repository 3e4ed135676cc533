"""Writing to a lasting connection for one of its listeners, in the turns that the hub's delivery gives it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any

from mcp_django.push.hub import get_hub
from mcp_django.push.listeners import Listener

if TYPE_CHECKING:
    from mcp_django.transports.lasting.duplex import DuplexConnection


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
