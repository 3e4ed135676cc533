"""Makes changes as an agent does. All tests of the lab write by these functions alone."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch

from mcp_django.bridge.declared.options import OPERATIONS
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.writes.opening import GivenRow
from mcp_django.bridge.writes.proposals import row_of
from mcp_django.bridge.writes.sending import RowSender, SentRow
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.exceptions import FieldError, ToolError
from mcp_django.models import Tool
from tests.support.asking import DirectPeer, request_of

TOOLS = ("describe_form", "preview_change", "create_record", "update_record", "delete_record")


class Refusal(Exception):
    """What an agent is told of a change that is not made."""

    def __init__(self, told: str) -> None:
        super().__init__(told)
        found = json.loads(told) if told.startswith("{") else {}
        self.errors: list[FieldError] = found.get("errors", [])

    @property
    def fields(self) -> list[str]:
        return [error["field"] for error in self.errors]


def apply(site: MCPSite, user: Any, operation: str, **arguments: Any) -> Any:
    """Preview a change and then make it, in two calls, for which no person is asked. Raises Refusal."""
    shown = preview(site, user, operation, **arguments)
    with patch("mcp_django.bridge.declared.options.CONSENT", dict.fromkeys(OPERATIONS, "preview")):
        return ask(site, user, f"{operation}_record", **arguments, confirm=shown["confirm"])


def send(site: MCPSite, user: Any, label: str, key: Any, *, writes: bool, **given: Any) -> SentRow:
    """Send a form in a single pass, as a change of many rows does. Raises Refusal."""
    request = request_of(user, "read", "write")
    rights = Rights(site, request, from_primary=True).of_label(label)
    # What the admin's form shows of every row is asked once, and not while a form is sent.
    assert rights is not None
    assert rights.columns
    assert rights.relations is not None
    try:
        of_row, pk = (rights, None) if key is None else row_of(rights, key)
        return RowSender(rights, leaves_out=True).send(GivenRow(of_row, pk, **given), ViewRun(writes=writes))
    except (InvalidQuery, ToolError) as error:
        raise Refusal(json.dumps({"errors": error.errors, "message": str(error)})) from None


def preview(site: MCPSite, user: Any, operation: str, **arguments: Any) -> Any:
    """What a change would do. Raises Refusal."""
    return ask(site, user, f"{operation}_record", **arguments)


def ask(site: MCPSite, user: Any, tool: str, **arguments: Any) -> Any:
    """The result of a tool. Raises Refusal."""
    for name in TOOLS:
        Tool.objects.get_or_create(site=site.name, name=name, defaults={"enabled": True})
    result = DirectPeer(user, "read", "actions", "write", site=site).call(tool, **arguments)
    if result.get("isError"):
        raise Refusal(result["content"][0]["text"])
    return result["structuredContent"]
