"""LangChain: the MCP adapters, and what the chat models of Google and OpenAI make of their tools."""

from __future__ import annotations

from typing import Any

from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_google_genai._function_utils import convert_to_genai_function_declarations
from langchain_mcp_adapters.tools import convert_mcp_tool_to_langchain_tool
from mcp.types import Tool

from tests.clients.converters.each import Sent, convert_all, of_openai


def adapted(tool: dict[str, Any]) -> BaseTool:
    connection = {"transport": "streamable_http", "url": "http://localhost/mcp"}
    return convert_mcp_tool_to_langchain_tool(None, Tool.model_validate(tool), connection=connection)


def google(tool: dict[str, Any]) -> Sent:
    [made] = convert_to_genai_function_declarations([adapted(tool)])
    [declaration] = made.function_declarations
    return {"schema": declaration.model_dump(mode="json", by_alias=True, exclude_none=True)["parameters"]}


def openai(tool: dict[str, Any]) -> Sent:
    return of_openai(convert_to_openai_tool(adapted(tool)))


def openai_strict(tool: dict[str, Any]) -> Sent:
    return of_openai(convert_to_openai_tool(adapted(tool), strict=True))


if __name__ == "__main__":
    convert_all({"google": google, "openai": openai, "openai-strict": openai_strict})
