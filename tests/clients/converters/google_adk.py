"""Google's Agent Development Kit: declarations of its MCP tool, in its own subset and as JSON Schema."""

from __future__ import annotations

from functools import partial
from typing import Any

from google.adk.features import FeatureName
from google.adk.features._feature_registry import temporary_feature_override
from google.adk.tools.mcp_tool.mcp_session_manager import MCPSessionManager, StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_tool import McpTool
from mcp.types import Tool

from tests.clients.converters.each import Sent, convert_all


def declared(tool: dict[str, Any], *, as_json_schema: bool) -> Sent:
    manager = MCPSessionManager(StreamableHTTPConnectionParams(url="http://localhost/mcp"))
    with temporary_feature_override(FeatureName.JSON_SCHEMA_FOR_FUNC_DECL, as_json_schema):
        made = McpTool(mcp_tool=Tool.model_validate(tool), mcp_session_manager=manager)._get_declaration()
    dumped = made.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"schema": dumped["parametersJsonSchema" if as_json_schema else "parameters"]}


if __name__ == "__main__":
    convert_all(
        {"google": partial(declared, as_json_schema=False), "json-schema": partial(declared, as_json_schema=True)}
    )
