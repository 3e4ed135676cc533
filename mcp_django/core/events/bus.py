"""Buses carry events from each process to every other: ``publish`` sends one, ``subscribe`` receives all of them.

Within one process the hub is called directly. Between processes a Channels layer carries the events. We make a layer of
our own, so that the host project's messages and limits are not affected.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import inspect
import os
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from functools import lru_cache
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from asgiref.sync import async_to_sync
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from mcp_django.conf import get_conf
from mcp_django.core.compat import redis_layers
from mcp_django.core.events.redis import RedisReceiver
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from mcp_django.core.events.changed_rows import Changes
    from mcp_django.core.events.controls import ControlSet


#: The channel of a bus that has none of its own.
CHANNEL = "mcp_django"
_GROUP = "mcp_django.events"
_MESSAGE_TYPE = "mcp_django.event"
IN_MEMORY = "channels.layers.InMemoryChannelLayer"
#: How long a broker may take to accept an event; the publisher's queue grows meanwhile.
_SEND_SECONDS = 5.0
#: How often a quiet member joins its group again.
_REJOIN_SECONDS = 30.0
#: How long RedisChannelLayer lets the broker wait for an event. Its default is 5 seconds, after which redis-py, too,
#: gives up a quiet connection.
_BLOCK_SECONDS = 1
PUBSUB = "channels_redis.pubsub.RedisPubSubChannelLayer"
CORE = "channels_redis.core.RedisChannelLayer"


class Receiver(Protocol):
    """Takes in the events of its process, as a hub does."""

    def receive(self, changes: Changes, controls: ControlSet) -> None: ...


class BaseBus(ABC):
    """Carries events between the processes of a project. It may lose some.

    ``MCP["BUS"]`` names a subclass as its BACKEND, and OPTIONS are the arguments of its ``__init__``, which raises
    ImproperlyConfigured for those that it cannot use.
    """

    #: The alias of the database whose transactions carry their changes, and whose triggers may report others.
    database: str | None = None
    #: The name under which events travel, where projects may share a server.
    channel = ""

    def deliver_here(self, changes: Changes, controls: ControlSet) -> bool:
        """Hand the changes to the hubs of this process and return True, where there is no other process."""
        return False

    def publish_with_commit(self, connection: BaseDatabaseWrapper) -> None:
        """Publish the changes of the connection's transactions with their commits, where the database is the bus."""
        return

    @abstractmethod
    def publish(self, event: JSON) -> None:
        """Give the event to every process; called in the publisher's thread, and may block and raise."""

    @abstractmethod
    def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        """Every event of every process, until the generator is closed. Raises what the broker raises.

        ``joined`` is called once events come: this process has missed all earlier ones.
        """


class LocalBus(BaseBus):
    """One process: no broker, no thread and no numbers."""

    def __init__(self) -> None:
        self._receivers: WeakSet[Receiver] = WeakSet()
        self._lock = Lock()

    def join(self, receiver: Receiver) -> None:
        """Hand all later events to the receiver."""
        with self._lock:
            self._receivers.add(receiver)

    def leave(self, receiver: Receiver) -> None:
        with self._lock:
            self._receivers.discard(receiver)

    def deliver_here(self, changes: Changes, controls: ControlSet) -> bool:
        with self._lock:
            receivers = list(self._receivers)
        for receiver in receivers:
            receiver.receive(changes, controls)
        return True

    def publish(self, event: JSON) -> None:
        """Do nothing: the hubs have the changes. Only a publisher that other settings have started comes here."""

    def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        raise RuntimeError("events of one process are not subscribed to")


class ChannelLayerBus(BaseBus):
    """A layer of Channels: ``alias`` in CHANNEL_LAYERS. Each process is one member, whatever its connections."""

    def __init__(self, alias: str | None = None) -> None:
        config = layer_config(alias)
        if config is None or "BACKEND" not in config:
            raise ImproperlyConfigured("CHANNEL_LAYERS has no layer with a BACKEND that could carry changes.")
        self.layer = config["BACKEND"]
        self._config = {**config.get("CONFIG", {})}
        self._config["prefix"] = f"{self._config.get('prefix', 'asgi')}.mcp_django"
        try:
            self._layer_class = import_string(self.layer)
        except ImportError as error:
            raise ImproperlyConfigured(f"The layer {self.layer} of CHANNEL_LAYERS cannot be used: {error}.") from error
        # Every connection needs this codec. If the publisher's thread loaded it first, a process forked in that
        # moment would keep it half loaded.
        codecs.lookup("idna")
        self._send: Callable[[JSON], None] = self._send_by_layer
        self._receiver: RedisReceiver | None = None
        if self.layer == PUBSUB:
            try:
                self._send = sender = RedisSender(self._layer(), self._config)
                self._receiver = RedisReceiver(self._layer(), sender.host, sender.channel)
            except Exception as error:  # noqa: BLE001 - it raises what the layer does
                # Without its cause, which may quote a password.
                raise ImproperlyConfigured(
                    f"The layer {self.layer} of CHANNEL_LAYERS cannot be made with its CONFIG ({type(error).__name__})."
                ) from None

    def publish(self, event: JSON) -> None:
        self._send({"type": _MESSAGE_TYPE, "event": event})

    async def subscribe(self, joined: Callable[[], None] = lambda: None) -> AsyncGenerator[JSON, None]:
        if self._receiver is not None:
            async with contextlib.aclosing(self._receiver.messages(joined)) as messages:
                async for message in messages:
                    yield message["event"]
            return
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
                # The error of a broker that is gone is retrieved, so that asyncio does not log it.
                receiving.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            await redis_layers.close(layer)

    def _layer(self) -> Any:
        # One instance per use: a Redis layer refuses a second event loop.
        layer = self._layer_class(**self._config)
        redis_layers.wait_at_most(layer, _BLOCK_SECONDS)
        return layer

    def _send_by_layer(self, message: JSON) -> None:
        async def send() -> None:
            layer = self._layer()
            try:
                await asyncio.wait_for(layer.group_send(_GROUP, message), _SEND_SECONDS)
            finally:
                await redis_layers.close(layer)

        async_to_sync(send)()


