from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from mcp_django.exceptions import MCPError, ToolError
from tests.support.data import switch_on, token_of
from tests.support.declared import Declared
from tests.support.peers import Peer, Peers
from tests.support.tasks import TASKS

NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
CONFIRM = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}

Configure = Callable[..., None]


@pytest.fixture
def rows_of_test(transactional_db: None) -> None:
    """Tasks run in other threads and processes."""


@pytest.fixture
def configure() -> Iterator[Configure]:
    """Sets keys of MCP for the rest of the test."""
    active: list[override_settings] = []

    def configure(**keys: Any) -> None:
        changed = override_settings(MCP={**settings.MCP, **keys})
        changed.enable()
        active.append(changed)

    yield configure
    for changed in reversed(active):
        changed.disable()


@pytest.fixture
def database(configure: Configure) -> None:
    """Tasks wait in the database for a worker."""
    configure(TASK_BACKEND="database")


@pytest.fixture
def tools(declared: Declared, users: Any) -> Declared:
    """Tools that become tasks."""

    def add(request: Any, a: int, b: int) -> str:
        """Adds."""
        return f"{a} + {b} = {a + b}"

    def slow(request: Any, seconds: float = 60) -> str:
        """Takes its time, and says how far it is."""
        end = time.monotonic() + seconds
        step = 0
        while time.monotonic() < end and not request.mcp.cancelled:
            step += 1
            request.mcp.progress(step, 1000, "well under way" if step > 1 else "")
            time.sleep(0.01)
        return "cancelled" if request.mcp.cancelled else "done"

    def refuse(request: Any) -> str:
        """Refuses."""
        raise ToolError("No.")

    def break_off(request: Any) -> str:
        """Fails as a request fails."""
        raise MCPError("The line is cut.", line=7)

    def crash(request: Any) -> str:
        """Has a fault."""
        raise RuntimeError("secret detail")

    def delete(request: Any, filename: str) -> str:
        """Asks first."""
        answer = request.mcp.elicit(f"Delete {filename}?", CONFIRM, key="sure")
        return f"deleted {filename}" if answer.accepted and answer.content["confirm"] else "kept"

    def two(request: Any) -> str:
        """Asks two things at once."""
        from mcp_django import Elicitation

        found = request.mcp.ask({"first": Elicitation("First?", NAME), "second": Elicitation("Second?", NAME)})
        return f"{found['first'].content['name']} and {found['second'].content['name']}"

    def later(request: Any) -> str:
        """Asks, becomes a task, and asks again."""
        who = request.mcp.elicit("Your name?", NAME, key="name").content["name"]
        request.mcp.as_task()
        colour = request.mcp.elicit("Your colour?", NAME, key="colour").content["name"]
        return f"{who} wears {colour}"

    for function in (add, slow, refuse, break_off, crash, delete, two):
        declared.tool(function, task=True)
    declared.tool(later, task="later")
    declared.tool(add, name="add_in_a_task", task="required")
    switch_on("add", "slow", "refuse", "break_off", "crash", "delete", "two", "later", "add_in_a_task")
    return declared


@pytest.fixture
def client(tools: Declared, users: Any, peers: Peers) -> Peer:
    """An administrator's client that supports tasks and forms."""
    peer = peers(token_of(users.admin))
    peer.capabilities = {**TASKS, "elicitation": {}}
    return peer


@pytest.fixture
def add(tools: Declared) -> Callable[..., None]:
    """Declares one more tool that becomes a task, and switches it on."""

    def add(function: Callable[..., Any], **options: Any) -> None:
        tools.tool(function, **{"task": True, **options})
        switch_on(function.__name__)

    return add
