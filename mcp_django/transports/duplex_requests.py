"""What the handler of a message on a lasting connection sees: its request in flight, and the connection's session."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcp_django.conf import get_conf
from mcp_django.protocol.errors import LimitExceeded
from mcp_django.protocol.exchange import DEFAULT_LOG_LEVEL, Client
from mcp_django.protocol.jsonrpc import Request
from mcp_django.push.listeners import Listener, Subscription
from mcp_django.transports.attachment import Attachment
from mcp_django.transports.in_flight import InFlight

if TYPE_CHECKING:
    from mcp_django.transports.duplex import Connection


@dataclass(eq=False)
class DuplexSession:
    """The legacy session of a connection: it begins with ``initialize`` and ends with the connection."""

    revision: str
    client: Client
    listener: Listener
    attachment: Attachment
    log_level: str = DEFAULT_LOG_LEVEL

    def set_log_level(self, level: str) -> None:
        self.log_level = level

    def subscribe(self, subscription: Subscription) -> None:
        limit = get_conf().MAX_SUBSCRIPTIONS
        watched = self.listener.subscriptions
        if subscription.uri not in watched and len(watched) >= limit:
            raise LimitExceeded(f"A session may watch at most {limit} resources (MAX_SUBSCRIPTIONS).")
        self.attachment.watch(self.listener, [subscription])

    def unsubscribe(self, uri: str) -> None:
        self.attachment.drop(self.listener, [uri])


@dataclass(eq=False)
class DuplexRequest(InFlight):
    """One request in flight on a lasting connection."""

    connection: Connection
    message: Request
    can_ask: bool = True
    #: One task at a time writes the messages of the buffer, so that their order is kept.
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    #: Set once the client has given the request up.
    given_up: asyncio.Event = field(default_factory=asyncio.Event)

    push = True

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.buffer.on_put = lambda: self.connection.wake(self)

    def give_up(self) -> None:
        """The client wants no answer any more."""
        self.given_up.set()
        self.buffer.close()
        self.cancel()
        self.leave_hub()

    @property
    def message_limit(self) -> int:
        return self.connection.message_limit

    def close_stream(self, retry_ms: int) -> None:
        """Nothing: the messages for this request share their connection with everything else."""

    def open_session(self, revision: str, client: Client) -> None:
        self.connection.open_session(revision, client)

    def attach(self, listener: Listener) -> None:
        self.connection.share(listener)
        super().attach(listener)
