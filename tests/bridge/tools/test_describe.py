"""describe_models: what it says is what can be asked, and costs few bytes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.db import connection, models
from django.test.utils import CaptureQueriesContext, isolate_apps

from demo_project.flights.models import Airport, Flight
from mcp_django import MCPSite, ModelMCP, site
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.protocol.jsonrpc import encode
from tests.shop.models import Product, Tag
from tests.support.asking import DirectPeer, described, errors_of, listed
from tests.support.data import Users, make_staff
from tests.support.declared import Declared
from tests.support.peers import MODERN

QUERY_TOOLS = ("aggregate_records", "describe_models", "find_records", "get_record")


MODELS = ["airline", "airport", "disruption", "flight", "plane", "weather"]


@pytest.fixture
def root(db: None) -> DirectPeer:
    return DirectPeer(User.objects.create_superuser("root"))


def test_a_model_is_described_without_a_look_at_the_actions_of_others(
    root: DirectPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    decide = catalog._decide

    def noted(tool: BaseTool, *args: Any) -> Any:
        asked.append(tool.name)
        return decide(tool, *args)

    monkeypatch.setattr(catalog, "_decide", noted)

    for model in ("airport", "flight"):
        asked.clear()
        described(root, f"flights.{model}")
        assert {name for name in asked if name not in QUERY_TOOLS} == {
            name for name in site.tools if name.startswith(f"flights_{model}_")
        }


def test_a_model_is_described_by_overrides_that_are_read_once(root: DirectPeer) -> None:
    with CaptureQueriesContext(connection) as captured:
        described(root, "flights.flight")

    assert len([query for query in captured.captured_queries if 'FROM "mcp_django_tool"' in query["sql"]]) == 1


def test_a_model_is_described_whole(root: DirectPeer) -> None:
    assert described(root, "flights.disruption") == {
        "model": "flights.disruption",
        "title": "disruption",
        "uri": "db://flights/disruption",
        "fields": {
            "id": {"type": "integer", "primary_key": True},
            "reported_at": {"type": "datetime"},
            "flight": {"type": "integer", "relation": "flights.flight"},
            "kind": {
                "type": "text",
                "choices": {
                    "weather": "weather",
                    "technical": "technical fault",
                    "crew": "crew",
                    "air_traffic": "air traffic control",
                    "security": "security",
                    "other": "other",
                },
            },
            "severity": {"type": "text", "choices": {"minor": "minor", "major": "major", "critical": "critical"}},
            "reported_by": {"type": "integer", "relation": "auth.user", "null": True},
            "resolved": {"type": "boolean"},
            "note": {"type": "text", "help": "What happened, in a sentence or two."},
        },
        "time_zone": "Date-times are in America/New_York.",
        "today": described(root, "flights.disruption")["today"],
        "watching": described(root, "flights.disruption")["watching"],
        "lookups": described(root, "flights.disruption")["lookups"],
        "lookups_help": "A part takes gt, gte, lt, lte, in, range in turn, as date__in.",
        "week_days": "week_day: 1 is Sunday, 7 is Saturday; iso_week_day: 1 is Monday, 7 is Sunday.",
        "indexed": ["id", "reported_at", "flight", "reported_by"],
        "search_fields": ["note", "flight__tailnum", "flight__number"],
        "examples": [
            {
                "tool": "find_records",
                "arguments": {
                    "model": "flights.disruption",
                    "filter": {"kind": "weather"},
                    "order_by": ["-reported_at"],
                    "limit": 5,
                },
            },
            {
                "tool": "aggregate_records",
                "arguments": {"model": "flights.disruption", "group_by": ["flight"]},
            },
        ],
    }


@pytest.mark.every_database
def test_the_examples_of_every_model_can_be_called(users: Users, flights: Any) -> None:
    hidden = ["disruption", "plane", "weather"]
    for user, absent in ((users.admin, []), (users.ops, []), (users.viewer, hidden)):
        peer = DirectPeer(user)
        results = {model: peer.call("describe_models", model=f"flights.{model}") for model in MODELS}
        assert [model for model in MODELS if results[model]["isError"]] == absent
        for model in set(MODELS) - set(absent):
            examples = results[model]["structuredContent"]["examples"]
            assert len(examples) == 2
            for example in examples:
                answer = peer.call(example["tool"], **example["arguments"])
                assert not answer["isError"], answer


@pytest.mark.every_database
def test_the_examples_of_every_kind_of_field_can_be_called(root: DirectPeer, declared: Declared) -> None:
    for model in (Product, Tag, User):
        everything: dict[str, Any] = {"fields": "__all__", "use_admin": False}
        declared.model(model, type("Everything", (ModelMCP,), everything))
        for example in described(root, model._meta.label_lower)["examples"]:
            answer = root.call(example["tool"], **example["arguments"])
            assert not answer["isError"], answer


def test_a_model_whose_rows_are_asked_one_by_one_has_examples_without_aggregates(
    root: DirectPeer, flights: Any, declared: Declared
) -> None:
    class OneByOne(ModelMCP):
        def has_view_permission(self, request: Any, obj: Any = None) -> bool:
            return True

    declared.model(Airport, OneByOne)

    examples = described(root, "flights.airport")["examples"]

    assert [example["tool"] for example in examples] == ["find_records", "find_records"]
    assert not any(root.call("find_records", **example["arguments"])["isError"] for example in examples)


def test_relations_and_computed_columns_are_described(root: DirectPeer, declared: Declared) -> None:
    class Admin(admin.ModelAdmin[Airport]):
        list_display = ["faa", "shout"]

        @admin.display(description="In capitals", ordering="name")
        def shout(self, obj: Airport) -> str:
            return obj.name.upper()

    declared.admin(Airport, Admin)

    found = described(root, "flights.airport")

    assert found["computed"] == {"shout": {"title": "In capitals", "order_by": "name"}}
    assert found["relations"] == {
        "departures": "flights.flight", "arrivals": "flights.flight", "weather": "flights.weather"
    }  # fmt: skip
    answer = root.call("find_records", model="flights.airport", fields=["shout", "departures__count"])
    assert answer["structuredContent"]["columns"] == ["faa", "shout", "departures__count"]


def test_a_field_that_no_filter_may_name_is_marked_and_paths_are_told(root: DirectPeer, declared: Declared) -> None:
    class FlightMCP(ModelMCP):
        fields = ["number", "carrier"]
        filter_fields = ["number", "carrier__name", "carrier__nothing"]

    declared.model(Flight, FlightMCP)

    found = described(root)

    assert found["fields"]["carrier"] == {"type": "text", "relation": "flights.airline", "filter": False}
    assert found["filter_paths"] == ["carrier__name"]


def test_actions_and_relations_are_described_where_they_may_be_used(users: Users, flights: Any) -> None:
    ops, nobody = DirectPeer(users.ops), DirectPeer(make_staff("nobody", "flights.view_airport"))

    assert described(ops)["actions"] == ["flights_flight_mark_cancelled", "flights_flight_export_as_csv"]
    assert described(DirectPeer(users.ops, "read"))["actions"] == ["flights_flight_export_as_csv"]
    assert "actions" not in described(ops, "flights.airport") and "relations" in described(ops, "flights.airport")
    assert "relations" not in described(nobody, "flights.airport")


@isolate_apps("tests.shop")
def test_the_tool_list_of_thirty_models_has_at_most_12_kb(db: None, settings: Any) -> None:
    settings.MCP = {**settings.MCP, "EXPOSE_ADMIN": False}
    big = MCPSite("big")
    for number in range(30):
        fields: dict[str, Any] = {
            f"attribute_{index}": models.CharField(max_length=50, help_text="Said of it.") for index in range(20)
        }
        meta = type("Meta", (), {"app_label": "shop"})
        model = type(f"WarehouseArticle{number}", (models.Model,), {"__module__": __name__, "Meta": meta, **fields})
        big.register(model, type("Everything", (ModelMCP,), {"fields": "__all__", "use_admin": False}))
    peer = DirectPeer(User.objects.create_superuser("root"), site=big)

    tools = peer.result(MODERN, "tools/list")["tools"]

    assert [tool["name"] for tool in tools] == [
        "aggregate_records", "describe_models", "find_records", "get_record",
    ]  # fmt: skip
    for tool in tools:
        assert len(tool["inputSchema"]["properties"]["model"]["enum"]) == 30
    assert len(encode(tools)) <= 12_000, len(encode(tools))


def test_the_list_of_the_query_tools_has_at_most_7_kb_for_the_admin_of_the_demo(root: DirectPeer) -> None:
    tools = root.result(MODERN, "tools/list")["tools"]
    asked = [tool for tool in tools if tool["name"] in QUERY_TOOLS]
    for tool in asked:
        model = tool["inputSchema"]["properties"]["model"]
        # The tests have models of their own beside those of the demo.
        model["enum"] = [label for label in model["enum"] if label.startswith(("auth.", "flights."))]

    properties = [
        schema
        for tool in asked
        for side in ("inputSchema", "outputSchema")
        for schema in tool[side].get("properties", {}).values()
    ]
    assert len(asked) == 4
    assert len(encode(asked)) <= 7_000, len(encode(asked))
    assert all(schema.get("description") for schema in properties)


# Many models.


@pytest.fixture
def few_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """From three models on there are many."""
    for module in ("query", "describe"):
        monkeypatch.setattr(f"mcp_django.bridge.tools.{module}.MAX_LISTED_MODELS", 2)


def test_the_schemas_of_the_tools_do_not_grow_with_the_models(root: DirectPeer, few_listed: None) -> None:
    tools = root.result(MODERN, "tools/list")["tools"]

    for tool in tools:
        if "model" not in tool["inputSchema"]["properties"]:
            continue
        model = tool["inputSchema"]["properties"]["model"]
        assert "enum" not in model
        assert re.fullmatch(r"One of \d+ models, as app.model: describe_models lists them.", model["description"])
    assert len(encode({"tools": tools})) < 12_000


def test_many_models_are_listed_app_by_app(root: DirectPeer, few_listed: None) -> None:
    answer = root.call("describe_models")["structuredContent"]

    assert answer["apps"]["flights"] == "6 models"
    assert answer["notes"][0] == "Call describe_models with an app for its models."
    of_app = root.call("describe_models", app="flights")["structuredContent"]
    assert list(of_app["models"]) == [f"flights.{name}" for name in MODELS]
    assert root.call("find_records", model="flights.airline")["isError"] is False


def test_few_models_are_listed_at_once_and_by_app(root: DirectPeer) -> None:
    whole = root.call("describe_models")["structuredContent"]["models"]
    of_app = root.call("describe_models", app="flights")["structuredContent"]["models"]

    # So few are described at once, as each is by itself.
    assert of_app.keys() == {label for label in whole if label.startswith("flights.")}
    alone = described(root, "flights.flight")
    alone.pop("watching")
    assert of_app["flights.flight"] == alone
    several = root.call("describe_models", models=["flights.airport", "auth.group"])["structuredContent"]["models"]
    assert several == {"flights.airport": of_app["flights.airport"], "auth.group": several["auth.group"]}
    errors = errors_of(root.call("describe_models", models=["flights.airport", "flights.runway", "auth.gruop"]))
    assert [error["field"] for error in errors] == ["models", "models"]
    assert [error["message"][:25] for error in errors] == ["no model 'flights.runway'", "no model 'auth.gruop'. Di"]
    [error] = errors_of(root.call("describe_models", models=["flights.airport"], app="flights"))
    assert error["message"] == "stands alone: leave it out, or leave out the models."


def test_an_app_that_the_user_may_not_see_looks_as_if_there_were_none(db: None, few_listed: None) -> None:
    peer = DirectPeer(make_staff("viewer", "flights.view_airline"))

    for app in ("auth", "shop", "nothing"):
        [error] = errors_of(peer.call("describe_models", app=app))
        assert error["message"] == f"no app {app!r}. Allowed: flights."


def test_week_days_are_explained_where_there_are_dates_alone(root: DirectPeer) -> None:
    assert "week_day: 1 is Sunday" in listed(root, "aggregate_records")["description"]
    assert "week_days" in described(root, "flights.flight")
    assert "week_days" not in described(root, "flights.airline")
