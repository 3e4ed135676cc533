"""Clients that poll, and what the process holds for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mcp_django.push import hub as hubs
from mcp_django.push.hub import Hub
from tests.end_to_end.servers import wait_for
from tests.support.peers import ASGIPeer
from tests.support.polling import Polling

HTTP_ASGI = ("http-view-asgi", "http-asgi")
over_http = pytest.mark.parametrize("transport", HTTP_ASGI)

FLIGHT, OTHER = "db://flights/flight/1", "db://flights/flight/2"


@pytest.fixture
def polling(admin: Any) -> Polling:
    return Polling(admin)


@pytest.fixture
def watching(polling: Polling, flights: Any) -> Polling:
    """A client that watches a flight, and has polled once."""
    polling.peer.result(polling.revision, "resources/subscribe", {"uri": FLIGHT})
    assert polling.next(0) == []
    return polling


@pytest.fixture
def hub(admin: ASGIPeer) -> Callable[[], Hub]:
    return lambda: hubs._hubs[admin.loop.loop]


@pytest.fixture
def until_one_waits(hub: Callable[[], Hub]) -> Callable[[], None]:
    """Waits until one poll waits in the process."""
    return lambda: wait_for(lambda: len(hub().waiters._readers) == 1, "a poll that waits")
