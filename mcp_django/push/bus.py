"""The seam between processes: ``publish`` an event, ``subscribe`` to all of them. A bus may lose events.

In one process the hub is called directly. Across processes a Channels layer carries events, on a layer of our own, so
that the host project's messages and limits are not touched.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from mcp_django.conf import get_conf

if TYPE_CHECKING:
    from mcp_django.push.changes import Changes
    from mcp_django.push.hub import Hub

JSON = dict[str, Any]

_GROUP = "mcp_django.events"
_MESSAGE_TYPE = "mcp_django.event"
_IN_MEMORY = "channels.layers.InMemoryChannelLayer"
#: How long a broker may take an event; the publisher's queue grows meanwhile.
_SEND_SECONDS = 5.0
#: How often a quiet member joins its group again.
_REJOIN_SECONDS = 30.0
#: How long RedisChannelLayer lets the broker wait for an event: its own 5 seconds are also those after which redis-py
#: gives up a connection that is quiet.
_BLOCK_SECONDS = 1
_PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"


class Bus(ABC):
    """Carries events between the processes of a project."""

    def deliver_here(self, changes: Changes, controls: set[str]) -> bool:
        """Hand the changes to the hubs of this process and return True, where there is no other process to tell."""
        return False

    @abstractmethod
    def publish(self, event: JSON) -> None:
        """Give the event to every process; called in the publisher's thread, and may block and raise."""

    @abstractmethod
    def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        """Every event of every process, until the generator is closed. Raises what the broker raises.

        ``joined`` is called once events come: what was told before, nobody here has heard.
        """


class LocalBus(Bus):
    """One process: no broker, no thread and no numbers."""

    def __init__(self) -> None:
        self._hubs: WeakSet[Hub] = WeakSet()
        self._lock = Lock()

    def join(self, hub: Hub) -> None:
        """Hand the hub what is told from now on."""
        with self._lock:
            self._hubs.add(hub)

    def deliver_here(self, changes: Changes, controls: set[str]) -> bool:
        with self._lock:
            hubs = list(self._hubs)
        for hub in hubs:
            hub.receive(changes, controls)
        return True

    def publish(self, event: JSON) -> None:
        raise RuntimeError("events of one process are not published")

    def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        raise RuntimeError("events of one process are not subscribed to")


class ChannelLayerBus(Bus):
    """A Channels layer, of which each process is one member, whatever the number of its connections."""

    def __init__(self, config: JSON) -> None:
        self._backend = config["BACKEND"]
        self._config = {**config.get("CONFIG", {})}
        self._config["prefix"] = f"{self._config.get('prefix', 'asgi')}.mcp_django"
        self._layer_class = import_string(self._backend)
        # Every connection needs it. Found only in the publisher's thread, it would be half loaded in a process that is
        # forked in that moment, and stay so.
        codecs.lookup("idna")
        self._send: Callable[[JSON], None] = (
            RedisSender(self._layer(), self._config) if self._backend == _PUBSUB else self._send_by_layer
        )

    def publish(self, event: JSON) -> None:
        self._send({"type": _MESSAGE_TYPE, "event": event})

    async def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        layer = self._layer()
        receiving: asyncio.Future[JSON] | None = None
        try:
            channel = await layer.new_channel()
            await layer.group_add(_GROUP, channel)
            joined()
            while True:
                receiving = receiving or asyncio.ensure_future(layer.receive(channel))
                await asyncio.wait({receiving}, timeout=_REJOIN_SECONDS)
                if not receiving.done():
                    # Membership expires; joining again costs little, and loses nothing that is on its way.
                    await layer.group_add(_GROUP, channel)
                    continue
                message, receiving = receiving.result(), None
                yield message["event"]
        finally:
            if receiving is not None:
                receiving.cancel()
            await _close(layer)

    def _layer(self) -> Any:
        # One instance per use: a Redis layer refuses a second event loop.
        layer = self._layer_class(**self._config)
        if hasattr(self._layer_class, "brpop_timeout"):
            layer.brpop_timeout = _BLOCK_SECONDS
        return layer

    def _send_by_layer(self, message: JSON) -> None:
        async def send() -> None:
            layer = self._layer()
            try:
                await asyncio.wait_for(layer.group_send(_GROUP, message), _SEND_SECONDS)
            finally:
                await _close(layer)

        async_to_sync(send)()


async def _close(layer: Any) -> None:
    """Give back the connections of a layer that is ours alone."""
    with contextlib.suppress(Exception):
        # The core layer's flush would empty the broker; the pub/sub layer's ends its connections, and nothing else.
        await (layer.close_pools() if hasattr(layer, "close_pools") else layer.flush())


class RedisSender:
    """Publishes as RedisPubSubChannelLayer does, with a synchronous client: no event loop in the publisher's thread."""

    def __init__(self, layer: Any, config: JSON) -> None:
        from channels_redis.utils import _consistent_hash, decode_hosts

        self._serialize = layer.serialize
        self._channel = f"{config['prefix']}__group__{_GROUP}"
        hosts = decode_hosts(config.get("hosts"))
        self._host = hosts[_consistent_hash(self._channel, len(hosts))]
        if "master_name" in self._host:
            raise ImproperlyConfigured(
                "Redis Sentinel cannot carry mcp_django's events yet. Name the hosts themselves."
            )
        self._client: Any = None

    def __call__(self, message: JSON) -> None:
        if self._client is None:
            self._client = self._connect()
        self._client.publish(self._channel, self._serialize(message))

    def _connect(self) -> Any:
        import redis

        host = dict(self._host)
        address = host.pop("address", None)
        host.setdefault("socket_timeout", 5)
        return redis.Redis.from_url(address, **host) if address else redis.Redis(**host)


@lru_cache(maxsize=1)
def get_bus() -> Bus:
    """The bus that the settings name."""
    config = layer_config()
    if config is None or config["BACKEND"] == _IN_MEMORY:
        return _local_bus()
    return ChannelLayerBus(config)


@lru_cache(maxsize=1)
def _local_bus() -> LocalBus:
    # The same one after a change of settings: the hubs that have joined it are still there.
    return LocalBus()


def layer_config() -> JSON | None:
    """The entry of CHANNEL_LAYERS that carries our events, or None. Raises ImproperlyConfigured for a wrong alias."""
    layers: dict[str, JSON] = getattr(settings, "CHANNEL_LAYERS", None) or {}
    alias = get_conf().CHANNEL_LAYER
    if alias is not None and alias not in layers:
        raise ImproperlyConfigured(f"MCP['CHANNEL_LAYER'] names {alias!r}, which is not in CHANNEL_LAYERS.")
    return layers.get(alias or ("mcp" if "mcp" in layers else "default"))


def _forget(*, setting: str, **_: Any) -> None:
    if setting in ("MCP", "CHANNEL_LAYERS"):
        get_bus.cache_clear()


setting_changed.connect(_forget)
# A forked child has neither the hubs nor the connections of its parent.
for _made in (get_bus, _local_bus):
    os.register_at_fork(after_in_child=_made.cache_clear)
