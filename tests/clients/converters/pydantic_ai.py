"""Pydantic AI: definitions as its MCP toolset makes them, and what its models of three providers are sent."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.tools import ToolDefinition

from tests.clients.converters.each import Sent, convert_all

OPENAI = OpenAIChatModel("gpt-5", provider=OpenAIProvider(api_key="none"))
GOOGLE = GoogleModel("gemini-3-pro", provider=GoogleProvider(api_key="none"))
ANTHROPIC = AnthropicModel("claude-sonnet-4-5", provider=AnthropicProvider(api_key="none"))


def sent(tool: dict[str, Any], *, model: Model, strict: bool | None) -> Sent:
    definition = ToolDefinition(
        name=tool["name"],
        description=tool["description"],
        parameters_json_schema=tool["inputSchema"],
        strict=strict,
    )
    _, parameters = model.prepare_request(None, ModelRequestParameters(function_tools=[definition]))
    [made] = parameters.function_tools
    return {"schema": made.parameters_json_schema, "strict": made.strict}


if __name__ == "__main__":
    convert_all(
        {
            "openai": partial(sent, model=OPENAI, strict=None),
            "openai-strict": partial(sent, model=OPENAI, strict=True),
            "google": partial(sent, model=GOOGLE, strict=None),
            "anthropic": partial(sent, model=ANTHROPIC, strict=None),
            "anthropic-strict": partial(sent, model=ANTHROPIC, strict=True),
        }
    )
