"""One request in flight: what it offers its handler on every transport, and the exchange that it becomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_django.access.throttling.budgets import budget_of
from mcp_django.access.user_permissions import are_at_hand
from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.exchange.cancellation import Cancellation
from mcp_django.exchange.connection import Connection, LegacySession
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal
from mcp_django.exchange.requests import MCPRequest
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import RequestCancelled
from mcp_django.protocol.jsonrpc import Request
from mcp_django.protocol.types import JSON
from mcp_django.push.listeners import Listener
from mcp_django.server.methods import QUICK_METHODS
from mcp_django.server.tools import overrides_on_loop
from mcp_django.transports.attachment import Attachment
from mcp_django.transports.message_buffer import MessageBuffer


@dataclass(frozen=True, slots=True)
class Opening:
    """How a message is to be read: in which revision, of which client, and in which legacy session."""

    revision: str
    client: Client = field(default_factory=Client)
    session: LegacySession | None = None


@dataclass(eq=False, kw_only=True)
class InFlight(Connection):
    """A request that is being answered. Its transport completes the ``Connection`` that the handler sees."""

    cancellation: Cancellation = field(default_factory=Cancellation)
    buffer: MessageBuffer = field(default_factory=MessageBuffer)
    #: Set for a call of a tool that begins on the loop.
    _tool_overrides: Mapping[str, Any] | None = None
    #: The loop on which the hub is, where there is one.
    loop: asyncio.AbstractEventLoop | None = None
    #: Made by the first listener: most requests have none.
    _attachment: Attachment | None = None
    _is_over: bool = False

    # For the transport.

    def principal_here(
        self, site: MCPSite, request: MCPRequest, message: Request, find: Callable[[], Principal | None]
    ) -> Principal | None:
        """The principal that ``find`` knows without the database, if the message can be answered on the loop.

        Such a message is a quick one, or a call of an asynchronous tool where only the body reads the database or
        takes long.
        """
        if message.method != "tools/call":
            return find() if message.method in QUICK_METHODS else None
        decided = overrides_on_loop(site, message.params)
        principal = find() if decided is not None else None
        if principal is None or budget_of(principal, request) or not are_at_hand(site, request, principal):
            return None
        # This process may have forgotten the overrides by the time the tool is looked up.
        self._tool_overrides = decided
        return principal

    def exchange(
        self, site: MCPSite, request: MCPRequest, principal: Principal, message: Request, opening: Opening
    ) -> Exchange:
        """The exchange in which the message is answered. Each message needs a ``request`` of its own."""
        return Exchange(
            site=site,
            principal=principal,
            revision=opening.revision,
            method=message.method,
            params=message.params,
            request_id=message.id,
            client=opening.client,
            connection=self,
            request=request,
            session=opening.session,
            cancellation=self.cancellation,
            tool_overrides=self._tool_overrides,
        )

    def cancel(self) -> None:
        """Stop the request, and the query that it is waiting for. On the loop."""
        self.cancellation.cancel()
        self.interrupt()

    def expire(self) -> None:
        """Stop a request whose time is over, and the query that it is waiting for. On the loop."""
        self.cancellation.expire()
        self.interrupt()

    def interrupt(self) -> None:
        asyncio.get_running_loop().run_in_executor(None, self.cancellation.queries.interrupt)

    def leave_hub(self, *, but: Listener | None = None) -> None:
        """The request is over: take its listeners out of the hub, except that of a stream that it opened."""
        self._is_over = True
        if self._attachment is not None:
            self._attachment.leave(but=but)

    # For the handler.

    @property
    def is_live(self) -> bool:
        # Where its loop has ended, nobody takes what the handler sends. With THREADS 0, the handler may hold the only
        # thread that the server has for its own work.
        return self.loop is not None and self.loop.is_running() and get_conf().THREADS > 0

    def send(self, message: JSON) -> None:
        self.buffer.put(message)

    def send_chunk(self, body: bytes, taken: Callable[[], None]) -> None:
        self.buffer.put_chunk(body, taken)

    def attach(self, listener: Listener) -> None:
        attachment = self.attachment()
        attachment.attach(listener)
        attachment.remember_lists(listener)

    def attachment(self) -> Attachment:
        """The request's part in the hub, made at first use. Raises RequestCancelled where its client is gone."""
        if self.loop is None:
            raise TypeError("Without an event loop there is no hub.")
        self._attachment = self._attachment or Attachment(self.loop)
        # Checked after the attachment is stored: ``leave_hub`` on the loop finds it, or has run and is seen here.
        if self._is_over:
            raise RequestCancelled
        return self._attachment

    def drop(self, listener: Listener, uris: Collection[str]) -> None:
        if self._attachment is not None:
            self._attachment.drop(listener, uris)
