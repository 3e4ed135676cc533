"""tools/list and tools/call.

A list is read anew, by whatever process: who was told that it has changed is given the new one.
"""

from __future__ import annotations

from mcp_django.access.authentication import renew_principal
from mcp_django.exceptions import MissingCapability
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import ToolNotFound
from mcp_django.server.pages import page
from mcp_django.tools import catalog
from mcp_django.tools.results import error_result
from mcp_django.types import JSON


def list_tools(exchange: Exchange) -> JSON:
    renew_principal(exchange)
    return page(exchange, "tools", catalog.listed(exchange, fresh=True), lambda tool: str(tool["name"]))


def call_tool(exchange: Exchange) -> JSON:
    """Run a tool. Its own failures are ``isError`` results; a name the principal may not use does not exist."""
    tool = catalog.find(exchange, exchange.params["name"])
    if tool is None:
        raise ToolNotFound(exchange.params["name"])
    try:
        return catalog.call(tool, exchange, exchange.params.get("arguments") or {})
    except MissingCapability as error:
        if exchange.era.enveloped:
            raise
        return error_result(error.message)
