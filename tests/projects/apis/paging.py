"""Reads a list to its last page, as a client of HTTP and as an agent."""

from __future__ import annotations

from typing import Any

from mcp_django.test import MCPClient
from tests.api.comparing import by_tool, over_http, shown_of
from tests.projects.apis.cases import Case
from tests.projects.apis.places import rows_of

#: More are a loop.
_MOST_PAGES = 200


def pages_over_http(user: Any, case: Case) -> tuple[int, Any]:
    """The status, and the rows of all pages; or the value of the first answer that is an error."""
    status, found = over_http(user, case.send)
    rows: list[Any] = []
    for _ in range(_MOST_PAGES):
        if status != 200:
            return status, found
        rows += rows_of(found)
        following = found.get("next") if isinstance(found, dict) else None
        if not following:
            return status, rows
        status, found = over_http(user, lambda http, url=following: http.get(url))
    raise AssertionError(f"{case.operation.name}: the pages have no end")


def pages_by_tool(client: MCPClient, case: Case) -> tuple[str, Any]:
    """What an agent gets of all pages, as one list."""
    arguments, rows = dict(case.arguments), []
    for _ in range(_MOST_PAGES):
        # The call adds to what it is given.
        outcome, got = by_tool(client, case.operation, dict(arguments))
        if outcome != "done":
            return outcome, got
        rows += shown_of(got, [])
        if "next_cursor" not in got:
            return outcome, {"items": rows}
        arguments["cursor"] = got["next_cursor"]
    raise AssertionError(f"{case.operation.name}: the cursors have no end")
