"""What agents write through the forms of the admin is told to those who watch, like any save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from demo_project.flights.models import Flight
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from tests.bridge.writes.conftest import Writer
from tests.push.conftest import assert_nothing_but, watch
from tests.support.data import Users, switch_on
from tests.support.peers import MODERN, Peer

AIRLINE = "db://flights/airline/UA"


@pytest.fixture
def agent(users: Users) -> Writer:
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    return Writer(users.admin)


def about(flight: Flight) -> dict[str, Any]:
    return {"model": "flights.flight", "id": str(flight.pk), "values": {"notes": "fog"}}


def test_a_change_is_told_once_and_its_preview_never(
    admin: Peer, agent: Writer, jfk: Flight, touch: Callable[[], None]
) -> None:
    record = f"db://flights/flight/{jfk.pk}"
    watching = watch(admin, MODERN, record, AIRLINE)

    shown = agent.ask("update_record", **about(jfk))
    assert_nothing_but(watching, AIRLINE, touch)
    agent.ask("update_record", **about(jfk), confirm=shown["confirm"])

    assert watching.uris(1) == [record]


def test_a_change_that_is_refused_is_told_to_nobody(
    admin: Peer, agent: Writer, jfk: Flight, touch: Callable[[], None]
) -> None:
    watching = watch(admin, MODERN, f"db://flights/flight/{jfk.pk}", AIRLINE)
    shown = agent.ask("update_record", **about(jfk))
    Flight.objects.filter(pk=jfk.pk).update(notes="meanwhile")

    agent.refused("update_record", **about(jfk), confirm=shown["confirm"])

    assert_nothing_but(watching, AIRLINE, touch)


def test_a_new_record_changes_its_collection(admin: Peer, agent: Writer, jfk: Flight) -> None:
    watching = watch(admin, MODERN, "db://flights/disruption")

    agent.confirmed("create_record", model="flights.disruption", values={"flight": jfk.pk, "kind": "weather"})

    assert watching.uris(1) == ["db://flights/disruption"]
