"""What a user reaches, and what is printed for people."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.http import HttpRequest

from mcp_django import MCPSite, site, tool
from mcp_django.console.review import inventory
from mcp_django.models import Prompt, Tool
from mcp_django.protocol.jsonrpc import encode
from tests.bridge.resources.inventory.conftest import run
from tests.support.asking import DirectPeer
from tests.support.base import MODERN
from tests.support.data import switch_on

pytestmark = pytest.mark.every_database


# To a user, by the database.


def test_a_users_inventory_is_what_the_user_is_listed(viewer: User) -> None:
    switch_on(*(name for name in site.tools if name.startswith("flights_")))

    for scopes in (["read"], ["read", "actions", "write"], ["actions"]):
        peer = DirectPeer(viewer, *scopes)
        taken = json.loads(run("--json", "--user", "vera", "--scopes", ",".join(scopes)))
        listed = peer.result(MODERN, "tools/list")["tools"]
        resources = peer.result(MODERN, "resources/list")["resources"]
        assert list(taken["tools"]) == [one["name"] for one in listed]
        assert taken["tool_list"] == {"tools": len(listed), "bytes": len(encode(listed))}
        assert [one["bytes"] for one in taken["tools"].values()] == [len(encode(one)) for one in listed]
        assert set(taken["models"]) == {one["name"] for one in resources if one["uri"].startswith("db://")}
        assert set(taken["prompts"]) == {one["name"] for one in peer.result(MODERN, "prompts/list")["prompts"]}
        collections = {f"db://{label.replace('.', '/')}" for label in taken["models"]}
        assert {*taken["resources"], *collections} == {one["uri"] for one in resources}
        assert (taken["user"], taken["scopes"]) == ("vera", scopes)


def test_what_a_user_does_not_reach_is_told_with_the_reason(viewer: User) -> None:
    taken = json.loads(run("--json", "--user", "vera"))
    printed = run("--user", "vera")

    assert set(taken["models"]) == {"flights.airline", "flights.flight"}
    assert taken["left_out"]["flights.plane"] == "has_view_permission says no"
    assert taken["models"]["flights.flight"]["hidden"]["plane"] == (
        "points to a model that is not shown, or whose objects are checked one by one"
    )
    assert taken["tools"].keys().isdisjoint({"flights_flight_mark_cancelled", "flights_flight_export_as_csv"})
    assert printed.startswith("What the user vera with the scopes read reaches on the site mcp.\n")
    assert "Models (2)" in printed and "switched" not in printed


def test_switches_and_words_of_administrators_count_for_a_user(viewer: User) -> None:
    before = json.loads(run("--json", "--user", "vera"))
    switch_on("flights_flight_export_as_csv")
    Tool.objects.update_or_create(site="mcp", name="find_records", defaults={"description": "Look."})
    Tool.objects.update_or_create(site="mcp", name="get_record", defaults={"enabled": False})
    Prompt.objects.create(site="mcp", name="written", text="Sum up {{ what }}.")

    after = json.loads(run("--json", "--user", "vera"))

    assert set(after["tools"]) - set(before["tools"]) == {"flights_flight_export_as_csv"}
    assert set(before["tools"]) - set(after["tools"]) == {"get_record"}
    assert after["tools"]["find_records"]["description"] == "Look."
    assert set(after["prompts"]) - set(before["prompts"]) == {"written"}
    assert after["prompts"]["written"]["arguments"] == ["what"]


def test_a_users_inventory_is_taken_within_the_call_context(viewer: User) -> None:
    entered = []

    class Guarded(MCPSite):
        def call_context(self, request: Any) -> Any:
            entered.append(request.user.get_username())
            return super().call_context(request)

    guarded = Guarded("guarded")

    @tool(site=guarded, read_only=True)
    def here(request: HttpRequest) -> str:
        """Says nothing."""
        return ""

    of_user = json.loads(run("--json", "--site", "guarded", "--user", "vera"))
    of_anybody = json.loads(run("--json", "--site", "guarded"))

    assert entered == ["vera"]
    assert "here" in of_user["tools"] and "here" in of_anybody["tools"]


# For people.


def test_what_is_printed_for_people(viewer: User) -> None:
    said = {"enabled": True, "restricted": True}
    Tool.objects.update_or_create(site="mcp", name="flights_flight_export_as_csv", defaults=said)
    Tool.objects.filter(name="get_record").delete()
    cost = inventory.build(site)

    printed = run()

    joined = " ".join(printed.split())
    tools, size = cost["tools"], cost["tool_list"]["bytes"]
    assert printed.startswith("What a superuser with the scopes read, actions, write reaches on the site mcp.\n")
    assert f"Models ({len(cost['models'])}) " in joined
    assert (
        "flights.flight by FlightAdmin: the rows of FlightAdmin.get_queryset fields: id, departs_at, carrier -> "
        in (joined)
    )
    assert "without password: looks like a secret, and is not named in fields" in joined
    assert f"Tools ({len(tools)}, {size:,} bytes in each list of tools)" in joined
    export = f"{tools['flights_flight_export_as_csv']['bytes']:,} bytes, needs view"
    assert (
        f"flights_flight_export_as_csv: action of flights.flight, reads, {export}; starts off, switched on now "
        "for some groups" in joined
    )
    assert f"get_record: query, reads, {tools['get_record']['bytes']:,} bytes; starts on " in joined
    assert "punctuality_report, needs flights.view_flight" in joined
    assert "shop.apikey: its primary key token looks like a secret" in joined
    assert max(map(len, printed.splitlines())) <= 110
