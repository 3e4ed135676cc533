"""The prompts of a site for one exchange: listing those that the principal may use, and getting one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError

from mcp_django.access import overrides
from mcp_django.access.overrides import Override
from mcp_django.access.permissions import ALLOWED, Decision, check_scopes, decide, supposing
from mcp_django.bridge.prompts.base import BasePrompt
from mcp_django.bridge.prompts.templates import TemplatePrompt
from mcp_django.core import failures
from mcp_django.core.running.suspension import finishing
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.exchange.functions import InvalidArguments
from mcp_django.exchange.scopes import READ
from mcp_django.protocol.errors import InternalError, InvalidPrompt, PromptRefused
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange


logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class AvailablePrompt:
    """A prompt that the exchange's principal may use, with the texts that an administrator gave it."""

    prompt: BasePrompt
    override: Override

    @property
    def title(self) -> str:
        return self.override.title or self.prompt.title

    @property
    def description(self) -> str:
        return self.override.description or self.prompt.get_description()

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
            raise InvalidPrompt(refused, errors)
        get_messages = partial(self.prompt.get_messages, exchange, arguments)
        return finishing(partial(self._described, exchange, refused), get_messages)

    def _described(self, exchange: Exchange, refused: str, run: Callable[[], list[JSON]]) -> JSON:
        try:
            messages = run()
        except InvalidArguments as error:
            prefixed = [{**entry, "field": f"arguments.{entry['field']}"} for entry in error.errors]
            raise InvalidPrompt(refused, prefixed, error.reason) from None  # type: ignore[arg-type]
        except ToolError as error:
            raise PromptRefused(error) from None
        except MCPError:
            raise
        except (Exception, SystemExit) as error:
            if exchange.cancelled:
                raise
            failures.note(error)
            logger.exception("The prompt %s failed", self.prompt.name)
            raise InternalError from error
        return {"description": self.description, "messages": messages}


def available(exchange: Exchange, decided: Mapping[str, Override] | None = None) -> list[AvailablePrompt]:
    """The prompts that the principal may use now, or could use if administrators had ``decided`` so."""
    rows = overrides.prompts.of(exchange) if decided is None else decided
    names = dict.fromkeys([*exchange.site.prompts, *rows])
    found = (_available(name, rows, exchange) for name in names)
    return [one for one in found if one is not None]


def listed(exchange: Exchange, *, fresh: bool = False) -> list[JSON]:
    """The prompts as prompts/list has them. ``fresh`` reads the overrides anew."""
    with supposing(exchange.request):
        return [one.describe() for one in available(exchange, overrides.prompts.of(exchange, fresh=fresh))]


def find(exchange: Exchange, name: str) -> AvailablePrompt | None:
    """The prompt of that name, if the principal may use it. Raises InsufficientScope, as for a tool."""
    look = partial(_available, name, overrides.prompts.of(exchange), exchange)
    found = look()
    if found is None:
        check_scopes(exchange.request, look)
    return found


def decision(exchange: Exchange, name: str, decided: Mapping[str, Override]) -> Decision | None:
    """Whether the principal may use the prompt, and if not, why: for administrators. None: there is no such prompt."""
    override = decided.get(name) or overrides.ON
    exists = name in exchange.site.prompts or _written(name, override) is not None
    return _decide(name, override, exchange) if exists else None


def _available(name: str, rows: Mapping[str, Override], exchange: Exchange) -> AvailablePrompt | None:
    override = rows.get(name) or overrides.ON
    if _decide(name, override, exchange) is not ALLOWED:
        return None
    # A prompt that the project declares keeps its name, whatever an administrator wrote under it before.
    prompt = exchange.site.prompts.get(name) or _written(name, override)
    return None if prompt is None else AvailablePrompt(prompt, override)


def _decide(name: str, override: Override, exchange: Exchange) -> Decision:
    declared = exchange.site.prompts.get(name)
    hook = None if declared is None else declared.is_available
    return decide(exchange.request, READ, override, hook, f"prompt {name}")


def _written(name: str, override: Override) -> BasePrompt | None:
    """The prompt that an administrator wrote under the name, if it can be read."""
    if not override.text:
        return None
    try:
        return TemplatePrompt(name, override)
    except ValidationError:
        logger.exception("The template of the prompt %s cannot be read; the prompt is not offered", name)
        return None
