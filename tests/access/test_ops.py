"""Ops work with the flights that leave from JFK: no other row is reached, over whatever transport."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demo_project.flights.models import Disruption
from tests.support.peers import MODERN, Peer


@pytest.fixture
def disruptions(flights: Any) -> list[Disruption]:
    """One of a flight that ops see, and one of a flight that they do not."""
    return [Disruption.objects.create(flight=flights[index], kind="crew", note=str(index)) for index in (0, 1)]


def test_a_function_tool_counts_own_rows_alone(ops: Peer, admin: Peer, flights: Any) -> None:
    counted = ops.call("delay_statistics", origin="EWR")["structuredContent"]
    by_admin = admin.call("delay_statistics", origin="EWR")["structuredContent"]

    assert counted["flights"] == 0
    assert by_admin["flights"] == 4


def test_watching_a_hidden_row_is_not_honoured(ops: Peer, flights: Any) -> None:
    watching = ops.watch(MODERN, ["db://flights/flight/1", "db://flights/flight/2"])
    refused = ops.error("2025-06-18", "resources/subscribe", {"uri": "db://flights/flight/2"})
    flights[1].save()
    flights[0].save()

    assert watching.honoured == {"resourceSubscriptions": ["db://flights/flight/1"]}
    assert refused["data"]["reason"] == "RESOURCE_NOT_FOUND"
    assert watching.uris(1) == ["db://flights/flight/1"]


def test_naming_the_key_of_a_hidden_row_is_naming_no_key(ops: Peer, disruptions: list[Disruption]) -> None:
    """Word by word, also within ``not``: the flight 2 is hidden, and there is no flight 99."""
    for asked in ({"flight": "?"}, {"not": {"flight": "?"}}):
        hidden, absent = (
            ops.call("find_records", model="flights.disruption", filter=json.loads(json.dumps(asked).replace("?", key)))
            for key in ("2", "99")
        )
        assert hidden["isError"] is True
        assert str(hidden).replace("2", "?") == str(absent).replace("99", "?")
