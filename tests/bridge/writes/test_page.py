"""The examples of docs/writes.md are what the tools answer."""

from __future__ import annotations

import json
from typing import Any

from demo_project.flights.models import Flight
from mcp_django.bridge.writes.tools import WRITE_TOOLS
from tests.bridge.writes.conftest import Writer
from tests.support.data import Users, switch_on
from tests.support.pages import blocks

CALL, PREVIEW, APPLIED, PENDING, MANY, MANY_SHOWN = (json.loads(block) for block in blocks("docs/writes.md", "json"))


def flight_of_the_page(flights: Any) -> None:
    flight = Flight.objects.get(pk=1)
    flight.pk, flight.number, flight.status = int(CALL["arguments"]["id"]), 1, "on_time"
    flight.save(force_insert=True)


def test_a_change_is_previewed_and_made_as_the_page_shows(root: Writer, flights: Any) -> None:
    flight_of_the_page(flights)

    shown = root.ask(CALL["name"], **CALL["arguments"])
    made = root.ask(CALL["name"], **CALL["arguments"], confirm=shown.pop("confirm"))

    assert shown == {name: value for name, value in PREVIEW.items() if name != "confirm"}
    assert {**made, "change": APPLIED["change"], "undo_until": APPLIED["undo_until"]} == APPLIED


def test_many_are_previewed_as_the_page_shows(root: Writer, flights: Any) -> None:
    Flight.objects.filter(origin_id=MANY["arguments"]["filter"]["origin"]).update(carrier_id="UA", status="on_time")

    shown = root.ask(MANY["name"], **MANY["arguments"])

    assert shown.keys() == MANY_SHOWN.keys()
    assert shown["changes"][0]["diff"] == MANY_SHOWN["changes"][0]["diff"] and shown["count"] == 4


def test_a_delete_waits_as_the_page_shows(users: Users, flights: Any) -> None:
    """The client cannot be asked."""
    switch_on(*(tool.name for tool in WRITE_TOOLS))
    agent = Writer(users.admin)
    flight_of_the_page(flights)
    call = {"model": "flights.flight", "ids": [CALL["arguments"]["id"]]}

    made = agent.confirmed("delete_record", **call)

    assert set(PENDING) <= set(made)
    assert made["status"] == "pending"
    assert made["resource"] == f"mcp-change://{made['change']}"
