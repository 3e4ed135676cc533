"""An inventory that is held against its lock."""

from __future__ import annotations

import json
import shlex
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.http import HttpRequest

from demo_project.flights.admin import JFK_OPERATIONS, FlightAdmin
from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django import site
from mcp_django.console.review import inventory
from mcp_django.models import Prompt, Tool
from tests.bridge.resources.inventory.conftest import Admin, refused, run
from tests.shop.models import Unwatched
from tests.support.data import switch_on
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database


def test_a_lock_holds_until_something_changes(tmp_path: Path, declared: Declared) -> None:
    path = tmp_path / "exposure.json"

    written = run("--lock", path)
    checked = run("--lock", path, "--check")
    lock = json.loads(path.read_text())

    assert written == f"{path} holds what a superuser with the scopes read, actions, write reaches.\n"
    assert checked == f"{path} is up to date.\n"
    assert lock == json.loads(json.dumps(inventory.lock(inventory.build(site))))
    assert set(lock) == {
        "site", "user", "scopes", "models", "tools", "resources", "templates", "prompts", "tool_list"
    }  # fmt: skip
    assert "bytes" not in lock["tools"]["find_records"] and "hidden" not in lock["models"]["auth.user"]


def test_a_lock_tells_what_has_changed_and_how_to_accept_it(tmp_path: Path, declared: Declared) -> None:
    path = tmp_path / "exposure.json"

    class OpenFlightAdmin(Admin):  # type: ignore[misc]
        list_display = ["departs_at", "number", "hidden_plan"]
        fields = ["number", "departs_at", "plane"]
        actions = ["mark_cancelled", "wipe"]
        mark_cancelled = FlightAdmin.mark_cancelled

        @admin.action(description="Wipe", permissions=["delete"])
        def wipe(self, request: HttpRequest, queryset: Any) -> None:
            queryset.delete()

        def hidden_plan(self, obj: Any) -> str:
            return ""

    def total(request: HttpRequest) -> Decimal:
        """A sum."""
        return Decimal(0)

    declared.tool(total, read_only=True, permission="flights.view_flight")
    run("--lock", path)
    declared.admin(Flight, OpenFlightAdmin)
    declared.admin(Airline, None)
    declared.model(Unwatched, fields=["name"])
    site._functions["total"].permission = ""

    told = refused("--lock", path, "--check")

    was = json.loads(path.read_text())["tool_list"]["bytes"]
    now = inventory.build(site)["tool_list"]["bytes"]
    head, changed, tail = told.split("\n\n")
    assert (
        head == f"{path} is out of date. What a superuser with the scopes read, actions, write can reach has changed:"
    )
    lines = changed.splitlines()
    assert [line for line in lines if "flights.flight" not in line and "relation" not in line] == [
        "- model flights.airline: carrier, name",
        '~ model flights.disruption: search "note, flight__number", was "note, flight__tailnum, flight__number"',
        "+ model shop.unwatched: id, name",
        "- tool flights_flight_export_as_csv",
        "- tool flights_flight_mark_on_time",
        "+ tool flights_flight_wipe",
        '~ tool total: permissions [], was ["flights.view_flight"]',
        f"~ tool list: {now} bytes, was {was}",
    ]
    assert '~ model flights.flight: rows "all", was "FlightAdmin.get_queryset"' in lines
    assert '~ model flights.flight: computed ["hidden_plan"], was []' in lines
    assert "- field flights.flight.carrier" in lines
    assert "- relation flights.airport.arrivals" in lines
    assert "- field flights.flight.notes" in lines
    assert not [line for line in lines if line.startswith("+ field")]
    assert tail == (
        "If all of it is meant, accept it and commit the file:\n"
        f"manage.py mcp_inventory --site mcp --scopes read,actions,write --lock {path}"
    )

    run("--lock", path)
    assert run("--lock", path, "--check") == f"{path} is up to date.\n"


