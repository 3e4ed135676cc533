"""Ops work with the flights that leave from JFK: no other row is reached, over whatever transport."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demo_project.flights.models import Disruption, Flight
from tests.support.peers import MODERN, Peer

pytestmark = pytest.mark.every_database

JFK = [1, 4, 7, 10]


def rows(peer: Peer, model: str, **asked: Any) -> list[list[Any]]:
    found: list[list[Any]] = peer.call("find_records", model=model, **asked)["structuredContent"]["rows"]
    return found


@pytest.fixture
def disruptions(flights: Any) -> list[Disruption]:
    """One of a flight that ops see, and one of a flight that they do not."""
    return [Disruption.objects.create(flight=flights[index], kind="crew", note=str(index)) for index in (0, 1)]


def test_find_records_returns_rows_of_the_queryset_alone(ops: Peer, flights: Any) -> None:
    everything = rows(ops, "flights.flight", fields=["origin"])
    from_elsewhere = rows(ops, "flights.flight", filter={"origin": "EWR"})
    negated = rows(ops, "flights.flight", filter={"not": {"origin": "JFK"}})
    alternative = rows(ops, "flights.flight", filter={"any": [{"id": 2}, {"id": 4}]}, fields=["id"])

    assert everything == [[key, "JFK"] for key in JFK]
    assert from_elsewhere == negated == []
    assert alternative == [[4]]


def test_get_record_and_resources_reach_rows_of_the_queryset_alone(ops: Peer, flights: Any) -> None:
    own = ops.read("db://flights/flight/4")
    other = ops.error(MODERN, "resources/read", {"uri": "db://flights/flight/2"})
    collection = ops.read("db://flights/flight?fields=id")

    assert own["origin"] == "JFK"
    assert other["data"]["reason"] == "RESOURCE_NOT_FOUND"
    assert collection["rows"] == [[key] for key in JFK]


def test_an_action_on_one_hidden_row_changes_nothing(ops: Peer, flights: Any) -> None:
    refused = ops.call("flights_flight_mark_cancelled", ids=[1, 2, 4])

    said = json.loads(refused["content"][0]["text"])
    assert said == {
        "error": "Some ids do not exist. Nothing was changed.",
        "errors": [{"field": "ids.1", "message": "no flights.flight with the primary key 2.", "received": "2"}],
    }
    assert not Flight.objects.filter(pk__in=[1, 2, 4], status="cancelled").exists()


def test_an_action_on_own_rows_runs(ops: Peer, flights: Any) -> None:
    done = ops.call("flights_flight_mark_cancelled", ids=[1, "4"])

    assert done["content"] == [{"type": "text", "text": "2 flights were marked as cancelled."}]
    assert Flight.objects.filter(pk__in=[1, 4], status="cancelled").count() == 2


def test_a_function_tool_counts_own_rows_alone(ops: Peer, admin: Peer, flights: Any) -> None:
    counted = ops.call("delay_statistics", origin="EWR")["structuredContent"]
    by_admin = admin.call("delay_statistics", origin="EWR")["structuredContent"]

    assert counted["flights"] == 0
    assert by_admin["flights"] == 4


def test_a_cursor_of_another_user_opens_nothing(ops: Peer, admin: Peer, flights: Any) -> None:
    page = admin.call("find_records", model="flights.flight", limit=1)["structuredContent"]
    stolen = ops.call("find_records", model="flights.flight", limit=1, cursor=page["next_cursor"])

    assert json.loads(stolen["content"][0]["text"])["errors"][0]["field"] == "cursor"


def test_watching_a_hidden_row_is_not_honoured(ops: Peer, flights: Any) -> None:
    if not ops.push:
        return

    watching = ops.watch(MODERN, ["db://flights/flight/1", "db://flights/flight/2"])
    refused = ops.error("2025-06-18", "resources/subscribe", {"uri": "db://flights/flight/2"})
    flights[1].save()
    flights[0].save()

    assert watching.honoured == {"resourceSubscriptions": ["db://flights/flight/1"]}
    assert refused["data"]["reason"] == "RESOURCE_NOT_FOUND"
    assert watching.uris(1) == ["db://flights/flight/1"]


def test_a_key_that_points_to_a_hidden_row_reads_null(ops: Peer, admin: Peer, disruptions: list[Disruption]) -> None:
    own, other = (disruption.pk for disruption in disruptions)

    found = rows(ops, "flights.disruption", fields=["flight"], order_by=["id"])
    by_admin = rows(admin, "flights.disruption", fields=["flight"], order_by=["id"])
    record = ops.read(f"db://flights/disruption/{other}")
    fetched = ops.call("get_record", model="flights.disruption", id=other)["structuredContent"]

    assert found == [[own, 1], [other, None]]
    assert by_admin == [[own, 1], [other, 2]]
    assert record["flight"] is fetched["flight"] is None


@pytest.mark.parametrize(("asked", "expected"), [
    ({"flight": 1}, ["own"]),
    ({"flight__in": [1, 2]}, ["own"]),
    ({"flight__gt": 1}, []),
    ({"flight__gte": 1}, ["own"]),
    ({"flight__range": [0, 9]}, ["own"]),
    ({"flight": None}, ["other"]),
    ({"flight__isnull": True}, ["other"]),
    ({"flight__isnull": False}, ["own"]),
    ({"not": {"flight__isnull": False}}, ["other"]),
    ({"not": {"flight__isnull": True}}, ["own"]),
])  # fmt: skip
@pytest.mark.parametrize("transport", ["http-asgi"])
def test_finding_a_hidden_row_through_a_key_that_points_to_it(
    ops: Peer, disruptions: list[Disruption], asked: Any, expected: list[str]
) -> None:
    keys = {"own": disruptions[0].pk, "other": disruptions[1].pk}

    found = rows(ops, "flights.disruption", filter=asked, fields=["id"], order_by=["id"])

    assert found == [[keys[name]] for name in expected]


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_naming_the_key_of_a_hidden_row_is_naming_no_key(ops: Peer, disruptions: list[Disruption]) -> None:
    """Word by word, also within ``not``: the flight 2 is hidden, and there is no flight 99."""
    for asked in ({"flight": "?"}, {"not": {"flight": "?"}}):
        hidden, absent = (
            ops.call("find_records", model="flights.disruption", filter=json.loads(json.dumps(asked).replace("?", key)))
            for key in ("2", "99")
        )
        assert hidden["isError"] is True
        assert str(hidden).replace("2", "?") == str(absent).replace("99", "?")


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_ordering_by_a_key_that_may_be_hidden(ops: Peer, admin: Peer, disruptions: list[Disruption]) -> None:
    refused = ops.call("find_records", model="flights.disruption", order_by=["flight"])
    by_admin = rows(admin, "flights.disruption", fields=["flight"], order_by=["-flight"])

    assert "no field to order by 'flight'" in refused["content"][0]["text"]
    assert [row[1] for row in by_admin] == [2, 1]


@pytest.mark.parametrize("transport", ["http-asgi"])
def test_searching_through_a_relation_to_hidden_rows(ops: Peer, disruptions: list[Disruption]) -> None:
    by_number = rows(ops, "flights.disruption", search="1001")

    assert by_number == []
