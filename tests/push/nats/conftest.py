"""NATS servers of a test's own, on free ports."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mcp_django.core.events.nats import NATSBus
from tests.conftest import need
from tests.faults.services import NATS, nats_program

Start = Callable[..., NATS]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a server with such lines in its configuration."""
    need(nats_program() is not None, "nats-server")
    started: list[NATS] = []
    numbers = itertools.count()

    def start(settings: str = "") -> NATS:
        folder = tmp_path / f"nats-{next(numbers)}"
        folder.mkdir()
        started.append(NATS(folder, settings))
        started[-1].start()
        return started[-1]

    yield start
    for service in started:
        service.close()


@pytest.fixture
def server(start: Start) -> NATS:
    return start()


@pytest.fixture
def make_bus() -> Iterator[Callable[..., NATSBus]]:
    """Makes a bus to the servers of these URLs, on a subject."""
    made: list[NATSBus] = []

    def make(urls: str, subject: str = "mcp_django") -> NATSBus:
        made.append(NATSBus(urls, subject))
        return made[-1]

    yield make
    for bus in made:
        bus.close()


@pytest.fixture
def bus(server: NATS, make_bus: Callable[..., NATSBus]) -> NATSBus:
    """The bus of a process that names the server."""
    return make_bus(server.url)
