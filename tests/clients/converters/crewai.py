"""CrewAI: the MCP adapter of its tools, and what its models of three providers are sent."""

from __future__ import annotations

from functools import partial
from typing import Any

from crewai import LLM
from crewai.utilities.agent_utils import convert_tools_to_openai_schema
from crewai_tools.adapters.mcp_adapter import CrewAIToolAdapter
from mcp.types import Tool

from tests.clients.converters.each import Sent, convert_all


def sent(tool: dict[str, Any], *, model: str) -> Sent:
    adapted = CrewAIToolAdapter().adapt(lambda arguments: None, Tool.model_validate(tool))
    [converted] = LLM(model=model, api_key="none")._convert_tools_for_interference(
        convert_tools_to_openai_schema([adapted])[0]
    )
    made = converted if isinstance(converted, dict) else converted.model_dump(by_alias=True, exclude_none=True)
    if "functionDeclarations" in made:
        return {"schema": made["functionDeclarations"][0]["parametersJsonSchema"]}
    made = made.get("function", made)
    return {
        "schema": made["parameters"] if "parameters" in made else made["input_schema"],
        "strict": made.get("strict"),
    }


if __name__ == "__main__":
    models = {"openai": "openai/gpt-5", "google": "gemini/gemini-3-pro", "anthropic": "anthropic/claude-sonnet-4-5"}
    convert_all({name: partial(sent, model=model) for name, model in models.items()})
