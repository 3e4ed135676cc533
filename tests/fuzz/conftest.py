from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from tests.fuzz.limits import LIMITS
from tests.fuzz.offers import offer
from tests.fuzz.profile import EXAMPLES
from tests.fuzz.seeds import World
from tests.fuzz.served import Served, cursors_of
from tests.fuzz.strict import be_strict
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.loop import LoopThread
from tests.support.peers import MODERN, Peers
from tests.support.protobuf import ProtobufWire


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A long run takes as long as it takes."""
    for item in items:
        if EXAMPLES and "fuzz" in item.path.parts:
            item.add_marker(pytest.mark.timeout(0))


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Requests are answered in other threads."""


@pytest.fixture
def served(
    transport: str,
    users: Any,
    flights: Any,
    declared: Declared,
    settings: Any,
    serving_loop: LoopThread,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Served]:
    """A server with a few flights, small limits, and tokens of people with different rights."""
    from django.core.asgi import get_asgi_application as get_django_application

    from mcp_django.routing import get_asgi_application

    settings.MCP = {**settings.MCP, **LIMITS}
    monkeypatch.setattr("mcp_django.push.sessions.streams._KEPT_SECONDS", 1)
    be_strict(monkeypatch)
    offer(declared)
    switch_on("flights_flight_mark_cancelled", "flights_flight_mark_on_time", "flights_flight_export_as_csv")
    caplog.set_level(logging.ERROR)
    tokens = {
        "admin": token_of(users.admin),
        "viewer": token_of(users.viewer, "read"),
        "ops": token_of(users.ops),
        "unknown": "mcp_unknown",
        "none": None,
    }
    peer = Peers("http-view-wsgi", serving_loop)(tokens["admin"])
    world = World(
        tokens,
        uris=_uris(peer),
        cursors=cursors_of(peer.result),
        tools=_tools(peer),
        prompts=["summary", "asking_prompt"],
    )
    django = get_django_application()
    application: Any = django if transport == "http-view-asgi" else get_asgi_application(django)
    if transport == "http-protobuf":
        application = ProtobufWire(application)
    made = Served(transport, world, serving_loop, caplog, application)
    yield made
    made.assert_bounded()
    made.close()


def _uris(peer: Any) -> list[str]:
    listed = [resource["uri"] for resource in peer.result(MODERN, "resources/list")["resources"]]
    page = peer.read("db://flights/flight?limit=1")
    return [
        *listed,
        page["next"],
        "db://flights/flight/1",
        "db://flights/flight.schema",
        "flights://about",
        "db://shop/tag/a%2Fb",
    ]


def _tools(peer: Any) -> list[str]:
    found: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        page = peer.result(MODERN, "tools/list", cursor)
        found += [tool["name"] for tool in page["tools"]]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}
