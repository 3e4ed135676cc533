"""django-mcp-server: a Django view. Its app would import our own declarations of the demo, and is left out."""

from __future__ import annotations

from typing import Any

from mcp_server import MCPToolset
from mcp_server.djangomcp import init

from bench.peers.work import check, first_flights, greeting


class Flights(MCPToolset):  # type: ignore[misc]
    def greet(self, name: str) -> str:
        """Greet somebody."""
        check(self.request.user)
        return greeting(name)

    def find_flights(self, limit: int = 20) -> dict[str, Any]:
        """The first flights by departure."""
        check(self.request.user)
        return first_flights(limit)


init()

from mcp_server.urls import urlpatterns  # noqa: E402, F401
