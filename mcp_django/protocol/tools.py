"""tools/list and tools/call."""

from __future__ import annotations

from typing import Any

from mcp_django.protocol.errors import MissingCapability, ToolNotFound
from mcp_django.protocol.exchange import Exchange
from mcp_django.protocol.pages import page
from mcp_django.tools import catalog
from mcp_django.tools.results import error_result

JSON = dict[str, Any]


def list_tools(exchange: Exchange) -> JSON:
    tools = [entry.describe(exchange.request) for entry in catalog.available(exchange)]
    return page(exchange, "tools", tools, lambda tool: str(tool["name"]))


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
