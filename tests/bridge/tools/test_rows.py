"""What administrators say of tools: switched off, described otherwise, for some groups, and it holds at once."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.core.management import call_command
from django.test import override_settings

from mcp_django import site
from mcp_django.access import overrides
from mcp_django.bridge.override_rows import make_tool_rows
from mcp_django.models import Tool
from tests.support.peers import MODERN, Peer

CACHED = {"TOKEN_CACHE_SECONDS": 300.0, "SWEEP_SECONDS": 0.2}


def refused(peer: Peer, name: str, **arguments: Any) -> bool:
    answer = peer.request(MODERN, "tools/call", {"name": name, "arguments": arguments})
    return "error" in answer and answer["error"]["data"]["reason"] == "TOOL_NOT_FOUND"


@pytest.fixture
def rows(users: Any) -> dict[str, Tool]:
    """The rows of all tools, by name; those that an earlier test left are gone."""
    Tool.objects.exclude(name__in=site.tools).delete()
    make_tool_rows("default")
    return {row.name: row for row in Tool.objects.all()}


@pytest.mark.every_database
def test_every_tool_has_a_row_that_says_what_the_tool_says(rows: dict[str, Tool]) -> None:
    assert set(rows) == set(site.tools)
    assert {name for name, row in rows.items() if row.enabled} == {
        "aggregate_records", "delay_statistics", "describe_models", "find_records", "flights_flight_export_as_csv",
        "flights_flight_mark_cancelled", "get_record", "request_rights",
    }  # fmt: skip


def test_rows_that_are_there_are_left_alone_and_migrating_makes_the_others(rows: dict[str, Tool]) -> None:
    Tool.objects.filter(name="get_record").update(enabled=False)

    assert make_tool_rows("default") == 0
    assert Tool.objects.get(name="get_record").enabled is False
    Tool.objects.exclude(name="get_record").delete()
    call_command("migrate", verbosity=0)
    assert set(Tool.objects.values_list("name", flat=True)) == set(site.tools)
    assert Tool.objects.get(name="get_record").enabled is False


def test_switching_a_tool_off_hides_and_refuses_it_though_it_is_cached(
    admin: Peer, rows: dict[str, Tool], flights: Any
) -> None:
    with override_settings(MCP=CACHED):
        before = admin.tools()
        for name in ("get_record", "delay_statistics"):
            rows[name].enabled = False
            rows[name].save()

        assert {"get_record", "delay_statistics"} <= set(before)
        assert not {"get_record", "delay_statistics"} & set(admin.tools())
        assert refused(admin, "get_record", model="flights.flight", id=1)
        assert refused(admin, "delay_statistics", origin="JFK")
        rows["get_record"].enabled = True
        rows["get_record"].save()
        assert not refused(admin, "get_record", model="flights.flight", id=1)


def test_a_description_takes_the_place_of_the_declared_one(admin: Peer, rows: dict[str, Tool]) -> None:
    with override_settings(MCP=CACHED):
        admin.tools()
        rows["find_records"].description = "Ask me."
        rows["find_records"].save()
        tools = {tool["name"]: tool["description"] for tool in admin.result(MODERN, "tools/list")["tools"]}

    assert tools["find_records"] == "Ask me."
    assert tools["get_record"].startswith("Read one record")


def test_groups_restrict_a_tool_to_their_members(admin: Peer, ops: Peer, users: Any, rows: dict[str, Tool]) -> None:
    with override_settings(MCP=CACHED):
        admin.tools(), ops.tools()
        rows["get_record"].groups.add(Group.objects.get(name="JFK operations"))

        assert "get_record" in ops.tools()
        assert "get_record" not in admin.tools()
        assert refused(admin, "get_record", model="flights.flight", id=1)
        users.ops.groups.clear()
        assert "get_record" not in ops.tools()
        rows["get_record"].groups.clear()
        assert "get_record" in admin.tools()


def test_a_row_of_another_site_says_nothing_here(admin: Peer, rows: dict[str, Tool]) -> None:
    Tool.objects.create(site="other", name="get_record_2", enabled=False)
    Tool.objects.create(site="other", name="get_record", enabled=False)

    assert "get_record" in admin.tools()


def test_a_tool_that_may_write_is_asked_about_anew_whatever_is_remembered(
    admin: Peer, rows: dict[str, Tool], flights: Any
) -> None:
    """Another process may have switched it off without a word reaching this one."""
    name = "flights_flight_mark_cancelled"
    with override_settings(MCP=CACHED):
        assert name in admin.tools()
        Tool.objects.filter(name__in=[name, "describe_models"]).update(enabled=False)

        assert not refused(admin, "describe_models")
        assert refused(admin, name, ids=[1])


def test_switches_are_read_once_in_a_while_and_for_each_list(admin: Peer, rows: dict[str, Tool]) -> None:
    with override_settings(MCP=CACHED):
        admin.call("describe_models")
        Tool.objects.update(enabled=False)
        remembered = not refused(admin, "describe_models")
        overrides.forget()

        assert remembered
        assert refused(admin, "describe_models")
        Tool.objects.filter(name="describe_models").update(enabled=True)
        assert admin.tools() == ["describe_models"]
        assert not refused(admin, "describe_models")
