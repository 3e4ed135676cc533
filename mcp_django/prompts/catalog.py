"""The prompts of a site for one exchange: which there are, as administrators left them, and getting one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError

from mcp_django.access import overrides
from mcp_django.access.overrides import Switch
from mcp_django.exceptions import InvalidArguments, ToolError
from mcp_django.exchange.scopes import READ
from mcp_django.hooks import ask
from mcp_django.prompts.base import BasePrompt
from mcp_django.prompts.templates import TemplatePrompt
from mcp_django.protocol.errors import InternalError, InvalidParams, MCPError, PromptRefused
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange


logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class Entry:
    """A prompt that is there for the exchange's principal, with what an administrator calls it."""

    prompt: BasePrompt
    switch: Switch

    @property
    def title(self) -> str:
        return self.switch.title or self.prompt.title

    @property
    def description(self) -> str:
        return self.switch.description or self.prompt.get_description()

    def describe(self) -> JSON:
        """The prompt as prompts/list has it."""
        described: JSON = {"name": self.prompt.name, "description": self.description}
        if self.title:
            described["title"] = self.title
        if self.prompt.arguments:
            described["arguments"] = [argument.to_json() for argument in self.prompt.arguments]
        return described

    def get(self, exchange: Exchange, arguments: Mapping[str, str]) -> JSON:
        """The GetPromptResult. Raises MCPError."""
        refused = f"Invalid arguments for the prompt {self.prompt.name}."
        if errors := self.prompt.errors(arguments):
            raise InvalidParams(refused, errors)
        try:
            messages = self.prompt.get_messages(exchange, arguments)
        except InvalidArguments as error:
            prefixed = [{**entry, "field": f"arguments.{entry['field']}"} for entry in error.errors]
            raise InvalidParams(refused, prefixed) from None  # type: ignore[arg-type]
        except ToolError as error:
            raise PromptRefused(error.message, error.errors) from None
        except MCPError:
            raise
        except (Exception, SystemExit) as error:
            if exchange.cancelled:
                raise
            logger.exception("The prompt %s failed", self.prompt.name)
            raise InternalError from error
        return {"description": self.description, "messages": messages}


def available(exchange: Exchange, said: Mapping[str, Switch] | None = None) -> list[Entry]:
    """The prompts that the principal may use now; or would, if administrators had said that of them."""
    rows = overrides.prompts.of(exchange) if said is None else said
    names = dict.fromkeys([*exchange.site.prompts, *rows])
    entries = (_entry(name, rows, exchange) for name in names)
    return [entry for entry in entries if entry is not None]


def listed(exchange: Exchange, *, fresh: bool = False) -> list[JSON]:
    """The prompts as prompts/list has them; ``fresh`` if the switches are to be read anew."""
    return [entry.describe() for entry in available(exchange, overrides.prompts.of(exchange, fresh=fresh))]


def find(exchange: Exchange, name: str) -> Entry | None:
    """The prompt of that name, if the principal may use it."""
    return _entry(name, overrides.prompts.of(exchange), exchange)


def _entry(name: str, rows: Mapping[str, Switch], exchange: Exchange) -> Entry | None:
    switch = rows.get(name) or Switch(enabled=True)
    if READ not in exchange.principal.scopes or not switch.is_for(exchange.request):
        return None
    # What the project declares keeps its name, whatever was written under it before.
    prompt = exchange.site.prompts.get(name) or _written(name, switch)
    if prompt is None or not ask(lambda: prompt.is_available(exchange.request), False, f"prompt {name}"):
        return None
    return Entry(prompt, switch)


def _written(name: str, switch: Switch) -> BasePrompt | None:
    if not switch.text:
        return None
    try:
        return TemplatePrompt(name, switch)
    except ValidationError:
        logger.exception("The template of the prompt %s cannot be read; the prompt is not offered", name)
        return None
