"""What an inventory tells to anybody, without a database."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, User
from django.contrib.sessions.models import Session
from django.http import HttpRequest
from django.test import override_settings
from rest_framework import serializers

from demo_project.flights.models import Airline, Disruption
from mcp_django import ModelMCP, site
from mcp_django.console.review import inventory
from tests.bridge.resources.inventory.conftest import Admin, run
from tests.shop.models import Making, Part, Product, Tag, Unwatched
from tests.support.declared import Declared

pytestmark = pytest.mark.every_database

CURE = "; register a ModelMCP for it to show it"


def test_what_is_declared_is_told_without_a_database(settings: Any) -> None:
    settings.MCP = {**settings.MCP, "LENDABLE": {"write": 8}}
    taken = inventory.build(site)

    assert list(taken) == [
        "site", "user", "scopes", "models", "operations", "tools", "resources", "templates", "prompts", "tool_list",
        "left_out", "admin", "failed", "below_middleware", "unmet",
    ]  # fmt: skip
    assert (taken["site"], taken["user"], taken["scopes"]) == ("mcp", None, ["read", "actions", "write"])
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
        "search": "note, flight__tailnum, flight__number",
        "serializer": None,
        "writes": {
            "create": {"consent": "preview", "by": "flights.add_disruption"},
            "update": {"consent": "preview", "by": "flights.change_disruption"},
            "delete": {"consent": "ask", "by": "flights.delete_disruption"},
        },
        "written": {
            "flight": "ModelChoiceField",
            "kind": "TypedChoiceField",
            "severity": "TypedChoiceField",
            "resolved": "BooleanField",
            "note": "CharField",
        },
        "not_written": "",
        "by_object": [],
        "hidden": {},
    }
    assert models["flights.flight"]["rows"] == "FlightAdmin.get_queryset"
    assert models["flights.flight"]["relations"] == {"disruptions": "flights.disruption"}
    assert models["auth.user"]["hidden"]["password"] == "looks like a secret, and is not named in fields"


def test_why_a_field_is_not_there_and_what_is_computed(declared: Declared) -> None:
    def age(obj: Any) -> int:
        return 1

    class ProductMCP(ModelMCP):
        fields = "__all__"
        exclude = ["stock"]

    class DisruptionMCP(ModelMCP):
        fields = ["flight", "reported_by", "kind"]

    declared.model(Product, ProductMCP)
    declared.unregister(User)
    declared.admin(User, None)
    declared.model(Disruption, DisruptionMCP)
    declared.admin(Airline, type("AirlineAdmin", (Admin,), {"list_display": ["name", age]}))

    models = inventory.build(site)["models"]

    assert models["flights.airline"]["computed"] == ["age"]
    assert models["shop.product"]["declared_by"] == "ProductMCP"
    assert models["shop.product"]["hidden"]["api_key"] == "looks like a secret, and is not named in fields"
    assert models["shop.product"]["hidden"]["stock"] == "is not shown"
    assert list(models["flights.disruption"]["fields"]) == ["id", "flight", "kind"]
    assert models["flights.disruption"]["hidden"]["reported_by"] == (
        "points to a model that is not shown, or whose objects are checked one by one"
    )


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
        "description": "Mark selected flights as cancelled. Acts on flights.flight rows, by ids or filter.",
        "arguments": ["ids", "filter", "pages", "confirm"],
        "scope": "actions",
        "permissions": ["change"],
        "read_only": False,
        "destructive": True,
        "idempotent": False,
        "open_world": False,
        "task": False,
        "consent": "preview",
        "starts": "off",
    }
    assert 300 < cost < 1_100
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
        "the action delete_selected": (
            "it is one of the whole AdminSite; name it in actions of a ModelAdmin to offer it"
        ),
        "django_tasks_database.dbtaskresult": f"the app django_tasks_database keeps secrets, logs or histories{CURE}",
        "mcp_django.accesstoken": "it holds the keys to the rest",
        "mcp_django.change": "it holds the keys to the rest",
        "mcp_django.call": "it holds the keys to the rest",
        "mcp_django.grant": "it holds the keys to the rest",
        "mcp_django.prompt": "it holds the keys to the rest",
        "mcp_django.restriction": "it holds the keys to the rest",
        "mcp_django.tokentemplate": "it holds the keys to the rest",
        "mcp_django.tool": "it holds the keys to the rest",
        "mcp_django_oauth.client": "it holds the keys to the rest",
        "sessions.session": f"the app sessions keeps secrets, logs or histories{CURE}",
        "shop.apikey": f"its primary key token looks like a secret{CURE}",
        "shop.unwatched": "has_view_permission says no",
    }


def test_without_the_bridge_the_admin_is_left_out(declared: Declared) -> None:
    with override_settings(MCP={"EXPOSE_ADMIN": False}):
        declared.unregister(User)
        declared.unregister(Group)
        declared.model(Tag, fields=["name"])
        taken = inventory.build(site)

    assert list(taken["models"]) == ["shop.tag"]
    assert taken["left_out"]["flights.flight"] == f"EXPOSE_ADMIN is off{CURE}"
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
        f"{hook} failed; taken as a refusal (RuntimeError)"
        for hook in (
            "<AskingAdmin shop.tag>.has_view_permission",
            "<CountingAdmin flights.airline>.get_list_display",
            # A form with tags asks whether the user may add one.
            "<ModelAdmin shop.book>.get_fieldsets",
            "<ModelAdmin shop.product>.get_fieldsets",
            "<ModelMCP flights.airline>.get_computed",
            "<ModelMCP flights.airline>.get_fields",
            "<ModelMCP shop.tag>.has_view_permission",
        )
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
    reading, acting = inventory.build(site, scopes=["read"]), inventory.build(site, scopes=["actions"])

    assert reading["scopes"] == ["read"]
    assert not [name for name, one in reading["tools"].items() if one["scope"] == "actions"]
    assert "flights_flight_export_as_csv" in reading["tools"]
    assert acting["models"] == {}
    assert acting["left_out"]["flights.flight"] == "the scope read is missing"
    assert acting["left_out"]["mcp_django.tool"] == "it holds the keys to the rest"


def test_two_inventories_of_the_same_project_are_the_same_text() -> None:
    assert run("--json") == run("--json")
    assert json.loads(run("--json")) == json.loads(json.dumps(inventory.build(site)))


def test_a_hook_that_decides_who_writes_is_named_and_what_a_form_has_beside_its_inlines(declared: Declared) -> None:
    class MakingInline(admin.TabularInline[Any, Any]):
        model = Making

    class PartAdmin(admin.ModelAdmin[Any]):
        fields = ["name"]
        inlines = [MakingInline]

        def has_change_permission(self, request: Any, obj: Any = None) -> bool:
            return True

    declared.admin(Part, PartAdmin)
    declared.model(Part, writable={"update"}, consent={"update": "ask"}, fields=None)

    part = inventory.build(site)["models"]["shop.part"]

    assert {name: one["consent"] for name, one in part["writes"].items()} == {"update": "ask"}
    assert part["writes"]["update"]["by"].endswith("PartAdmin.has_change_permission")
    assert set(part["written"]) == {"name", "makings.open"}


def test_a_form_that_cannot_be_made_is_told_with_the_reason(db: None, declared: Declared) -> None:
    class AirlineAdmin(admin.ModelAdmin[Any]):
        def get_form(self, request: Any, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
            raise KeyError("no tenant")

    declared.admin(Airline, AirlineAdmin)

    airline = inventory.build(site)["models"]["flights.airline"]

    assert airline["written"] == {}
    assert airline["not_written"] == "KeyError: 'no tenant'"