class RedisSender:
    """Publishes as RedisPubSubChannelLayer does, with a synchronous client: no event loop in the publisher's thread."""

    def __init__(self, layer: Any, config: JSON) -> None:
        self._serialize = layer.serialize
        self.channel = redis_layers.group_channel(config["prefix"], _GROUP)
        self.host = redis_layers.host_of(config.get("hosts"), self.channel)
        self._client: Any = None

    def __call__(self, message: JSON) -> None:
        if self._client is None:
            self._client = self._connect()
        self._client.publish(self.channel, self._serialize(message))

    def _connect(self) -> Any:
        import redis
        from redis.sentinel import Sentinel, SentinelConnectionPool

        host = dict(self.host)
        address = host.pop("address", None)
        master_name, sentinels = host.pop("master_name", None), host.pop("sentinels", ())
        sentinel_kwargs = host.pop("sentinel_kwargs", None) or {}
        host.setdefault("socket_timeout", _SEND_SECONDS)
        if address is not None:
            return redis.Redis.from_url(address, **host)
        if master_name is None:
            return redis.Redis(**host)
        # A sentinel that is down gets the same short timeout as its master, and then the next one is asked.
        asked = Sentinel(sentinels, sentinel_kwargs={"socket_timeout": _SEND_SECONDS, **sentinel_kwargs})
        return redis.Redis(connection_pool=SentinelConnectionPool(master_name, asked, **host))


def get_bus() -> BaseBus:
    """The bus that the settings name, or else this process's own. Raises ImproperlyConfigured."""
    return _local_bus() if _local_only else configured_bus()


#: Depth of nested ``publishing_here_only()`` blocks. While positive, ``get_bus()`` is the local bus.
_local_only = 0


@contextlib.contextmanager
def publishing_here_only() -> Iterator[None]:
    """Publish changes in this process alone and at once within the block, whatever bus the settings name. For tests."""
    global _local_only  # noqa: PLW0603
    with _local_only_lock:
        _local_only += 1
    try:
        yield
    finally:
        with _local_only_lock:
            _local_only -= 1


_local_only_lock = Lock()


def configured_bus() -> BaseBus:
    """The bus of ``MCP["BUS"]``, or else of CHANNEL_LAYERS. Raises ImproperlyConfigured."""
    return _bus_of(_changes)


#: How often the settings have changed. A thread that made its bus of earlier ones keeps it for nobody.
_changes = 0


@lru_cache(maxsize=1)
def _bus_of(changes: int) -> BaseBus:
    named = get_conf().BUS
    if not named:
        config = layer_config(None)
        return _local_bus() if config is None or config.get("BACKEND") == IN_MEMORY else ChannelLayerBus()
    if isinstance(named, str):
        named = {"BACKEND": "mcp_django.buses.NATSBus", "OPTIONS": {"servers": named}}
    bus = _made_of(named)
    return _local_bus() if isinstance(bus, ChannelLayerBus) and bus.layer == IN_MEMORY else bus


def _made_of(named: Any) -> BaseBus:
    """The bus of a BACKEND with OPTIONS. Raises ImproperlyConfigured, and never quotes the value of an option."""
    has_form = isinstance(named, Mapping) and {"BACKEND"} <= named.keys() <= {"BACKEND", "OPTIONS"}
    options = named.get("OPTIONS", {}) if has_form else None
    if not isinstance(options, Mapping) or not isinstance(named["BACKEND"], str):
        raise ImproperlyConfigured(
            "MCP['BUS'] must be {'BACKEND': 'dotted.path', 'OPTIONS': {…}}, or the URL of a NATS server."
        )
    try:
        backend = import_string(named["BACKEND"])
    except ImportError as error:
        raise ImproperlyConfigured(f"MCP['BUS'] cannot be used: {error}.") from error
    if not isinstance(backend, type) or not issubclass(backend, BaseBus):
        raise ImproperlyConfigured(f"MCP['BUS'] names {named['BACKEND']}, which is no subclass of BaseBus.")
    try:
        inspect.signature(backend).bind(**options)
    except TypeError as error:
        raise ImproperlyConfigured(f"The OPTIONS of MCP['BUS'] do not fit {named['BACKEND']}: {error}.") from None
    return backend(**options)


@lru_cache(maxsize=1)
def _local_bus() -> LocalBus:
    # The same bus is kept when settings change: the hubs that have joined it are still there.
    return LocalBus()


def layer_config(alias: str | None) -> JSON | None:
    """An entry of CHANNEL_LAYERS: "mcp", or else "default", where none is named; None if there is none.

    Raises ImproperlyConfigured for an alias that is not there.
    """
    layers: dict[str, JSON] = getattr(settings, "CHANNEL_LAYERS", None) or {}
    if alias is not None and (not isinstance(alias, str) or alias not in layers):
        raise ImproperlyConfigured(f"MCP['BUS'] names {alias!r}, which is not in CHANNEL_LAYERS.")
    return layers.get(alias or ("mcp" if "mcp" in layers else "default"))


def _forget(*, setting: str, **_: Any) -> None:
    global _changes  # noqa: PLW0603
    if setting in ("MCP", "CHANNEL_LAYERS"):
        _changes += 1


setting_changed.connect(_forget)
# A forked child has neither the hubs nor the connections of its parent.
for _made in (_bus_of, _local_bus):
    os.register_at_fork(after_in_child=_made.cache_clear)
