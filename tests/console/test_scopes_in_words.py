"""What a page says that scopes open is what calls with exactly these scopes may do."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.http import HttpRequest
from django.test import RequestFactory

from demo_project.flights.models import Disruption
from mcp_django import site
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
    """The models that are read, the models and operations that are written, and the other tools, by the page."""
    request = RequestFactory().get("/mcp/authorize")
    request.user = user
    reads: set[str] = set()
    writes: set[tuple[str, str]] = set()
    tools: set[str] = set()
    for offered in describe(site, request, scopes):
        opened = offered.opened
        assert len(offered.items) == len({*opened.reads, *(one for of in opened.writes.values() for one in of)}) + len(
            opened.tools
        )
        assert all(str(number) in offered.label for number in [len(opened.reads)] if number)
        reads |= opened.reads.keys()
        writes |= {(label, one) for one, models in opened.writes.items() for label in models}
        tools |= opened.tools.keys()
    return reads, writes, tools


def done(user: Any, scopes: list[str]) -> tuple[set[str], set[tuple[str, str]], set[str]]:
    """The same, by calls of an agent whose token has these scopes."""
    with MCPClient(user, scopes) as client:
        listed = {tool["name"] for tool in client.list_tools()}

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
    return reads, writes, listed - {*READING, *WRITING, "describe_form", "preview_change", "get_change"}


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
