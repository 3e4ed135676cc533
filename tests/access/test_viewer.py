"""The viewer may look at flights, airports and airlines, and at nothing else, whatever is asked and how."""

from __future__ import annotations

import json
from typing import Any

import pytest

from demo_project.flights.models import Disruption
from tests.support.asking import errors_of
from tests.support.peers import MODERN, Peer

MODELS = ["flights.airline", "flights.airport", "flights.flight"]


def same_but_for(name: str, other: str, message: Any, other_message: Any) -> None:
    """Assert that two answers are byte for byte the same, once the ids and the names that they echo are made equal."""
    message.pop("id", None), other_message.pop("id", None)
    assert json.dumps(message).replace(name, other) == json.dumps(other_message)


def test_the_tools_name_only_visible_models(viewer: Peer, flights: Any) -> None:
    tools = {tool["name"]: tool for tool in viewer.result(MODERN, "tools/list")["tools"]}

    assert sorted(tools) == [
        "aggregate_records", "delay_statistics", "describe_models", "find_records", "flights_flight_export_as_csv",
        "get_record",
    ]  # fmt: skip
    for name in ("describe_models", "find_records", "get_record", "aggregate_records"):
        assert tools[name]["inputSchema"]["properties"]["model"]["enum"] == MODELS
    assert sorted(viewer.call("describe_models")["structuredContent"]["models"]) == MODELS


def test_resources_and_templates_are_those_of_visible_models(viewer: Peer, flights: Any) -> None:
    resources = viewer.result(MODERN, "resources/list")["resources"]
    templates = viewer.result(MODERN, "resources/templates/list")["resourceTemplates"]

    airline = "carrier,name,search,order_by,limit"
    airport = "faa,name,latitude,longitude,altitude,time_zone,utc_offset,daylight_saving,search,order_by,limit"
    flight = (
        "id,departs_at,carrier,number,origin,destination,status,departure_delay,arrival_delay,tailnum,notes,air_time,"
        "distance,search,order_by,limit"
    )
    assert [resource["uri"] for resource in resources] == [
        "db://flights/airline", "db://flights/airport", "db://flights/flight", "flights://about",
    ]  # fmt: skip
    assert [template["uriTemplate"] for template in templates] == [
        "db://flights/airline/{carrier}", f"db://flights/airline{{?{airline}}}",
        f"db://flights/airline{{?group_by,measures,{airline}}}",
        "db://flights/airport/{faa}", f"db://flights/airport{{?{airport}}}",
        f"db://flights/airport{{?group_by,measures,{airport}}}",
        "db://flights/flight/{id}", f"db://flights/flight{{?group_by,measures,{flight}}}",
        f"db://flights/flight{{?{flight}}}",
        "db://{app_label}/{model}.schema", "flights://board/{airport}/{day}",
    ]  # fmt: skip


@pytest.mark.http_and_duplex
def test_a_relation_to_a_hidden_model_is_no_field(viewer: Peer, flights: Any) -> None:
    described = viewer.call("describe_models", model="flights.flight")["structuredContent"]["fields"]
    page = viewer.call("find_records", model="flights.flight")["structuredContent"]
    record = viewer.read("db://flights/flight/2")
    schema = viewer.read("db://flights/flight.schema")

    assert "carrier" in described and "plane" not in described
    assert "carrier" in page["columns"] and "plane" not in page["columns"]
    assert record["carrier"] == "AA" and "plane" not in record
    assert "plane" not in schema["properties"]
    assert "plane" not in json.dumps([described, page, schema]).replace("the plane is not on record", "")


@pytest.mark.http_and_duplex
def test_probing_for_a_hidden_model_by_name(viewer: Peer, flights: Any) -> None:
    message = f"no model 'shop.product'. Allowed: {', '.join(MODELS)}."

    for tool in ("find_records", "describe_models", "get_record", "aggregate_records"):
        key = {"id": "N14228"} if tool == "get_record" else {}
        hidden, absent = (
            viewer.request(MODERN, "tools/call", {"name": tool, "arguments": {"model": model, **key}})
            for model in ("shop.product", "shop.prxduct")
        )
        assert errors_of(hidden["result"]) == [{"field": "model", "message": message, "received": "shop.product"}]
        same_but_for("shop.product", "shop.prxduct", hidden, absent)


def test_probing_for_a_hidden_resource_by_uri(viewer: Peer, flights: Any) -> None:
    for hidden, absent in (
        ("db://flights/plane", "db://flights/plxne"),
        ("db://flights/plane/N14228", "db://flights/plane/N00000"),
        ("db://flights/plane.schema", "db://flights/plxne.schema"),
        ("db://flights/plane?limit=1", "db://flights/plxne?limit=1"),
        ("db://mcp_django/accesstoken", "db://mcp_django/axxesstoken"),
        ("db://auth/user/1", "db://auth/usxr/1"),
    ):
        answer = viewer.request(MODERN, "resources/read", {"uri": hidden})
        other = viewer.request(MODERN, "resources/read", {"uri": absent})

        message = "not a resource; resources/list names the resources"
        errors = [{"field": "uri", "message": message, "received": hidden}]
        assert answer["error"] == {
            "code": -32602, "message": "Resource not found.",
            "data": {"reason": "RESOURCE_NOT_FOUND", "uri": hidden, "errors": errors},
        }  # fmt: skip
        same_but_for(hidden, absent, answer, other)


def test_a_hidden_resource_is_watched_by_nobody(viewer: Peer, flights: Any) -> None:
    hidden = viewer.request("2025-11-25", "resources/subscribe", {"uri": "db://flights/plane"})
    absent = viewer.request("2025-11-25", "resources/subscribe", {"uri": "db://flights/plxne"})
    watching = viewer.watch(MODERN, ["db://flights/plane", "db://flights/plane/N14228", "db://flights/flight/1"])

    assert hidden["error"]["code"] == -32002
    same_but_for("db://flights/plane", "db://flights/plxne", hidden, absent)
    assert watching.honoured == {"resourceSubscriptions": ["db://flights/flight/1"]}


def test_an_action_without_its_permission_does_not_exist(viewer: Peer, flights: Any) -> None:
    hidden = viewer.request(MODERN, "tools/call", {"name": "flights_flight_mark_cancelled", "arguments": {"ids": [1]}})
    absent = viewer.request(MODERN, "tools/call", {"name": "flights_flight_mark_cancxlled", "arguments": {"ids": [1]}})
    flights[0].refresh_from_db()

    assert hidden["error"]["data"]["reason"] == "TOOL_NOT_FOUND"
    same_but_for("mark_cancelled", "mark_cancxlled", hidden, absent)
    assert flights[0].status == "on_time"


# Ops, who work with the flights that leave from JFK.


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


def test_naming_the_key_of_a_hidden_row_is_naming_no_key(ops: Peer, flights: Any) -> None:
    """Word by word, also within ``not``: the flight 2 is hidden, and there is no flight 99."""
    Disruption.objects.create(flight=flights[1], kind="crew")
    for asked in ({"flight": "?"}, {"not": {"flight": "?"}}):
        hidden, absent = (
            ops.call("find_records", model="flights.disruption", filter=json.loads(json.dumps(asked).replace("?", key)))
            for key in ("2", "99")
        )
        assert hidden["isError"] is True
        assert str(hidden).replace("2", "?") == str(absent).replace("99", "?")
