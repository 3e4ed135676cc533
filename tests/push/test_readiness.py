"""Whether a process is ready is asked of the real broker, by the road on which its changes come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from mcp_django.server import readiness
from tests.conftest import need
from tests.faults.services import NATS, nats_program
from tests.push.brokers import redis_server
from tests.push.processes import CORE, PUBSUB

#: Settings that name the broker, and what ends it.
Running = tuple[dict[str, Any], Callable[[], None]]


@contextmanager
def redis(folder: Path, layer: str) -> Iterator[Running]:
    with redis_server(folder) as broker:
        yield {"CHANNEL_LAYERS": {"default": {"BACKEND": layer, "CONFIG": {"hosts": [broker.url]}}}}, broker.kill


@contextmanager
def nats(folder: Path, _: str) -> Iterator[Running]:
    need(nats_program() is not None, "nats-server")
    server = NATS(folder)
    server.start()
    try:
        yield {"MCP": {"BUS": server.url}}, server.end
    finally:
        server.end()


@pytest.mark.parametrize(("broker", "layer"), [(redis, PUBSUB), (redis, CORE), (nats, "")])
def test_a_process_is_ready_while_its_broker_answers(
    tmp_path: Path, settings: Any, db: None, broker: Callable[..., Any], layer: str
) -> None:
    with broker(tmp_path, layer) as (named, end):
        for name, value in named.items():
            setattr(settings, name, value)
        found = []
        for _ in range(2):
            for part in readiness.PARTS:
                part.forget()
            found.append(readiness.ask_in_thread()["bus"])
            end()

    assert found == ["ok", "away"]
