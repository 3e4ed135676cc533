"""How the layers of channels_redis send messages to a group, and how they are closed."""

from __future__ import annotations

import contextlib
from typing import Any

from mcp_django.protocol.types import JSON


def group_channel(prefix: str, group: str) -> str:
    """The channel of Redis on which ``RedisPubSubChannelLayer`` publishes the messages to a group.

    Private: ``RedisPubSubLoopLayer._get_group_channel_name``. Seen with: channels_redis 4.3. Public way:
    ``group_send``, which needs an event loop.
    """
    return f"{prefix}__group__{group}"


def host_of(hosts: Any, channel: str) -> JSON:
    """The host in a layer's CONFIG that carries the channel, as arguments for a connection of redis-py.

    Private: ``channels_redis.utils.decode_hosts`` and ``_consistent_hash``. Seen with: channels_redis 4.3. Public way:
    none.
    """
    from channels_redis.utils import _consistent_hash, decode_hosts

    decoded: list[JSON] = decode_hosts(hosts)
    host: JSON = decoded[_consistent_hash(channel, len(decoded))]
    return host


def make_pool(host: JSON) -> Any:
    """An asynchronous pool of connections to a host of ``host_of``, made like those of the layers.

    Private: ``channels_redis.utils.create_pool``. Seen with: channels_redis 4.3. Public way: none.
    """
    from channels_redis.utils import create_pool

    return create_pool(host)


def wait_at_most(layer: Any, seconds: float) -> None:
    """Let ``RedisChannelLayer`` ask Redis again after ``seconds`` and not after 5. Other layers do not poll.

    Private: ``RedisChannelLayer.brpop_timeout``. Seen with: channels_redis 4.3. Public way: none.
    """
    # The pub/sub layer looks up unknown attributes with the running event loop, and there may be none.
    if hasattr(type(layer), "brpop_timeout"):
        layer.brpop_timeout = seconds


async def close(layer: Any) -> None:
    """Close the connections of a layer that nobody else uses.

    Private: ``RedisChannelLayer.close_pools``. Seen with: channels_redis 4.3. Public way: none; ``flush`` only closes
    the connections of the pub/sub layer, but for ``RedisChannelLayer`` it also deletes everything in Redis.
    """
    with contextlib.suppress(Exception):
        await (layer.close_pools() if hasattr(layer, "close_pools") else layer.flush())