def test_a_field_that_is_added_or_becomes_another_is_told(declared: Declared, tmp_path: Path) -> None:
    path = tmp_path / "exposure.json"
    declared.model(Disruption, fields=["kind", "flight"])
    run("--lock", path)
    lock = json.loads(path.read_text())
    lock["models"]["flights.disruption"]["fields"]["kind"]["type"] = "integer"
    del lock["models"]["flights.disruption"]["fields"]["flight"]
    path.write_text(json.dumps(lock))

    changed = refused("--lock", path, "--check").split("\n\n")[1]

    assert changed.splitlines() == [
        "+ field flights.disruption.flight",
        '~ field flights.disruption.kind: {"type":"text"}, was {"type":"integer"}',
    ]


def test_a_lock_of_a_user_is_held_against_that_user(viewer: User, tmp_path: Path) -> None:
    path = tmp_path / "vera.json"
    run("--user", "vera", "--lock", path)
    group = Group.objects.create(name=JFK_OPERATIONS)

    viewer.groups.add(group)
    same = run("--user", "vera", "--lock", path, "--check")
    viewer.user_permissions.clear()
    changed = refused("--user", "vera", "--lock", path, "--check")
    of_another = refused("--lock", path, "--check")

    assert same == f"{path} is up to date.\n"
    assert changed.startswith(
        f"{path} is out of date. What the user vera with the scopes read can reach has changed:\n\n- model "
    )
    assert f"manage.py mcp_inventory --site mcp --user vera --scopes read --lock {path}" in changed
    assert of_another == (
        f"{path} holds what the user vera with the scopes read reaches: check it with "
        "--site mcp --user vera --scopes read."
    )


def test_a_lock_that_an_attacker_or_a_merge_spoilt_does_not_pass(tmp_path: Path) -> None:
    path = tmp_path / "exposure.json"
    run("--lock", path)
    whole = json.loads(path.read_text())
    spoilt = [
        "", "<<<<<<< HEAD", "[]", "{}", "null", json.dumps({**whole, "models": []}),
        json.dumps({**whole, "tools": {"find_records": "x"}}), json.dumps({**whole, "scopes": "read"}),
        json.dumps({**whole, "scopes": [1]}),
    ]  # fmt: skip

    for text in spoilt:
        path.write_text(text)
        assert refused("--lock", path, "--check") == (
            f"{path} is no lock of mcp_inventory. Write it anew with:\n"
            f"manage.py mcp_inventory --site mcp --scopes read,actions,write --lock {path}"
        )
    path.write_text(json.dumps({**whole, "models": {**whole["models"], "x.y": {"fields": None}}}))
    assert "\n- model x.y\n" in refused("--lock", path, "--check")
    path.write_text(json.dumps({**whole, "more": 1}))
    assert "~ the file: written by another version of mcp_django" in refused("--lock", path, "--check")


def test_a_lock_does_not_depend_on_the_database(db: None, tmp_path: Path) -> None:
    path = tmp_path / "exposure.json"
    run("--lock", path)
    switch_on(*site.tools)
    Tool.objects.update_or_create(site="mcp", name="find_records", defaults={"enabled": False, "description": "Look."})
    Prompt.objects.create(site="mcp", name="written", text="Sum up.")
    User.objects.create_superuser("root")

    assert run("--lock", path, "--check") == f"{path} is up to date.\n"


@pytest.mark.parametrize("user", [(), ("--user", "root", "--scopes", "read,actions,write")])
def test_a_lock_is_about_code_and_does_not_depend_on_read_only(
    db: None, tmp_path: Path, settings: Any, user: tuple[str, ...]
) -> None:
    User.objects.create_superuser("root")
    switch_on(*site.tools)
    path = tmp_path / "exposure.json"
    run(*user, "--lock", path)
    settings.MCP = {**settings.MCP, "READ_ONLY": True}

    assert run(*user, "--lock", path, "--check") == f"{path} is up to date.\n"
    # People read what there is.
    assert "update_record" in path.read_text() and "update_record" not in run(*user)


def test_the_way_to_accept_is_a_command_for_a_shell(db: None, tmp_path: Path) -> None:
    User.objects.create_superuser("ada lovelace; rm -r .")
    path = tmp_path / "a lock.json"

    text = refused("--user", "ada lovelace; rm -r .", "--lock", path, "--check")

    _, command = text.splitlines()
    assert shlex.split(command) == [
        "manage.py", "mcp_inventory", "--site", "mcp", "--user", "ada lovelace; rm -r .", "--scopes", "read", "--lock",
        str(path),
    ]  # fmt: skip
