"""Queries that are watched: how often they are asked here, and what their clients were told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from django.conf import LazySettings

from demo_project.flights.models import Airport, Flight, Plane
from mcp_django import ModelMCP
from mcp_django.bridge.resources import uris
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind
from mcp_django.push.hub import Hub
from mcp_django.push.live_answers import LiveAnswer, Viewer
from tests.axes import PUSHING
from tests.push.conftest import next_uri
from tests.support.loop import LoopThread
from tests.support.peers import LEGACY, MODERN, Watching

ON_EACH = pytest.mark.parametrize("transport", PUSHING)

EACH_ERA = pytest.mark.parametrize("revision", [LEGACY[-1], MODERN])

#: Flights 1, 4, 7 … leave from JFK, which is all that ops may see.
JFK = "db://flights/flight?origin=JFK&fields=number&limit=20"

#: Sets have neither limit nor cursor.
SET = "db://flights/flight?origin=JFK&fields=number"

DELAYED = "db://flights/flight?departure_delay__gte=600"

COUNTED = "db://flights/flight?group_by=carrier&measures=count,avg:departure_delay"

#: Handled after all that was committed before it.
MARK = Control(ControlKind.MAIL, "mark")

QUIET = "db://flights/plane/N14228"


class WithoutJFK(ModelMCP):
    """Shows every airport but one."""

    def get_queryset(self, request: Any) -> Any:
        return super().get_queryset(request).exclude(faa="JFK")


Told = Callable[[Watching], list[str]]


@pytest.fixture(autouse=True)
def _often(settings: LazySettings) -> None:
    settings.CHANNEL_LAYERS = {}
    settings.MCP = {**settings.MCP, "LIVE_SECONDS": 0.02}


@pytest.fixture
def settle(hub: Callable[[], Hub], serving_loop: LoopThread) -> Callable[[], None]:
    """Waits until all that was committed so far is looked at, and told."""

    async def wait() -> None:
        for _ in range(2):  # The first may be heard together with changes that are looked at only then.
            heard = hub().waiters.expect(MARK)
            hub().receive(Changes(), [MARK])
            await asyncio.wait_for(heard.wait(), 60)
            hub().waiters.unexpect(MARK, heard)
        while any(query.scheduled for query in hub().live._queries.values()):
            await asyncio.sleep(0.005)

    return lambda: serving_loop.run(wait())


def touch() -> None:
    """Tell everybody who watches QUIET, so that a test need not wait for silence."""
    Plane.objects.get(pk="N14228").save()


@pytest.fixture
def each_told(settle: Callable[[], None]) -> Callable[..., list[list[str]]]:
    """What each of the streams, which watch QUIET too, was told of all that was committed so far."""

    def told(*streams: Watching) -> list[list[str]]:
        settle()
        touch()
        return [heard_of(stream) for stream in streams]

    return told


@pytest.fixture
def told(each_told: Callable[..., list[list[str]]]) -> Told:
    """The same of one stream."""
    return lambda watching: each_told(watching)[0]


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[uris.Target]:
    """The queries that were computed since, in their order."""
    computed: list[uris.Target] = []
    answer = Viewer.answer

    def noted(self: Viewer, target: uris.Target) -> LiveAnswer | None:
        computed.append(target)
        return answer(self, target)

    monkeypatch.setattr(Viewer, "answer", noted)
    return computed


def change(model: Any, pk: Any, **values: Any) -> None:
    row = model.objects.get(pk=pk)
    for name, value in values.items():
        setattr(row, name, value)
    row.save()


def heard_of(watching: Watching) -> list[str]:
    """What is told until QUIET is."""
    found = set()
    while (uri := next_uri(watching)) != QUIET:
        found.add(uri)
    return sorted(found)


def move(pk: int, origin: str) -> None:
    change(Flight, pk, origin=Airport.objects.get(pk=origin))
