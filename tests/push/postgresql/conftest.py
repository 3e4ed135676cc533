"""The bus of PostgreSQL, and a channel that hears what it tells."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import LazySettings

import mcp_django
from mcp_django.core.events import bus as buses
from mcp_django.core.events.postgresql import PostgreSQLBus
from tests.push.channels import (
    Channel,
    connect,
    listening,
)


@pytest.fixture
def bus(transactional_db: None, settings: LazySettings) -> Iterator[PostgreSQLBus]:
    """The bus of this process."""
    settings.MCP = {**settings.MCP, "BUS": {"BACKEND": "mcp_django.buses.PostgreSQLBus"}}
    bus = buses.get_bus()
    assert isinstance(bus, PostgreSQLBus)
    yield bus
    assert mcp_django.flush(60)
    bus.close()


@pytest.fixture
def channel(bus: PostgreSQLBus) -> Iterator[Channel]:
    """What the database tells."""
    with listening() as channel:
        yield channel


def all_that_was_told(channel: Channel) -> list[dict[str, Any]]:
    """The events, those of the publisher's thread too."""
    assert mcp_django.flush(60)
    return channel.events()


def _in_transactions() -> list[str]:
    with connect() as other:
        rows = other.execute(
            "SELECT query FROM pg_stat_activity "
            "WHERE datname = current_database() AND state LIKE 'idle in transaction%'"
        )
        return [query for (query,) in rows]
