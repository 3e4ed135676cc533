"""The one client of a process, on two pipes: what its lines are, and how it ends."""

from __future__ import annotations

import asyncio

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.exceptions import MCPError
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import from_settings
from mcp_django.protocol import jsonrpc
from mcp_django.protocol.errors import LimitExceeded, Paused
from mcp_django.protocol.revisions import LEGACY
from mcp_django.push.hub import get_hub
from mcp_django.transports.asgi_servers.shutdown import close_hub_at_shutdown
from mcp_django.transports.lasting.duplex import DuplexConnection
from mcp_django.transports.stdio.pipes import Lines, PipeReader, PipeWriter

#: Clients kill a server that has not ended two seconds after its input has.
_DRAIN_SECONDS = 1.0
_CLOSE_SECONDS = 0.5
#: The TypeScript client gives up a server that writes a line of 10 MiB.
_MAX_LINE_BYTES = 9_000_000


class StdioServer:
    """Answers the lines of ``stdin`` on ``stdout``, descriptors that are its own from then on."""

    is_counted = False
    #: No stored session ends it.
    session_key = None
    transport = "stdio"

    def __init__(self, site: MCPSite, principal: Principal, stdin: int, stdout: int) -> None:
        self.site = site
        self.principal = principal
        self.request = from_settings().for_principal(principal).restrict(site)
        #: Whether it ended because the credentials of its principal no longer hold.
        self.refused = False
        self._reader = PipeReader(stdin)
        self._writer = PipeWriter(stdout, lambda: self.close(going_away=True))
        self._lines = Lines(get_conf().MAX_BODY_BYTES)
        self._ending = asyncio.Event()
        self._connection = DuplexConnection(
            site,
            principal,
            self.request,
            self._write,
            self.close,
            transport="stdio",
            crash=lambda: self.close(going_away=True),
            message_limit=_MAX_LINE_BYTES,
        )

    async def serve(self) -> None:
        """Serve until the input ends, or until ``close``."""
        hub = get_hub()
        close_hub_at_shutdown(hub)
        hub.join(self)
        reading = asyncio.ensure_future(self._read())
        ending = asyncio.ensure_future(self._ending.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done():
                reading.result()
                await self._connection.drain(_DRAIN_SECONDS)
            else:
                await self._connection.finish()
        finally:
            reading.cancel()
            ending.cancel()
            hub.leave(self)
            self._connection.leave()
            await self._writer.close(_CLOSE_SECONDS)

    def close(self, *, going_away: bool = False) -> None:
        """End the connection, after its listens are completed."""
        self.refused = self.refused or not going_away
        self._ending.set()

    def pause(self, paused: Paused) -> None:
        """Go on: hardly any client starts the process again by itself. Its requests are refused meanwhile."""

    async def _read(self) -> None:
        async for chunk in self._reader:
            for line in self._lines.feed(chunk):
                await self._take(line)
        for line in self._lines.end():
            await self._take(line)

    async def _take(self, line: bytes | None) -> None:
        """Take in one line. A line that is no message is answered with an error."""
        error: MCPError
        request_id: jsonrpc.RequestId | None = None
        try:
            if line is None:
                raise LimitExceeded(f"A line may be at most {get_conf().MAX_BODY_BYTES} bytes long (MAX_BODY_BYTES).")
            await self._connection.take(jsonrpc.decode(line))
            return
        except jsonrpc.Malformed as malformed:
            error, request_id = malformed.error, malformed.request_id
        except MCPError as refused:
            error = refused
        await self._write(jsonrpc.encode(jsonrpc.error_message(request_id, error, LEGACY)))

    async def _write(self, body: bytes) -> None:
        await self._writer.write(body + b"\n")
