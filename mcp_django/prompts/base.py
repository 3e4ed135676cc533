"""What every prompt is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mcp_django.completion import NOTHING, Completion
from mcp_django.exceptions import FieldError, field_error, unknown_name
from mcp_django.prompt_templates import Argument
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


class BasePrompt(ABC):
    """A prompt of a site. It is stateless: who picks it comes with each request."""

    name: str
    title: str = ""
    arguments: Sequence[Argument] = ()

    @abstractmethod
    def get_description(self) -> str:
        """What people and agents are told of it."""

    def is_available(self, request: MCPRequest) -> bool:
        """Whether the request's user may use it; scope and switch are asked elsewhere."""
        return True

    def errors(self, arguments: Mapping[str, str]) -> list[FieldError]:
        """The arguments that are not the prompt's, and those that are missing."""
        names = [argument.name for argument in self.arguments]
        unknown = [
            field_error(f"arguments.{name[:100]}", unknown_name("argument", name, names), value)
            for name, value in arguments.items()
            if name not in names
        ]
        missing = [
            field_error(f"arguments.{argument.name}", "is required")
            for argument in self.arguments
            if argument.required and argument.name not in arguments
        ]
        return unknown + missing

    @abstractmethod
    def get_messages(self, exchange: Exchange, arguments: Mapping[str, str]) -> list[JSON]:
        """The messages, for arguments without ``errors``.

        Raises InvalidArguments, ToolError, MCPError, or anything else, of which nobody is told.
        """

    def complete(self, exchange: Exchange, name: str, typed: str, arguments: Mapping[str, str]) -> Completion:
        """Suggestions for one of its arguments. Raises MCPError."""
        return NOTHING
