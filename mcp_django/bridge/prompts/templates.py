"""Prompts that administrators write as templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from mcp_django.bridge.prompts.base import BasePrompt
from mcp_django.bridge.prompts.messages import PromptMessage
from mcp_django.core.prompt_templates import compile_template
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.access.overrides import Override
    from mcp_django.exchange.exchange import Exchange


class TemplatePrompt(BasePrompt):
    """A row of the model Prompt with a template, which becomes one message of the user. Raises ValidationError."""

    def __init__(self, name: str, override: Override) -> None:
        self.name = name
        self._template = compile_template(override.text)
        self.arguments = self._template.arguments

    def get_description(self) -> str:
        return self.name.replace("_", " ").replace("-", " ")

    def get_messages(self, exchange: Exchange, arguments: Mapping[str, str]) -> list[JSON]:
        return [PromptMessage("user", self._template.render(arguments)).to_json()]
