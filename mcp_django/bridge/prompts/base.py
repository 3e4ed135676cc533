"""The base class of all prompts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from mcp_django.bridge.completion import NOTHING, Completion
from mcp_django.core.prompt_templates import Argument
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


class BasePrompt(ABC):
    """A prompt of a site. It is stateless: each request brings its principal."""

    name: str
    title: str = ""
    arguments: Sequence[Argument] = ()

    @abstractmethod
    def get_description(self) -> str:
        """The description that people and agents read."""

    def is_available(self, request: MCPRequest) -> bool:
        """Whether the request's user may use the prompt. Scope and override are checked in ``access.permissions``."""
        return True

    def errors(self, arguments: Mapping[str, str]) -> list[FieldError]:
        """One error for each unknown argument and for each missing one."""
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

        Raises InvalidArguments, ToolError and MCPError, which the client reads, or anything else, which is only logged.
        """

    def complete(self, exchange: Exchange, name: str, typed: str, arguments: Mapping[str, str]) -> Completion:
        """Suggestions for one of the prompt's arguments. Raises MCPError."""
        return NOTHING
