"""NATS as the bus: one subject, without JetStream. It may lose messages, which the numbers of our events show.

nats-py would connect anew by itself, and drop messages that come too fast. Neither is left to it: in both cases the hub
joins again with a new connection, and resyncs.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from mcp_django.core.compat import nats_client
from mcp_django.core.events import payloads
from mcp_django.core.events.bus import CHANNEL, BaseBus
from mcp_django.core.events.nats_sender import NATSSender, read_urls
from mcp_django.protocol.types import JSON

#: A connection that is quiet for this time is pinged, and given up when it is quiet for the same time again.
_QUIET_SECONDS = 15
_CONNECT_SECONDS = 2
#: How long a connection may take to end.
_CLOSE_SECONDS = 2.0
#: What may wait for the hub, in bytes. The rest is dropped, and the hub resyncs.
_PENDING_BYTES = 16_000_000
#: The characters that https://docs.nats.io/nats-concepts/subjects recommends. A ``$`` would be the server's own.
_SUBJECT = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_ENDED = "NATS has ended the connection, or has been silent for too long"


class NATSBus(BaseBus):
    """Publishes to a subject, which is the ``channel``, and subscribes to it with a connection for each hub.

    ``servers`` is the URL of a server, as ``nats://127.0.0.1:4222``, or those of a cluster, divided by commas.
    """

    def __init__(self, servers: str, channel: str = CHANNEL) -> None:
        if not isinstance(channel, str) or _SUBJECT.fullmatch(channel) is None:
            raise ImproperlyConfigured(
                "The channel of MCP['BUS'] must be a subject of NATS: letters, digits, - and _, in parts divided by "
                "dots."
            )
        self.channel = channel
        self._servers = read_urls(servers)
        self._sender = NATSSender(self._servers, channel)

    # In the publisher's thread.

    def publish(self, event: JSON) -> None:
        self._sender.send(payloads.write(form).encode() for form in _shorter_and_shorter(event))

    def close(self) -> None:
        """End the publisher's connection."""
        self._sender.close()

    # On the hub's loop.

    async def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        from nats.errors import NoServersError

        client: Any = nats_client.make_client()
        problems: list[Exception] = []

        async def note(problem: Exception) -> None:
            problems.append(problem)

        try:
            try:
                await self._connect(client, note)
            except NoServersError:
                # All of them are away; the last error says why.
                raise (problems or [ConnectionError(_ENDED)])[-1] from None
            problems.clear()  # Those of servers that are away, while another is there.
            subscription = await client.subscribe(self.channel, pending_bytes_limit=_PENDING_BYTES)
            # A refusal comes before the answer to this.
            await client.flush(_CONNECT_SECONDS)
            if not problems:
                joined()
                async for message in subscription.messages:
                    if problems:  # It was refused meanwhile, or messages were dropped.
                        break
                    event = payloads.read(message.data, numbered=True)
                    if event is not None:
                        yield event
            raise problems[0] if problems else ConnectionError(_ENDED)
        finally:
            with contextlib.suppress(Exception):  # The server is gone.
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await client.close()

    async def _connect(self, client: Any, note: Any) -> None:
        credentials = self._servers.credentials
        await client.connect(
            servers=[address.url for address in self._servers.addresses],
            user=credentials.get("user"),
            password=credentials.get("pass"),
            token=credentials.get("auth_token"),
            name="mcp_django",
            error_cb=note,
            allow_reconnect=False,
            # Each server is tried twice at most, without a pause: the follower pauses.
            max_reconnect_attempts=1,
            reconnect_time_wait=0,
            connect_timeout=_CONNECT_SECONDS,
            ping_interval=_QUIET_SECONDS,
            max_outstanding_pings=1,
        )


def _shorter_and_shorter(event: JSON) -> Iterator[JSON]:
    """The event, then the event without the keys of rows, then its number alone, which shows every hub a gap."""
    yield event
    if "changes" in event:
        yield {**event, "changes": [{**change, "written": None, "deleted": []} for change in event["changes"]]}
    yield {name: event[name] for name in ("publisher", "started", "number")}
