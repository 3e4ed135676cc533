"""The legacy session of a lasting connection."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_django.conf import get_conf
from mcp_django.exchange.connection import DEFAULT_LOG_LEVEL
from mcp_django.protocol.envelope import Client
from mcp_django.protocol.errors import LimitExceeded
from mcp_django.push.listeners import Listener
from mcp_django.push.subscriptions import Subscription
from mcp_django.transports.attachment import Attachment


@dataclass(eq=False)
class DuplexSession:
    """A legacy session that begins with ``initialize`` and ends with its connection."""

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
