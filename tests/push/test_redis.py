"""A Redis that goes away and comes back: the hub hears of it, and lets everybody look for what it has missed."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio.client import PubSub
from redis.exceptions import RedisError

from mcp_django.core.events import redis as receiving
from mcp_django.core.events.bus import ChannelLayerBus
from tests.conftest import need
from tests.end_to_end.servers import wait_for
from tests.faults.services import Redis, redis_program
from tests.push.following import RESYNCED, Looking, following
from tests.push.processes import PUBSUB, layer_bus
from tests.support.loop import LoopThread

EVENT = {"publisher": "x", "started": 0.0, "number": 1, "controls": [{"kind": "tools"}]}


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[Redis]:
    need(redis_program() is not None, "redis-server")
    service = Redis(tmp_path)
    service.start()
    yield service
    service.close()


@pytest.fixture
def bus(redis: Redis) -> ChannelLayerBus:
    return layer_bus(PUBSUB, {"hosts": [redis.url]})


@pytest.fixture
def looking(bus: ChannelLayerBus, serving_loop: LoopThread) -> Iterator[Looking]:
    with following(bus, serving_loop) as looking:
        yield looking


def test_what_was_told_while_the_broker_was_away_is_looked_for_without_another_event(
    redis: Redis, bus: ChannelLayerBus, looking: Looking
) -> None:
    bus.publish(EVENT)
    heard = [looking.heard.get(timeout=60)]

    redis.end(signal.SIGKILL)
    with pytest.raises(RedisError):
        bus.publish({**EVENT, "number": 2})
    redis.start()

    heard.append(looking.heard.get(timeout=60))
    # Its number is none that would say that something was lost: whoever told of the last one has ended, say.
    bus.publish({**EVENT, "publisher": "another", "controls": [{"kind": "access"}]})
    heard.append(looking.heard.get(timeout=60))
    assert heard == [["tools"], RESYNCED, ["access"]]


def test_a_broker_that_stays_away_has_everybody_look_now_and_then_and_not_at_every_attempt_to_join_it(
    redis: Redis, looking: Looking, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    redis.end(signal.SIGKILL)
    wait_for(lambda: caplog.messages.count("The bus failed; joining it again") >= 3, "three attempts", 60)
    assert looking.heard.empty()

    monkeypatch.setattr("mcp_django.push.follower._AWAY_SECONDS", 0.01)

    assert [looking.heard.get(timeout=60), looking.heard.get(timeout=60)] == [RESYNCED, RESYNCED]


def test_a_quiet_broker_is_kept(
    bus: ChannelLayerBus, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[Any] = []
    get_message = PubSub.get_message

    async def patient(self: Any, timeout: float) -> Any:
        # Quiet at once, so that it is pinged; the answer to that may take its time.
        heard.append(await get_message(self, timeout=60 if heard and heard[-1] is None else timeout))
        return heard[-1]

    monkeypatch.setattr(PubSub, "get_message", patient)
    monkeypatch.setattr(receiving, "_QUIET_SECONDS", 0.05)

    async def hear_late() -> tuple[Any, list[str]]:
        joined: list[str] = []
        events = bus.subscribe(lambda: joined.append("joined"))
        hearing = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(60):
            while heard.count(None) < 3:
                await asyncio.sleep(0.01)
            assert not hearing.done(), hearing
            await asyncio.to_thread(bus.publish, EVENT)
            told = await hearing
        await events.aclose()
        return told, joined

    assert serving_loop.run(hear_late()) == (EVENT, ["joined"])


def test_a_broker_that_answers_no_more_is_given_up(
    redis: Redis, bus: ChannelLayerBus, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receiving, "_QUIET_SECONDS", 0.2)

    async def hear() -> None:
        events = bus.subscribe(lambda: redis.send(signal.SIGSTOP))
        try:
            await asyncio.wait_for(anext(events), 60)
        finally:
            await events.aclose()

    try:
        with pytest.raises(RedisError, match=r"^Redis has sent nothing for 0 s$"):
            serving_loop.run(hear())
    finally:
        redis.send(signal.SIGCONT)
