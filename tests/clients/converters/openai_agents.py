"""OpenAI's Agents SDK: functions made of MCP tools, as they are and converted to strict schemas."""

from __future__ import annotations

from functools import partial
from typing import Any

from agents.mcp import MCPServerStreamableHttp
from agents.mcp.util import MCPUtil
from agents.strict_schema import ensure_strict_json_schema
from mcp.types import Tool

from tests.clients.converters.each import Sent, convert_all


def function(tool: dict[str, Any], *, strict: bool) -> Sent:
    """A schema that cannot be strict is sent as it is, with ``strict`` false."""
    server = MCPServerStreamableHttp(params={"url": "http://localhost/mcp"})
    made = MCPUtil.to_function_tool(Tool.model_validate(tool), server, strict)
    return {"schema": made.params_json_schema, "strict": made.strict_json_schema}


def forced(tool: dict[str, Any]) -> Sent:
    """What the conversion to strict schemas makes by itself, where nothing keeps it from open objects."""
    return {"schema": ensure_strict_json_schema(tool["inputSchema"]), "strict": True}


if __name__ == "__main__":
    convert_all(
        {"openai": partial(function, strict=False), "openai-strict": partial(function, strict=True), "forced": forced}
    )
