"""Receives events from Redis, on a connection that reports when it was lost.

The pub/sub layer of channels-redis subscribes again in silence, so the hub would miss events: those of a process that
ended right afterwards, for example, and does not repeat its number.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Callable
from typing import Any

from mcp_django.core.compat.redis_layers import make_pool
from mcp_django.protocol.types import JSON

#: A connection that is quiet for this time is pinged, and given up when it is quiet for the same time again.
_QUIET_SECONDS = 15.0


class RedisReceiver:
    """Receives what ``RedisSender`` publishes: from the same host, with the serializer of the same layer."""

    def __init__(self, layer: Any, host: JSON, channel: str) -> None:
        self._deserialize = layer.deserialize
        self._host = host
        self._channel = channel

    async def messages(self, joined: Callable[[], None]) -> AsyncGenerator[JSON, None]:
        """Every message, until the generator is closed. Raises what redis-py raises, for a broker that is silent too.

        ``joined`` is called whenever the broker has taken the subscription: redis-py connects anew by itself.
        """
        from redis import asyncio as aioredis
        from redis.exceptions import TimeoutError as SilentError

        client: Any = aioredis.Redis(connection_pool=make_pool(self._host))
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            tried = False
            while True:
                message = await pubsub.get_message(timeout=_QUIET_SECONDS)
                if message is None:
                    if tried:
                        raise SilentError(f"Redis has sent nothing for {2 * _QUIET_SECONDS:.0f} s")
                    await pubsub.ping()
                tried = message is None
                if message is not None and message["type"] == "subscribe":
                    joined()
                elif message is not None and message["type"] == "message":
                    yield self._deserialize(message["data"])
        finally:
            for ending in (pubsub.aclose(), client.aclose(close_connection_pool=True)):
                with contextlib.suppress(Exception):  # The broker is gone.
                    await ending
