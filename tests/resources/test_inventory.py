"""``manage.py mcp_inventory``: what people are shown for review, and the lock that fails when it changes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.core.checks import Warning
from django.core.management import CommandError, call_command
from django.db import connection
from django.http import HttpRequest
from django.test import override_settings
from rest_framework import serializers

from demo_project.flights.admin import JFK_OPERATIONS, FlightAdmin
from demo_project.flights.models import Airline, Disruption, Flight
from mcp_django import MCPSite, ModelMCP, inventory, site, tool
from mcp_django.models import Prompt, Tool
from mcp_django.protocol.jsonrpc import encode
from tests.shop.models import Product, Tag, Unwatched
from tests.support.asking import DirectPeer
from tests.support.base import MODERN
from tests.support.data import make_staff, switch_on
from tests.support.declared import Declared

ROOT = Path(__file__).parents[2]
Admin: Any = admin.ModelAdmin


def run(*arguments: Any) -> str:
    printed = StringIO()
    call_command("mcp_inventory", *arguments, stdout=printed, stderr=StringIO())
    return printed.getvalue()


def refused(*arguments: Any) -> str:
    with pytest.raises(CommandError) as raised:
        run(*arguments)
    return str(raised.value)


@pytest.fixture
def viewer(db: None) -> User:
    return make_staff("vera", "flights.view_flight", "flights.view_airline")


# To anybody, as it is declared. These tests have no database, and fail if one is asked.


def test_what_is_declared_is_told_without_a_database() -> None:
    taken = inventory.build(site)

    assert list(taken) == [
        "site", "user", "scopes", "models", "tools", "resources", "templates", "prompts", "tool_list", "left_out",
        "failed",
    ]  # fmt: skip
    assert (taken["site"], taken["user"], taken["scopes"]) == ("mcp", None, ["read", "actions"])
    assert set(taken["models"]) == set(site.models)
    assert set(taken["tools"]) == set(site.tools)
    assert set(taken["resources"]) | set(taken["templates"]) == set(site.resources)
    assert set(taken["prompts"]) == set(site.prompts)
    assert taken["failed"] == []


def test_a_model_is_told_with_its_fields_its_rows_and_what_it_hides() -> None:
    models = inventory.build(site)["models"]

    assert models["flights.disruption"] == {
        "uri": "db://flights/disruption",
        "declared_by": "DisruptionAdmin",
        "rows": "all",
        "fields": {
            "id": {"type": "integer"},
            "reported_at": {"type": "datetime"},
            "flight": {"type": "integer", "relation": "flights.flight"},
            "kind": {"type": "text"},
            "severity": {"type": "text"},
            "reported_by": {"type": "integer", "relation": "auth.user"},
            "resolved": {"type": "boolean"},
            "note": {"type": "text"},
        },
        "relations": {},
        "computed": [],
        "serializer": None,
        "hidden": {},
    }
    assert models["flights.flight"]["rows"] == "FlightAdmin.get_queryset"
    assert models["flights.flight"]["relations"] == {"disruptions": "flights.disruption"}
    assert models["auth.user"]["hidden"]["password"] == "looks like a secret, and is not named in fields"
    assert models["auth.user"]["hidden"]["last_login"] == "is not shown"


def test_why_a_field_is_not_there(declared: Declared) -> None:
    class ProductMCP(ModelMCP):
        fields = "__all__"
        exclude = ["stock"]

    class DisruptionMCP(ModelMCP):
        fields = ["flight", "reported_by", "kind"]

    declared.model(Product, ProductMCP)
    declared.admin(User, None)
    declared.model(Disruption, DisruptionMCP)

    models = inventory.build(site)["models"]

    assert models["shop.product"]["declared_by"] == "ProductMCP"
    assert models["shop.product"]["hidden"]["api_key"] == "looks like a secret, and is not named in fields"
    assert models["shop.product"]["hidden"]["stock"] == "is not shown"
    assert list(models["flights.disruption"]["fields"]) == ["id", "flight", "kind"]
    assert models["flights.disruption"]["hidden"]["reported_by"] == (
        "points to a model that is not shown, or whose objects are checked one by one"
    )


def test_what_is_computed_is_told(declared: Declared) -> None:
    def age(obj: Any) -> int:
        return 1

    declared.admin(Airline, type("AirlineAdmin", (Admin,), {"list_display": ["name", age]}))

    assert inventory.build(site)["models"]["flights.airline"]["computed"] == ["age"]


def test_a_serializer_is_told_with_what_it_makes_of_a_record(declared: Declared, db: None) -> None:
    class AirlineSerializer(serializers.Serializer[Any]):
        carrier = serializers.CharField()
        slogan = serializers.SerializerMethodField()

        def get_slogan(self, airline: Airline) -> str:
            return ""

    class BrokenSerializer(serializers.Serializer[Any]):
        def get_fields(self) -> Any:
            return {"name": serializers.ChoiceField(list(Airline.objects.values_list("name")))}

    declared.model(Airline, fields=["carrier", "name"], serializer_class=AirlineSerializer)
    declared.model(Tag, fields=["name"], serializer_class=BrokenSerializer)

    taken = inventory.build(site)

    assert taken["models"]["flights.airline"]["serializer"] == {
        "class": "AirlineSerializer",
        "fields": ["carrier", "slogan"],
    }
    assert taken["models"]["shop.tag"]["serializer"] == {"class": "BrokenSerializer", "fields": []}
    assert taken["failed"] == ["<TagMCP shop.tag>: BrokenSerializer failed; taken as a refusal (RuntimeError)"]
    assert "a record by AirlineSerializer: carrier, slogan" in run()


def test_a_tool_is_told_with_what_it_needs_and_does() -> None:
    tools = inventory.build(site)["tools"]

    cost = tools["flights_flight_mark_cancelled"].pop("bytes")
    assert tools["flights_flight_mark_cancelled"] == {
        "kind": "action of flights.flight",
        "description": "Mark selected flights as cancelled. Acts on the flights.flight rows with the given ids.",
        "arguments": ["ids"],
        "scope": "actions",
        "permissions": ["change"],
        "read_only": False,
        "destructive": True,
        "idempotent": False,
        "open_world": False,
        "task": False,
        "starts": "off",
    }
    assert 300 < cost < 700
    assert tools["flights_flight_export_as_csv"]["permissions"] == ["view"]
    assert tools["delay_statistics"]["kind"] == "function"
    assert tools["delay_statistics"]["permissions"] == ["flights.view_flight"]
    assert tools["delay_statistics"]["arguments"] == ["origin", "carrier"]
    assert tools["find_records"]["kind"] == "query"
    assert (tools["find_records"]["scope"], tools["find_records"]["starts"]) == ("read", "on")


def test_what_is_never_exposed_is_told_with_the_reason(declared: Declared) -> None:
    declared.admin(Session, Admin)
    declared.admin(Unwatched, type("HiddenAdmin", (Admin,), {"has_view_permission": lambda *args: False}))

    left_out = inventory.build(site)["left_out"]

    assert left_out == {
        "django_tasks_database.dbtaskresult": "the app django_tasks_database keeps secrets, logs or histories",
        "mcp_django.accesstoken": "it holds the keys to the rest",
        "mcp_django.prompt": "it holds the keys to the rest",
        "mcp_django.tool": "it holds the keys to the rest",
        "sessions.session": "the app sessions keeps secrets, logs or histories",
        "shop.apikey": "its primary key token looks like a secret",
        "shop.unwatched": "has_view_permission says no",
    }


def test_without_the_bridge_the_admin_is_left_out(declared: Declared) -> None:
    with override_settings(MCP={"EXPOSE_ADMIN": False}):
        declared.forget()
        declared.model(Tag, fields=["name"])
        taken = inventory.build(site)

    assert list(taken["models"]) == ["shop.tag"]
    assert taken["left_out"]["flights.flight"] == "EXPOSE_ADMIN is off, and it is not registered"
    assert taken["left_out"]["mcp_django.tool"] == "it holds the keys to the rest"


def test_a_hook_that_asks_a_database_is_named_and_nothing_is_logged(
    declared: Declared, caplog: pytest.LogCaptureFixture
) -> None:
    class CountingAdmin(Admin):  # type: ignore[misc]
        def get_list_display(self, request: HttpRequest) -> list[str]:
            return ["name", "carrier"][: Airline.objects.count() + 1]

    class AskingAdmin(Admin):  # type: ignore[misc]
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            return Group.objects.exists()

    declared.admin(Airline, CountingAdmin)
    declared.admin(Tag, AskingAdmin)

    taken = inventory.build(site)

    assert list(taken["models"]["flights.airline"]["fields"]) == ["carrier"]
    assert taken["left_out"]["shop.tag"] == "has_view_permission failed with RuntimeError"
    assert taken["failed"] == [
        "<ModelMCP flights.airline>.get_computed failed; taken as a refusal (RuntimeError)",
        "<ModelMCP flights.airline>.get_fields failed; taken as a refusal (RuntimeError)",
        "<ModelMCP shop.tag>.has_view_permission failed; taken as a refusal (RuntimeError)",
    ]
    assert caplog.records == []


def test_hooks_may_ask_for_the_groups_of_the_superuser(declared: Declared) -> None:
    class GroupsAdmin(Admin):  # type: ignore[misc]
        def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
            known = request.user.is_authenticated and not request.user.is_anonymous
            return known and not request.user.groups.filter(name="banned").exists()  # type: ignore[union-attr]

    declared.admin(Airline, GroupsAdmin)

    assert "flights.airline" in inventory.build(site)["models"]


def test_the_scopes_narrow_what_is_declared() -> None:
    taken = inventory.build(site, scopes=["read"])

    assert taken["scopes"] == ["read"]
    assert not [name for name, one in taken["tools"].items() if one["scope"] == "actions"]
    assert "flights_flight_export_as_csv" in taken["tools"]


def test_two_inventories_of_the_same_project_are_the_same_text() -> None:
    assert run("--json") == run("--json")
    assert json.loads(run("--json")) == json.loads(json.dumps(inventory.build(site)))


# To a user, by the database.


@pytest.mark.parametrize("scopes", [["read"], ["read", "actions"], ["actions"]])
def test_a_users_inventory_is_what_the_user_is_listed(viewer: User, scopes: list[str]) -> None:
    switch_on(*(name for name in site.tools if name.startswith("flights_")))
    peer = DirectPeer(viewer, *scopes)

    taken = json.loads(run("--json", "--user", "vera", "--scopes", ",".join(scopes)))

    listed = peer.result(MODERN, "tools/list")["tools"]
    collections = {
        one["name"] for one in peer.result(MODERN, "resources/list")["resources"] if one["uri"].startswith("db://")
    }
    assert list(taken["tools"]) == [one["name"] for one in listed]
    assert taken["tool_list"] == {"tools": len(listed), "bytes": len(encode(listed))}
    assert {name: one["bytes"] for name, one in taken["tools"].items()} == {
        one["name"]: len(encode(one)) for one in listed
    }
    assert set(taken["models"]) == collections
    assert set(taken["prompts"]) == {one["name"] for one in peer.result(MODERN, "prompts/list")["prompts"]}
    assert {*taken["resources"], *(f"db://{label.replace('.', '/')}" for label in taken["models"])} == {
        one["uri"] for one in peer.result(MODERN, "resources/list")["resources"]
    }
    assert (taken["user"], taken["scopes"]) == ("vera", scopes)


def test_what_a_user_does_not_reach_is_told_with_the_reason(viewer: User) -> None:
    taken = json.loads(run("--json", "--user", "vera"))

    assert set(taken["models"]) == {"flights.airline", "flights.flight"}
    assert taken["left_out"]["flights.plane"] == "has_view_permission says no"
    assert taken["models"]["flights.flight"]["hidden"]["plane"] == (
        "points to a model that is not shown, or whose objects are checked one by one"
    )
    assert taken["tools"].keys().isdisjoint({"flights_flight_mark_cancelled", "flights_flight_export_as_csv"})


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
    assert printed.startswith("What a superuser with the scopes read, actions reaches on the site mcp.\n")
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


def test_what_a_user_reaches_is_printed_for_people(viewer: User) -> None:
    printed = run("--user", "vera")

    assert printed.startswith("What the user vera with the scopes read reaches on the site mcp.\n")
    assert "Models (2)" in printed
    assert "switched" not in printed


# The lock.


def test_a_lock_holds_until_something_changes(tmp_path: Path, declared: Declared) -> None:
    path = tmp_path / "exposure.json"

    written = run("--lock", path)
    checked = run("--lock", path, "--check")
    lock = json.loads(path.read_text())

    assert written == f"{path} holds what a superuser with the scopes read, actions reaches.\n"
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
    assert head == f"What a superuser with the scopes read, actions reaches is not what {path} says:"
    lines = changed.splitlines()
    assert [line for line in lines if "flights.flight" not in line and "relation" not in line] == [
        "- model flights.airline: carrier, name",
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
        f"manage.py mcp_inventory --site mcp --scopes read,actions --lock {path}"
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
    assert changed.startswith(f"What the user vera with the scopes read reaches is not what {path} says:\n\n- model ")
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
            f"manage.py mcp_inventory --site mcp --scopes read,actions --lock {path}"
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


def test_a_fresh_checkout_without_any_database_is_held_against_its_lock(tmp_path: Path) -> None:
    """As in CI: nothing is migrated, and no file is made where the database would be."""
    environment = {**os.environ, "DEMO_DIR": str(tmp_path / "demo"), "DJANGO_SETTINGS_MODULE": "demo_project.settings"}
    path = tmp_path / "exposure.json"

    def manage(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "manage.py", "mcp_inventory", *arguments], cwd=ROOT, env=environment, text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip

    written, checked = manage("--lock", str(path)), manage("--lock", str(path), "--check")
    files = list((tmp_path / "demo").iterdir())
    lock = json.loads(path.read_text())
    lock["models"]["flights.flight"]["fields"].pop("notes")
    path.write_text(json.dumps(lock))
    changed, printed = manage("--lock", str(path), "--check"), manage()

    assert (written.returncode, checked.returncode, files) == (0, 0, [])
    assert checked.stdout == f"{path} is up to date.\n"
    assert changed.returncode == 1
    assert "+ field flights.flight.notes\n" in changed.stderr
    assert (printed.returncode, printed.stderr) == (0, "")
    assert "starts off" in printed.stdout and "switched" not in printed.stdout


def test_the_way_to_accept_is_a_command_for_a_shell(db: None, tmp_path: Path) -> None:
    User.objects.create_superuser("ada lovelace; rm -r .")
    path = tmp_path / "a lock.json"

    text = refused("--user", "ada lovelace; rm -r .", "--lock", path, "--check")

    _, command = text.splitlines()
    assert shlex.split(command) == [
        "manage.py", "mcp_inventory", "--site", "mcp", "--user", "ada lovelace; rm -r .", "--scopes", "read", "--lock",
        str(path),
    ]  # fmt: skip


# Mistakes.


@pytest.mark.parametrize(("arguments", "text"), [
    (["--check"], "--check: name with --lock FILE the file to compare with."),
    (["--user", "nobody"], "There is no user 'nobody'. Make one with: manage.py createsuperuser"),
    (["--scopes", "write"], "--scopes: unknown scope 'write'; the scopes are read, actions."),
    (["--site", "mpc"], "--site: there is no site 'mpc'. Did you mean mcp?"),
    (["--json", "--lock", "x"], "Error: argument --lock: not allowed with argument --json"),
    (["--lock", "/nowhere/x", "--check"], "There is no /nowhere/x. Write it with:\nmanage.py mcp_inventory --site mcp "
     "--scopes read,actions --lock /nowhere/x"),
    (["--lock", "/nowhere/x"], "/nowhere/x cannot be written: No such file or directory."),
    (["--lock", "/", "--check"], "/ cannot be read: Is a directory."),
])  # fmt: skip
def test_a_mistake_is_told(db: None, arguments: list[str], text: str) -> None:
    assert refused(*arguments) == text


def test_checks_speak_beside_it(declared: Declared) -> None:
    """A reviewer is told of a named secret, on standard error, and the JSON stays JSON."""
    declared.model(Product, fields=["name", "api_key"])
    out, err = StringIO(), StringIO()

    call_command("mcp_inventory", "--json", stdout=out, stderr=err, skip_checks=False)

    assert "api_key" in json.loads(out.getvalue())["models"]["shop.product"]["fields"]
    assert "mcp_django.W005" in err.getvalue()
    assert Warning.__name__.upper() in err.getvalue().upper()


def test_the_database_is_given_back(db: None) -> None:
    inventory.build(site)

    assert not {"connect", "cursor", "chunked_cursor"} & vars(connection).keys()
    assert User.objects.count() == 0
