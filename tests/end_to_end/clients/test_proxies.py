"""Official clients behind a proxy that takes the protocol's own headers away: without them there is no session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.end_to_end.clients.clients import CLIENTS, Conversations, RealClient, job, own_ticket
from tests.end_to_end.clients.conftest import report_of
from tests.end_to_end.clients.proxies import stripping_proxy
from tests.end_to_end.clients.serving import Desk

OVER_HTTP = tuple(client for client in CLIENTS if client.transport == "http")

pytestmark = [pytest.mark.more("one more client"), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def behind_proxy(desk: Desk) -> Iterator[Conversations]:
    """Conversations of all clients that speak Streamable HTTP, about what needs no session."""
    with stripping_proxy(desk.near.url) as url:
        begun = Conversations({client: job(desk, client, "stateless", url=url) for client in OVER_HTTP})
        yield begun
        begun.close()


@pytest.mark.parametrize("real_client", OVER_HTTP, ids=str)
def test_a_client_without_its_headers_lists_reads_and_calls(
    real_client: RealClient, behind_proxy: Conversations
) -> None:
    report: dict[str, Any] = report_of(real_client, behind_proxy)

    # A client of 2026-07-28 is told that its headers are missing, and goes the way of older ones.
    assert report["revision"] == min(real_client.revision, "2025-11-25")
    assert report["tools"][:2] == ["aggregate_records", "count"]
    assert report["prompts"] == ["reply"]
    assert report["rules"] == "# Rules\n\nOne ticket at a time."
    assert report["record"]["title"] == f"Ticket {own_ticket(real_client)}"
    assert report["found"][0] is False
    assert report["unknown"] == [-32602, "Unknown tool: no_such_tool. name: not a tool; tools/list names the tools"]
