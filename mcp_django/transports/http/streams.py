"""The event streams of the endpoint: the notifications of a listener, a call with its messages, the rest of a call."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import TYPE_CHECKING

from mcp_django.conf import get_conf
from mcp_django.core.running.workers import get_workers
from mcp_django.protocol.errors import InternalError, Overloaded
from mcp_django.protocol.jsonrpc import encode, error_message
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import find_hub, get_hub
from mcp_django.push.listeners import Listener
from mcp_django.push.sessions import streams
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.http.formats import Format
from mcp_django.transports.http.messages import EventStream

if TYPE_CHECKING:
    from mcp_django.protocol.errors import Paused
    from mcp_django.transports.http.endpoint import EndpointView
    from mcp_django.transports.http.streaming import StreamingCall

logger = logging.getLogger("mcp_django")


class ListenerStream(EventStream):
    """The messages for a listener, between an opening and a closing one."""

    def __init__(
        self,
        body_format: Format,
        listener: Listener,
        opening: bytes = b"",
        closing: Callable[[], bytes] | None = None,
    ) -> None:
        self.format = body_format
        self.listener = listener
        self._opening = opening
        self._closing = closing

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        hub = get_hub()
        try:
            if self._opening:
                yield self._opening
            while True:
                try:
                    # Not wait_for: on Python 3.11 it swallows a cancellation that comes together with an event.
                    async with asyncio.timeout(get_conf().KEEPALIVE_SECONDS):
                        pending = await self.listener.next()
                except TimeoutError:
                    yield self.format.keepalive
                    continue
                if pending is None:
                    break
                yield b"".join(map(self.format.event, pending))
            if self._closing is not None:
                yield self._closing()
        finally:
            hub.remove(self.listener)

    def close(self) -> None:
        self.listener.close()

    def abandon(self) -> None:
        hub = find_hub()
        if hub is not None:
            hub.remove(self.listener)


class CallEventStream(EventStream):
    """The messages of a call, and its answer at the end."""

    def __init__(self, body_format: Format, call: StreamingCall) -> None:
        self.format = body_format
        self._call = call

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        events = self._call.events
        try:
            while (ready := events.take()) or not events.is_over:
                if ready:
                    yield ready
                    continue
                try:
                    async with asyncio.timeout(get_conf().KEEPALIVE_SECONDS):
                        await events.ready()
                except TimeoutError:
                    yield self.format.keepalive
        finally:
            self._call.leave()

    def close(self) -> None:
        self._call.close(going_away=True)

    def abandon(self) -> None:
        self._call.leave()


class RestStream(EventStream):
    """The events of a stored stream that follow a given one, until it ends. Any process may write it.

    A member of the hub: it ends with its session and the rights of its principal, with its process, and when its
    client comes back once more. So there are never more of them than calls.
    """

    is_counted = False
    transport = "http"

    def __init__(self, view: EndpointView, session_key: str, key: str, number: int) -> None:
        self.site = view.site
        self.format = view.format
        self.request = request = view.request
        self.principal = request.mcp.principal
        self.session_key = session_key
        self.number = number
        self._key = key
        self._closed = False
        self._woken = asyncio.Event()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        hub, event = get_hub(), self.format.event
        close_hub_at_shutdown(hub)
        woken = self._woken = hub.waiters.begin_reading(self._key, self)
        hub.join(self)
        try:
            while not self._closed:
                woken.clear()
                rest = await self._read()
                if rest is None:
                    return
                if rest.events:
                    self.number = rest.events[-1][0]
                    yield b"".join(
                        event(body.encode(), streams.event_id(self._key, number)) for number, body in rest.events
                    )
                if rest.ended:
                    return
                if rest.lost:
                    yield event(encode(error_message(rest.request_id, InternalError(), LEGACY)))
                    return
                while not woken.is_set():
                    try:
                        async with asyncio.timeout(get_conf().KEEPALIVE_SECONDS):
                            await woken.wait()
                    except TimeoutError:
                        yield self.format.keepalive
        finally:
            hub.leave(self)
            hub.waiters.end_reading(self._key, self, woken)

    async def _read(self) -> streams.Rest | None:
        """The events that are there now; None where the stream is gone. While the database is away there are none."""
        try:
            return await get_workers().run(streams.rest, self._key, self.number)
        except Overloaded:
            pass  # The sweep asks again.
        except Exception:
            logger.exception("The rest of a stream could not be read; trying again")
        return streams.Rest([], ended=False, lost=False, request_id=0)

    def close(self, *, going_away: bool = False) -> None:
        self._closed = True
        self._woken.set()

    def pause(self, paused: Paused) -> None:
        self.close()

    def abandon(self) -> None:
        """Do nothing: a stream holds nothing before it is read."""
