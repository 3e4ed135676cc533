"""A connection that lasts, on any transport that frames messages itself: how its client is let in, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from enum import Enum, auto
from functools import partial
from typing import Any, ClassVar

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import InternalError, Paused
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import get_hub
from mcp_django.server import trail
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.asgi_servers.watchdog import get_watchdog
from mcp_django.transports.lasting import admission
from mcp_django.transports.lasting.duplex import DuplexConnection
from mcp_django.transports.lasting.frames import FrameWire

logger = logging.getLogger("mcp_django")

_MAX_FAULTS = 10
#: How long the answers of a connection that is paused are waited for, where requests have no limit.
_DRAIN_SECONDS = 60.0


class Ending(Enum):
    """Why the server ends a connection. Each transport has a code of its own for it."""

    IDLE = auto()
    GOING_AWAY = auto()
    #: A person has paused the principal.
    PAUSED = auto()
    #: The credentials no longer hold, or the client says nothing at all.
    POLICY = auto()
    #: The client sends nothing but malformed frames.
    FAULTS = auto()
    UNSUPPORTED_DATA = auto()
    TOO_LONG = auto()
    CRASHED = auto()
    NOT_READ = auto()


class Ended(Exception):
    """A frame that ends its connection."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.name)
        self.ending = ending


class LastingConnection(ABC):
    """One client's connection: one reader, one task a message, one writer at a time. A member of the hub."""

    is_counted = False
    #: No stored session ends it.
    session_key = None
    transport: ClassVar[str]

    wire: FrameWire
    request: MCPRequest
    principal: Principal

    def __init__(self, site: MCPSite) -> None:
        self.site = site
        self._faults = 0
        #: Why it ends, once that is known.
        self.ending: Ending | None = None
        self._task: asyncio.Task[Any] | None = None
        self._is_receiving = False
        self._has_spoken = False
        #: Whether its client does not read, on a server that offers no way to drop it.
        self.is_given_up = False

    # For the transport.

    @abstractmethod
    async def receive(self) -> Any:
        """The next frame; None where the client has ended the connection."""

    @abstractmethod
    async def decode(self, frame: Any) -> Any:
        """The JSON value of a frame. Raises MCPError, and Ended where the connection ends instead."""

    @abstractmethod
    async def finish(self, ending: Ending) -> None:
        """End the connection; its listens are completed."""

    @abstractmethod
    async def begin(self) -> None:
        """Tell the client that it is let in."""

    async def left(self) -> None:  # noqa: B027 - mostly, nobody is there any more
        """The client sends nothing more."""

    async def admit(self, request: MCPRequest) -> MCPError | None:
        """Let the client of a request in. Returns the error if it is refused, and records that in the audit trail."""
        self.request = request
        error: MCPError
        try:
            self.principal = await admission.admit(self.site, request)
            self.check()
            admission.check_number(self.principal)
        except MCPError as refused:
            error = refused
        except Exception:
            logger.exception("A connection could not be opened")
            error = InternalError()
        else:
            # Admission has read parts of the request that are not needed again.
            self.request = request.copy()
            return None
        trail.refuse(self.site, request, getattr(self, "principal", None), error, self.transport)
        return error

    def check(self) -> None:  # noqa: B027 - mostly, there is nothing more to check
        """Raises MCPError where the transport refuses a client whose principal is known."""

    async def serve(self) -> None:
        """Serve a client who is let in, until either side ends the connection."""
        admission.enter(self.principal)
        try:
            await self.begin()
            await self._serve()
        finally:
            admission.leave(self.principal)

    async def _serve(self) -> None:
        self._task = asyncio.current_task()
        hub = get_hub()
        close_hub_at_shutdown(hub)
        self.connection = DuplexConnection(
            self.site,
            self.principal,
            self.request,
            self.wire.write,
            self.close,
            transport=self.transport,
            crash=partial(self._end, Ending.CRASHED),
        )
        self._received_at = time.monotonic()
        watchdog = get_watchdog()
        watchdog.add(self)
        hub.join(self)
        try:
            ending = await self._read()
            if ending is None:
                await self.left()
            else:
                await self._finish(ending)
        finally:
            watchdog.discard(self)
            hub.leave(self)
            self.connection.leave()

    # Its end.

    def close(self, *, going_away: bool = False) -> None:
        """End the connection, after its listens are completed."""
        self._end(Ending.GOING_AWAY if going_away else Ending.POLICY)

    def pause(self, paused: Paused) -> None:
        if self.connection.pause(paused):
            self._end(Ending.PAUSED)

    def _end(self, ending: Ending) -> None:
        """Let the reader end it: at once if it waits for a frame, otherwise after the present one."""
        if self.ending is None:
            self.ending = ending
            if self._is_receiving and self._task is not None:
                self._task.cancel()

    def look(self, now: float) -> None:
        """End the connection if its client does not read, or has nothing to do with it any more."""
        if self.wire.is_stalled(now):
            if not self.wire.abort() and not self.is_given_up and self._task is not None:
                self.is_given_up = True
                self.ending = self.ending or Ending.NOT_READ
                self._task.cancel()
            return
        conf = get_conf()
        if self.connection.is_busy:
            self._received_at = now
        elif not self._has_spoken and conf.REQUEST_SECONDS and now - self._received_at > conf.REQUEST_SECONDS:
            self._end(Ending.POLICY)
        elif conf.SOCKET_IDLE_SECONDS and now - self._received_at > conf.SOCKET_IDLE_SECONDS:
            self._end(Ending.IDLE)

    async def _finish(self, ending: Ending) -> None:
        """Complete the listens, then end the connection."""
        self.wire.resume_reading()
        if ending is Ending.PAUSED:
            # What only reads may finish, and what was stopped says what it has done.
            await self.connection.drain(get_conf().REQUEST_SECONDS or _DRAIN_SECONDS)
        elif not self.is_given_up:
            await self.connection.finish()
        await self.finish(ending)

    # Frames.

    async def _read(self) -> Ending | None:
        """Take frames in until the connection ends. Returns why, or None if the client ended it."""
        try:
            while self.ending is None:
                self.wire.resume_reading()
                self._is_receiving = True
                try:
                    frame = await self.receive()
                finally:
                    self._is_receiving = False
                    self.wire.pause_reading()
                if frame is None:
                    return None
                self._has_spoken = True
                self._received_at = time.monotonic()
                self.ending = await self._take(frame) or self.ending
                # A client that sends without a pause holds up no other, and quick requests are answered meanwhile.
                await asyncio.sleep(0)
        except asyncio.CancelledError:
            # We cancelled this task, unless the server has its own reason to end it.
            if self.ending is None or self._task is None or self._task.uncancel():
                raise
        except Exception:
            logger.exception("A connection ends, since a frame could not be taken in")
            return Ending.CRASHED
        return self.ending

    async def _take(self, frame: Any) -> Ending | None:
        """Take one frame in. Returns why the connection must end, or None."""
        try:
            await self.connection.take(await self.decode(frame))
        except Ended as ended:
            return ended.ending
        except jsonrpc.Malformed as malformed:
            return await self._fault(malformed.error, malformed.request_id)
        except MCPError as error:
            return await self._fault(error, None)
        self._faults = 0
        return None

    async def _fault(self, error: MCPError, request_id: jsonrpc.RequestId | None) -> Ending | None:
        """Answer a malformed frame with its error. Ten in a row end the connection."""
        await self.wire.write(jsonrpc.encode(jsonrpc.error_message(request_id, error, LEGACY)))
        self._faults += 1
        return Ending.FAULTS if self._faults >= _MAX_FAULTS else None
