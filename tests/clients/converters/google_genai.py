"""Google's Gen AI SDK: functions made of MCP tools, for the Gemini API and for Google Cloud."""

from __future__ import annotations

from functools import partial
from typing import Any

from google.genai._mcp_utils import mcp_to_gemini_tools
from mcp.types import Tool

from tests.clients.converters.each import Sent, convert_all


def declared(tool: dict[str, Any], *, is_agent_platform: bool) -> Sent:
    [made] = mcp_to_gemini_tools([Tool.model_validate(tool)], is_agent_platform=is_agent_platform)
    [declaration] = made.function_declarations
    dumped = declaration.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {"schema": dumped["parametersJsonSchema" if is_agent_platform else "parameters"]}


if __name__ == "__main__":
    ways = {"gemini": False, "agent-platform": True}
    convert_all({way: partial(declared, is_agent_platform=is_platform) for way, is_platform in ways.items()})
