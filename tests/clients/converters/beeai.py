"""The BeeAI framework: its MCP tool, as its chat models format it, strictly if they are not told otherwise."""

from __future__ import annotations

from functools import partial
from typing import Any, get_args

from beeai_framework.adapters.openai.backend.chat import OpenAIChatModel
from beeai_framework.tools.mcp import MCPTool
from mcp.types import Tool
from pydantic import BaseModel

from tests.clients.converters.each import Sent, convert_all


def formatted(tool: dict[str, Any], *, strict: bool) -> Sent:
    model = OpenAIChatModel("gpt-5", api_key="none", use_strict_tool_schema=strict)
    made = MCPTool(None, Tool.model_validate(tool))
    schema = model._format_tool_model(made.input_schema)
    return {"schema": schema, "strict": strict, "refused": _refused(made.input_schema)}


def _refused(model: type[BaseModel]) -> list[str]:
    """The arguments that the tool lets pass as an empty object alone, whatever the schema says to the model."""
    models = {
        name: one
        for name, field in model.model_fields.items()
        for one in (field.annotation, *get_args(field.annotation))
        if isinstance(one, type) and issubclass(one, BaseModel)
    }
    return sorted(
        name for name, one in models.items() if not one.model_fields and one.model_config.get("extra") == "forbid"
    )


if __name__ == "__main__":
    convert_all({"strict": partial(formatted, strict=True), "loose": partial(formatted, strict=False)})
