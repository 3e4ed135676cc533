"""An agent of a user, which calls the operations of an exposed API."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mcp_django import expose
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import CallRefused, MCPClient


def exposed(**options: Any) -> MCPSite:
    """A site that exposes the API below ``api/``, and no more than that."""
    site = MCPSite("exposed")
    expose("api/", site=site, **options)
    return site


class Agent:
    """What a model would do with the three tools, as a user with a token of scopes."""

    def __init__(self, site: MCPSite, user: Any, *scopes: str, **options: Any) -> None:
        given = None if user is None else scopes or ("read", "write")
        self.client = MCPClient(user, given, site=site, switched_on=["change_api"], **options)

    def get(self, operation: str, **arguments: Any) -> Any:
        """What an operation answers that reads. Raises CallRefused."""
        return self.client.call("call_api", operation=operation, **arguments).structured

    def told(self, operation: str, tool: str = "call_api", **arguments: Any) -> str:
        """Why a call is refused, with the errors of its fields."""
        try:
            found = self.client.call(tool, operation=operation, **arguments).structured
        except CallRefused as refused:
            return str(refused)
        raise AssertionError(f"It was not refused: {found}")

    def plan(self, operation: str, **arguments: Any) -> Any:
        return self.client.call("change_api", operation=operation, **arguments).structured

    def confirm(self, plan: Any, **arguments: Any) -> Any:
        return self.client.call("change_api", **{"operation": plan["operation"], **arguments}, confirm=plan["confirm"])

    def change(self, operation: str, **arguments: Any) -> Any:
        """What comes of a change, which is planned and then confirmed."""
        return self.confirm(self.plan(operation, **arguments), **arguments).structured

    def pages(self, operation: str, **arguments: Any) -> Iterator[Any]:
        """Each page of a list, to the end; at most as many as nobody needs."""
        cursor: Any = {}
        for _ in range(100):
            page = self.get(operation, **arguments, **({"cursor": cursor} if cursor else {}))
            yield page
            if (cursor := page.get("next_cursor")) is None:
                return
        raise AssertionError("It has no end.")
