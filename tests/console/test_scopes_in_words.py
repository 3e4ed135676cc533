"""What a page says that scopes open is what calls with exactly these scopes may do."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from demo_project.flights.models import Disruption
from mcp_django import site
from mcp_django.bridge.changes.change_rows import URI as CHANGE_URI
from mcp_django.console.credentials.scopes import describe
from mcp_django.models import Tool
from mcp_django.test import MCPClient
from tests.support.data import Users, switch_on
from tests.support.declared import Declared

MODELS = ["flights.airport", "flights.flight", "flights.disruption", "shop.tag"]
WRITING = {"create_record": "create", "update_record": "update", "delete_record": "delete"}
READING = ["find_records", "get_record", "aggregate_records", "describe_models"]
OTHERS = ["flights_flight_mark_cancelled", "look", "act"]
UNIVERSE = [
    "read", "actions", "write", "desk",
    *(f"model:{label}:{right}" for label in MODELS for right in ("read", "write")),
    *(f"tool:{name}" for name in [*READING, *WRITING, *OTHERS, "describe_form", "preview_change"]),
]  # fmt: skip
ARGUMENTS: dict[str, dict[str, Any]] = {
    "create_record": {"values": {}}, "update_record": {"id": "1", "values": {}}, "delete_record": {"ids": ["1"]},
    "get_record": {"id": "1"}, "aggregate_records": {"measures": ["count"]},
}  # fmt: skip


def said(user: Any, scopes: list[str]) -> tuple[set[str], set[tuple[str, str]], set[str]]:
    """The models that are read, the models and operations that are written, and the rest, by the page."""
    reads: set[str] = set()
    writes: set[tuple[str, str]] = set()
    tools: set[str] = set()
    for scope in offered(user, *scopes):
        opened = scope.opened
        models = {*opened.reads, *(one for of in opened.writes.values() for one in of)}
        assert len(scope.items) == sum(map(len, (models, opened.tools, opened.others)))
        assert all(str(number) in scope.label for number in [len(opened.reads)] if number)
        reads |= opened.reads.keys()
        writes |= {(label, one) for one, models in opened.writes.items() for label in models}
        tools |= opened.tools.keys() | opened.others.keys()
    return reads, writes, tools


def done(user: Any, scopes: list[str]) -> tuple[set[str], set[tuple[str, str]], set[str]]:
    """The same, by calls of an agent whose token has these scopes."""
    with MCPClient(user, scopes) as client:
        listed = {tool["name"] for tool in client.list_tools()}
        shown = [*client.list_resources(), *client.list_resource_templates()]
        uris = {one.get("uri") or one["uriTemplate"] for one in shown} & (site.resources.keys() - {CHANGE_URI})
        others = uris | {one["name"] for one in client.list_prompts()}

        def allows(tool: str, label: str) -> bool:
            if tool not in listed:
                return False
            answer = client.call(tool, raise_on_error=False, model=label, **ARGUMENTS.get(tool, {}))
            return not any(error["field"] == "model" for error in answer.errors)

        reads = {label for label in site.models if any(allows(tool, label) for tool in READING)}
        writes = {
            (label, operation) for label in site.models for tool, operation in WRITING.items() if allows(tool, label)
        }
    # The last three help to write what the others write.
    return reads, writes, listed - {*READING, *WRITING, "describe_form", "preview_change", "get_change"} | others


def offered(user: Any, *scopes: str) -> Any:
    request = RequestFactory().get("/mcp/authorize")
    request.user = user
    return describe(site, request, scopes)


def test_a_scope_of_a_tool_that_is_off_says_that_it_can_change_data(users: Users) -> None:
    scopes = ("write", "model:flights.flight:write", "tool:delete_record")

    assert [one.changes_data for one in offered(users.admin, *scopes)] == [True] * 3


def test_a_group_says_which_models_it_writes(users: Users, settings: Any) -> None:
    switch_on(*WRITING)
    reading = [f"model:flights.{one}:read" for one in ("flight", "airport")]
    said = []
    for one in ("flight", "airport"):
        settings.MCP = {**settings.MCP, "SCOPE_GROUPS": {"sales": [*reading, f"model:flights.{one}:write"]}}
        said += [list(group.items) for group in offered(users.admin, "sales")]

    assert said == [["Airports", "Flights (create, change, delete)"], ["Airports (create, change, delete)", "Flights"]]


@pytest.mark.parametrize("name", ["admin", "ops", "viewer"])
@pytest.mark.parametrize("seed", range(3))
def test_what_is_said_of_random_scopes_is_what_their_calls_may_do(
    name: str, seed: int, users: Users, declared: Declared, settings: Any
) -> None:
    def look(request: HttpRequest) -> str:
        """Looks."""
        return "seen"

    def act(request: HttpRequest) -> str:
        """Acts."""
        return "done"

    declared.tool(look, read_only=True)
    declared.tool(act)
    declared.model(Disruption, fields=["kind"], writable=["update"])
    switch_on(*WRITING, "describe_form", "preview_change", "get_change")
    Tool.objects.update_or_create(site="mcp", name="aggregate_records", defaults={"enabled": False})
    settings.MCP = {**settings.MCP, "SCOPE_GROUPS": {"desk": ["model:flights.flight:read", "tool:update_record"]}}
    draw, user = random.Random(seed), getattr(users, name)

    for _ in range(12):
        scopes = draw.sample(UNIVERSE, draw.choice([1, 1, 2, 3, 5]))
        assert said(user, scopes) == done(user, scopes), scopes
