"""The official Python SDK against the served demo, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourceUpdated, ToolsListChanged
from mcp_types import ResourceUpdatedNotification

from mcp_django import __version__
from tests.end_to_end.conftest import ROWS
from tests.end_to_end.sdk import connected, contents_of, text_of
from tests.end_to_end.servers import Person, Served
from tests.support.loop import LoopThread

T = TypeVar("T")
Talk = Callable[[Callable[[Client], Awaitable[T]]], T]

MODES = ("2026-07-28", "auto", "legacy")
ERAS = ("2026-07-28", "legacy")

pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")


@pytest.fixture
def talk(served: Served, token: str, mode: str, serving_loop: LoopThread) -> Talk[Any]:
    """``talk(conversation)``: what the conversation with a connected client returns."""

    async def run(conversation: Callable[[Client], Awaitable[T]]) -> T:
        async with connected(served, token, mode) as client:
            return await conversation(client)

    return lambda conversation: serving_loop.run(run(conversation), 60)


@pytest.mark.parametrize(("mode", "revision"), [("auto", "2026-07-28"), ("legacy", "2025-11-25")])
def test_the_client_agrees_with_the_server_on_the_newest_revision_of_its_era(talk: Talk[Any], revision: str) -> None:
    async def conversation(client: Client) -> tuple[str, Any, bool]:
        info = client.server_info
        await client.list_tools()
        resources = client.server_capabilities.resources
        return client.protocol_version, info, bool(resources and resources.subscribe)

    spoken, info, subscribes = talk(conversation)

    assert spoken == revision
    assert (info.name, info.version) == ("django", __version__)
    assert subscribes


@pytest.mark.parametrize("mode", MODES)
def test_the_lists_hold_what_the_demo_offers(talk: Talk[Any]) -> None:
    async def conversation(client: Client) -> tuple[Any, Any, Any]:
        tools = await client.list_tools()
        resources = await client.list_resources()
        templates = await client.list_resource_templates()
        return tools.tools, resources.resources, templates.resource_templates

    tools, resources, templates = talk(conversation)

    assert [tool.name for tool in tools] == [
        "aggregate_records",
        "create_record",
        "create_records",
        "delay_statistics",
        "delete_record",
        "describe_form",
        "describe_models",
        "find_records",
        "flights_flight_export_as_csv",
        "flights_flight_mark_cancelled",
        "get_change",
        "get_record",
        "preview_change",
        "undo_change",
        "update_record",
        "update_records",
    ]
    assert [str(resource.uri) for resource in resources] == [
        "db://flights/airline",
        "db://flights/airport",
        "db://flights/disruption",
        "db://flights/flight",
        "db://flights/plane",
        "db://flights/weather",
        "flights://about",
    ]
    assert "db://flights/flight/{id}" in [template.uri_template for template in templates]


@pytest.mark.parametrize("mode", ERAS)
def test_a_record_and_a_collection_are_read(talk: Talk[Any]) -> None:
    async def conversation(client: Client) -> tuple[Any, Any]:
        record = await client.read_resource("db://flights/flight/1")
        collection = await client.read_resource("db://flights/airline?order_by=-carrier&limit=2")
        return record.contents, collection.contents

    [record], [collection] = talk(conversation)

    assert (record.uri, record.mime_type) == ("db://flights/flight/1", "application/json")
    flight = json.loads(record.text)
    assert {name: flight[name] for name in ("id", "carrier", "number", "origin", "destination", "departs_at")} == {
        "id": 1,
        "carrier": "UA",
        "number": 1545,
        "origin": "EWR",
        "destination": "IAH",
        "departs_at": "2013-01-01T05:15:00-05:00",
    }
    page = json.loads(collection.text)
    assert page["columns"] == ["carrier", "name"]
    assert page["rows"] == [["YV", "Mesa Airlines Inc."], ["WN", "Southwest Airlines Co."]]
    assert page["next"].startswith("db://flights/airline?")


@pytest.mark.parametrize("mode", ERAS)
def test_a_collection_is_read_to_its_end_by_its_next_uris(talk: Talk[Any]) -> None:
    async def conversation(client: Client) -> list[int]:
        found: list[int] = []
        uri: str | None = "db://flights/flight?limit=80"
        while uri is not None:
            page = contents_of(await client.read_resource(uri))
            found += [row[0] for row in page["rows"]]
            uri = page.get("next")
        return found

    found = talk(conversation)

    assert sorted(found) == list(range(1, int(ROWS) + 1))


@pytest.mark.parametrize("mode", ERAS)
def test_the_query_tools_answer_with_structured_content(talk: Talk[Any]) -> None:
    async def conversation(client: Client) -> tuple[Any, Any, Any]:
        described = await client.call_tool("describe_models", {"model": "flights.flight"})
        found = await client.call_tool(
            "find_records",
            {"model": "flights.flight", "filter": {"origin": "JFK"}, "fields": ["number", "origin"], "limit": 2},
        )
        record = await client.call_tool("get_record", {"model": "flights.plane", "id": "N14228"})
        return described, found, record

    described, found, record = talk(conversation)

    assert described.structured_content["fields"]["origin"]["relation"] == "flights.airport"
    assert found.structured_content["columns"] == ["id", "number", "origin"]
    assert [row[2] for row in found.structured_content["rows"]] == ["JFK", "JFK"]
    assert json.loads(text_of(found)) == found.structured_content
    assert record.structured_content["manufacturer"] == "BOEING"


@pytest.mark.parametrize("mode", ERAS)
def test_an_action_changes_the_row_and_says_what_it_did(talk: Talk[Any], mode: str) -> None:
    key = 10 + ERAS.index(mode)

    async def conversation(client: Client) -> tuple[Any, Any]:
        done = await client.call_tool("flights_flight_mark_cancelled", {"ids": [key]})
        return done, await client.read_resource(f"db://flights/flight/{key}")

    done, read = talk(conversation)

    assert not done.is_error
    assert text_of(done) == "1 flight was marked as cancelled."
    assert contents_of(read)["status"] == "cancelled"


@pytest.mark.parametrize("mode", ERAS)
def test_a_file_of_an_action_comes_as_an_embedded_resource(talk: Talk[Any]) -> None:
    exported = talk(lambda client: client.call_tool("flights_flight_export_as_csv", {"ids": [1, 2]}))

    about, content = exported.content
    assert about.text == "attached: flights.csv, text/csv, 3 lines, 253 bytes"
    assert content.type == "resource"
    assert content.resource.mime_type == "text/csv"
    lines = content.resource.text.splitlines()
    assert lines[0].startswith("departs_at,carrier,number,origin,destination")
    assert len(lines) == 3


@pytest.mark.parametrize("mode", ERAS)
def test_wrong_arguments_are_an_error_that_says_what_is_right(talk: Talk[Any]) -> None:
    refused = talk(lambda client: client.call_tool("find_records", {"model": "flights.fligth"}))

    assert refused.is_error
    [error] = json.loads(text_of(refused))["errors"]
    assert error["field"] == "model"
    assert "Did you mean flights.flight?" in error["message"]


@pytest.mark.parametrize("mode", ERAS)
def test_a_tool_that_is_switched_off_is_answered_as_one_that_does_not_exist(talk: Talk[Any]) -> None:
    async def conversation(client: Client) -> list[tuple[int, str]]:
        refusals = []
        for name in ("flights_flight_mark_on_time", "flights_flight_no_such"):
            with pytest.raises(MCPError) as refusal:
                await client.call_tool(name, {"ids": [1]})
            refusals.append((refusal.value.code, refusal.value.message.replace(name, "<name>")))
        return refusals

    hidden, absent = talk(conversation)

    assert hidden == absent == (-32602, "Unknown tool: <name>. name: not a tool; tools/list names the tools")


@pytest.mark.parametrize("mode", ["legacy"])
def test_a_legacy_session_is_told_of_a_change_by_somebody_else(
    served: Served, token: str, mode: str, serving_loop: LoopThread
) -> None:
    async def conversation() -> list[str]:
        told: asyncio.Queue[str] = asyncio.Queue()

        async def handler(message: Any) -> None:
            if isinstance(message, ResourceUpdatedNotification):
                await told.put(str(message.params.uri))

        async with (
            connected(served, token, mode, message_handler=handler) as client,
            connected(served, token, mode) as somebody_else,
        ):
            await client.subscribe_resource("db://flights/flight/20")
            await client.subscribe_resource("db://flights/flight")
            await somebody_else.call_tool("flights_flight_mark_cancelled", {"ids": [20]})
            return sorted([await asyncio.wait_for(told.get(), 30) for _ in range(2)])

    told = serving_loop.run(conversation(), 60)

    assert told == ["db://flights/flight", "db://flights/flight/20"]


@pytest.mark.parametrize("mode", ["2026-07-28"])
def test_a_modern_listen_is_told_of_a_change_by_somebody_else(
    served: Served, token: str, mode: str, serving_loop: LoopThread
) -> None:
    async def conversation() -> tuple[Any, Any]:
        async with (
            connected(served, token, mode) as client,
            connected(served, token, mode) as somebody_else,
            client.listen(resource_subscriptions=["db://flights/flight/21"], tools_list_changed=True) as listening,
        ):
            await somebody_else.call_tool("flights_flight_mark_cancelled", {"ids": [21]})
            return listening.honored, await asyncio.wait_for(anext(listening), 30)

    honored, event = serving_loop.run(conversation(), 60)

    assert honored.resource_subscriptions == ["db://flights/flight/21"]
    assert honored.tools_list_changed is True
    assert event == ResourceUpdated(uri="db://flights/flight/21")


@pytest.mark.parametrize("mode", ERAS)
def test_the_cache_of_the_client_is_not_stale_after_a_change_that_it_was_not_told_of(
    served: Served, token: str, mode: str, serving_loop: LoopThread
) -> None:
    key = 30 + ERAS.index(mode)
    uri = f"db://flights/flight/{key}"

    async def conversation() -> list[str]:
        async with connected(served, token, mode) as client, connected(served, token, mode) as somebody_else:
            before = await client.read_resource(uri)
            await somebody_else.call_tool("flights_flight_mark_cancelled", {"ids": [key]})
            return [contents_of(before)["status"], contents_of(await client.read_resource(uri))["status"]]

    before, after = serving_loop.run(conversation(), 60)

    assert before != "cancelled"
    assert after == "cancelled"


def test_the_list_of_tools_is_not_stale_after_an_administrator_switched_one_on(
    served: Served, token: str, serving_loop: LoopThread
) -> None:
    administrator = Person(served, "admin", "admin")
    page = administrator.client.get("/admin/mcp_django/tool/?q=mark_on_time").text
    key = page.partition('name="form-0-id" value="')[2].partition('"')[0]

    async def conversation() -> tuple[list[str], Any, list[str]]:
        async with connected(served, token, "2026-07-28") as client:
            before = [tool.name for tool in (await client.list_tools()).tools]
            async with client.listen(tools_list_changed=True) as listening:
                path = f"/admin/mcp_django/tool/{key}/change/"
                await asyncio.to_thread(administrator.post, path, enabled="on", description="")
                event = await asyncio.wait_for(anext(listening), 30)
            return before, event, [tool.name for tool in (await client.list_tools()).tools]

    before, event, after = serving_loop.run(conversation(), 60)
    administrator.post(f"/admin/mcp_django/tool/{key}/change/", description="")
    administrator.close()

    assert event == ToolsListChanged()
    assert set(after) - set(before) == {"flights_flight_mark_on_time"}
