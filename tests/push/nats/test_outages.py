"""A NATS server that goes away, comes back, or answers no more: the hub hears of it, and lets everybody look."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from nats.aio.client import Client

from mcp_django.core.events import nats as nats_bus
from mcp_django.core.events import nats_sender
from mcp_django.core.events.nats import NATSBus
from tests.end_to_end.servers import wait_for
from tests.faults.services import NATS
from tests.push.following import RESYNCED, Looking, following
from tests.push.nats.conftest import Start
from tests.support.loop import LoopThread

EVENT = {"publisher": "x", "started": 0.0, "number": 1, "controls": [{"kind": "tools"}]}


@pytest.fixture
def looking(bus: NATSBus, serving_loop: LoopThread) -> Iterator[Looking]:
    with following(bus, serving_loop) as looking:
        yield looking


def test_what_was_told_while_the_server_was_away_is_looked_for_without_another_event(
    server: NATS, bus: NATSBus, looking: Looking
) -> None:
    bus.publish(EVENT)
    heard = [looking.heard.get(timeout=60)]

    server.end(signal.SIGKILL)
    with pytest.raises(OSError, match="refused"):
        bus.publish({**EVENT, "number": 2})
    server.start()

    heard.append(looking.heard.get(timeout=60))
    # Its number is none that would say that something was lost: whoever told of the last one has ended, say.
    bus.publish({**EVENT, "publisher": "another", "controls": [{"kind": "access"}]})
    heard.append(looking.heard.get(timeout=60))
    assert heard == [["tools"], RESYNCED, ["access"]]


def test_an_event_after_a_restart_that_nobody_noticed_is_not_lost(server: NATS, bus: NATSBus) -> None:
    bus.publish(EVENT)
    server.end(signal.SIGTERM)
    server.start()

    bus.publish({**EVENT, "number": 2})


def test_a_server_that_stays_away_is_tried_again_and_again_and_is_logged_at_length_once(
    server: NATS, looking: Looking, caplog: pytest.LogCaptureFixture
) -> None:
    server.end(signal.SIGKILL)
    wait_for(lambda: caplog.messages.count("The bus failed; joining it again") >= 3, "three attempts", 60)

    assert looking.heard.empty()
    assert [bool(record.exc_info) for record in caplog.records].count(True) == 1


def test_a_quiet_server_is_kept(bus: NATSBus, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch) -> None:
    # Long enough for an answer of a server on a busy machine.
    monkeypatch.setattr(nats_bus, "_QUIET_SECONDS", 1)
    pongs: list[None] = []
    process_pong = Client._process_pong

    async def counted(self: Any) -> None:
        pongs.append(None)
        await process_pong(self)

    monkeypatch.setattr(Client, "_process_pong", counted)

    async def hear_late() -> tuple[Any, list[str]]:
        joined: list[str] = []
        events = bus.subscribe(lambda: joined.append("joined"))
        hearing = asyncio.ensure_future(anext(events))
        async with asyncio.timeout(60):
            # One of them may be of the connecting.
            while len(pongs) < 4:
                await asyncio.sleep(0.01)
            assert not hearing.done(), hearing
            await asyncio.to_thread(bus.publish, EVENT)
            heard = await hearing
        await events.aclose()
        return heard, joined

    assert serving_loop.run(hear_late()) == (EVENT, ["joined"])


def test_a_server_that_answers_no_more_is_given_up(
    server: NATS, bus: NATSBus, serving_loop: LoopThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nats_bus, "_QUIET_SECONDS", 0.2)

    async def hear() -> None:
        events = bus.subscribe(lambda: server.send(signal.SIGSTOP))
        try:
            await asyncio.wait_for(anext(events), 60)
        finally:
            await events.aclose()

    try:
        with pytest.raises(ConnectionError, match=r"^NATS has ended the connection, or has been silent for too long$"):
            serving_loop.run(hear())
    finally:
        server.send(signal.SIGCONT)


def test_a_publisher_changes_to_the_next_server_when_one_answers_no_more(
    start: Start, make_bus: Callable[..., NATSBus], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = start(), start()
    bus = make_bus(f"{one.url},{other.url}")
    bus.publish(EVENT)

    monkeypatch.setattr(nats_sender, "_SEND_SECONDS", 0.5)
    one.send(signal.SIGSTOP)
    try:
        assert one.process is not None
        os.waitid(os.P_PID, one.process.pid, os.WSTOPPED | os.WNOWAIT)  # It may answer until it has stopped.
        with pytest.raises(TimeoutError):
            bus.publish({**EVENT, "number": 2})
        monkeypatch.setattr(nats_sender, "_SEND_SECONDS", 30.0)
        bus.publish({**EVENT, "number": 3})
        assert bus._sender._connection is not None
        port = bus._sender._connection._socket.getpeername()[1]
    finally:
        one.send(signal.SIGCONT)

    assert port == other.port
