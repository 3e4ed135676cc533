"""How channels_redis sends messages to a group, seen in Redis itself."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from django.utils.module_loading import import_string

from mcp_django.core.compat.redis_layers import close, group_channel, host_of, make_pool, wait_at_most
from tests.conftest import is_listening, need

HOSTS = ["redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/1", "redis://127.0.0.1:6379/2"]


@pytest.fixture
def prefix() -> Iterator[str]:
    need(is_listening(6379), "Redis on 127.0.0.1:6379")
    name = f"compat-{uuid.uuid4().hex}"
    yield name
    with redis.Redis() as client:
        for key in client.scan_iter(f"{name}*"):
            client.delete(key)


@pytest.mark.parametrize("group", ["mcp", "third"])
def test_group_channel_and_host_of_are_where_a_group_hears(prefix: str, group: str) -> None:
    """The layer's own ``receive`` gets what a synchronous client publishes on that channel."""
    from channels_redis.pubsub import RedisPubSubChannelLayer

    async def hear() -> Any:
        layer = RedisPubSubChannelLayer(hosts=HOSTS, prefix=prefix)
        try:
            channel = await layer.new_channel()
            await layer.group_add(group, channel)
            name = group_channel(prefix, group)
            with redis.Redis.from_url(host_of(HOSTS, name)["address"]) as client:
                client.publish(name, layer.serialize({"type": "told"}))
            return await asyncio.wait_for(layer.receive(channel), 60)
        finally:
            await close(layer)

    assert asyncio.run(hear()) == {"type": "told"}


@pytest.mark.parametrize("group", ["mcp", "third"])
def test_host_of_is_the_host_on_which_a_group_is_subscribed_to(prefix: str, group: str) -> None:
    from channels_redis.pubsub import RedisPubSubChannelLayer

    hosts = [{"address": address, "client_name": f"{prefix}-{number}"} for number, address in enumerate(HOSTS)]

    async def join() -> list[str]:
        layer = RedisPubSubChannelLayer(hosts=hosts, prefix=prefix)
        try:
            channel = await layer.new_channel()
            before = _clients(prefix)
            await layer.group_add(group, channel)
            return [name for name, subscribed in _clients(prefix).items() if subscribed > before.get(name, 0)]
        finally:
            await close(layer)

    assert asyncio.run(join()) == [host_of(hosts, group_channel(prefix, group))["client_name"]]


def test_host_of_takes_hosts_in_each_spelling() -> None:
    assert host_of(None, "any") == {"address": "redis://localhost:6379"}
    assert host_of([("127.0.0.1", 6380)], "any") == {"host": "127.0.0.1", "port": 6380}
    assert host_of([{"host": "a", "db": 1}], "any") == {"host": "a", "db": 1}
    channels = [group_channel("asgi", str(number)) for number in range(50)]
    assert {host_of(HOSTS, channel)["address"] for channel in channels} == set(HOSTS)


def test_make_pool_receives_the_messages_to_a_group(prefix: str) -> None:
    from channels_redis.pubsub import RedisPubSubChannelLayer
    from redis import asyncio as aioredis

    async def hear() -> Any:
        layer = RedisPubSubChannelLayer(hosts=HOSTS, prefix=prefix)
        name = group_channel(prefix, "mcp")
        client: Any = aioredis.Redis(connection_pool=make_pool(host_of(HOSTS, name)))
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(name)
            await pubsub.get_message(timeout=60)
            await layer.group_send("mcp", {"type": "told"})
            message = await pubsub.get_message(timeout=60)
            return layer.deserialize(message["data"])
        finally:
            await pubsub.aclose()
            await client.aclose(close_connection_pool=True)
            await close(layer)

    assert asyncio.run(hear()) == {"type": "told"}


def test_wait_at_most_is_how_long_a_layer_of_lists_waits_for_redis(
    prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from channels_redis.core import RedisChannelLayer

    asked: list[float] = []
    ask = RedisChannelLayer._brpop_with_clean

    class AskedAgain(Exception):
        """Redis was waited for once, in vain."""

    async def note(self: Any, index: Any, channel: Any, timeout: float) -> Any:
        asked.append(timeout)
        if len(asked) == 2:
            raise AskedAgain
        return await ask(self, index, channel, timeout)

    monkeypatch.setattr(RedisChannelLayer, "_brpop_with_clean", note)

    async def wait() -> None:
        layer = RedisChannelLayer(hosts=HOSTS[:1], prefix=prefix)
        wait_at_most(layer, 1)
        try:
            await layer.receive(await layer.new_channel())
        finally:
            await close(layer)

    with pytest.raises(AskedAgain):
        asyncio.run(wait())

    assert set(asked) == {1}


@pytest.mark.parametrize(
    "name", ["channels.layers.InMemoryChannelLayer", "channels_redis.pubsub.RedisPubSubChannelLayer"]
)
def test_wait_at_most_leaves_other_layers_alone(name: str) -> None:
    """It also works without an event loop, as in the publisher's thread."""
    layer = import_string(name)()
    before = dict(vars(layer))

    wait_at_most(layer, 1)

    assert vars(layer) == before


@pytest.mark.parametrize("name", ["core.RedisChannelLayer", "pubsub.RedisPubSubChannelLayer"])
def test_close_ends_the_connections_and_deletes_nothing_in_redis(prefix: str, name: str) -> None:
    host = {"address": HOSTS[0], "client_name": prefix}

    async def use() -> tuple[int, int]:
        layer = import_string(f"channels_redis.{name}")(hosts=[host], prefix=prefix)
        await layer.group_add("mcp", await layer.new_channel())
        during = len(_clients(prefix))
        await close(layer)
        return during, len(_clients(prefix))

    with redis.Redis() as client:
        client.set(f"{prefix}-kept", "1")

        during, after = asyncio.run(use())

        assert client.get(f"{prefix}-kept") == b"1"
    assert during > 0
    assert after == 0


def _clients(name: str) -> dict[str, int]:
    """The connections to Redis whose name begins with the prefix, and the number of channels of each."""
    with redis.Redis() as client:
        return {one["name"]: int(one["sub"]) for one in client.client_list() if one["name"].startswith(name)}
