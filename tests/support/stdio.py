"""Clients over stdio: the server of the command, on pipes within the test's own process."""

from __future__ import annotations

import asyncio
import os
import select

from mcp_django import MCPSite
from mcp_django.exchange.principals import Principal, Source
from mcp_django.models import AccessToken, digest
from mcp_django.transports.stdio.pipes import PipeReader
from mcp_django.transports.stdio.server import StdioServer
from tests.support.duplex import Connection, DuplexPeer
from tests.support.loop import LoopThread


class StdioPeer(DuplexPeer):
    """A client over stdio, whose user and scopes are those of the token: stdio itself has no credentials."""

    def __init__(self, token: str | None, site: MCPSite, loop: LoopThread) -> None:
        super().__init__(token, loop)
        assert token is not None, "stdio serves a named user"
        found = AccessToken.objects.get(hash=digest(token))
        self.principal = Principal(found.user, frozenset(found.scopes), source=Source.COMMAND)
        self.site = site

    def connect(self, *, reads: bool = True) -> Pipes:
        """A new process, before any message. Its output is read, unless the client must be deaf."""
        pipes = self.connections[f"extra {len(self.connections)}"] = Pipes(self.loop, self.site, self.principal, reads)
        return pipes

    def _connect(self) -> Pipes:
        return Pipes(self.loop, self.site, self.principal, True)


class Pipes(Connection):
    """One process, as its client sees it."""

    def __init__(self, loop: LoopThread, site: MCPSite, principal: Principal, reads: bool) -> None:
        super().__init__(loop)
        loop.run(self._open(site, principal, reads))

    async def _open(self, site: MCPSite, principal: Principal, reads: bool) -> None:
        stdin, self._stdin = os.pipe()
        output, stdout = os.pipe()
        self._output = None if reads else output
        self.server = StdioServer(site, principal, stdin, stdout)
        self._serving = asyncio.ensure_future(self.server.serve())
        self._reading = asyncio.ensure_future(self._read(output) if reads else asyncio.sleep(0))

    async def _read(self, stdout: int) -> None:
        begun = b""
        async for chunk in PipeReader(stdout):
            *lines, begun = (begun + chunk).split(b"\n")
            for line in lines:
                await self.sort(line)
        assert begun == b"", "the output ends within a line"

    def send_text(self, text: str) -> None:
        self.send_bytes(text.encode() + b"\n")

    def send_bytes(self, data: bytes) -> None:
        """Send bytes that need not end with a line."""
        while data:
            data = data[os.write(self._stdin, data) :]

    def send_until_full(self, line: bytes, seconds: float = 0.5) -> None:
        """Send a line again and again, until the server has taken none for a while."""
        while select.select([], [self._stdin], [], seconds)[1]:
            self.send_bytes(line)

    def wait_ended(self, seconds: float = 60) -> None:
        """Wait until the server has ended, and all that it wrote is read."""

        async def both() -> None:
            await asyncio.wait_for(asyncio.gather(self._serving, self._reading), seconds)

        self.loop.run(both(), seconds + 5)

    def end_input(self) -> None:
        if self._stdin >= 0:
            os.close(self._stdin)
        self._stdin = -1

    def end_output(self) -> None:
        """Stop reading, like a client that has died."""
        if self._output is not None:
            os.close(self._output)
        self._output = None

    def assert_shut_out(self, seconds: float = 60) -> None:
        self.wait_ended(seconds)
        assert self.server.refused

    def close(self) -> None:
        self.end_input()
        self.end_output()
        self.wait_ended()
