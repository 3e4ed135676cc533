"""The tools of a site for one exchange: which there are, as administrators left them, and calling one."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.conf import settings
from django.utils import translation

from mcp_django.access import overrides
from mcp_django.access.authentication import renew_principal
from mcp_django.access.overrides import Switch
from mcp_django.exceptions import ToolError
from mcp_django.exchange.scopes import ACTIONS
from mcp_django.hooks import ask
from mcp_django.protocol.errors import MCPError, TooSlow
from mcp_django.tasks.framework import can_run
from mcp_django.tools.base import BaseTool
from mcp_django.tools.results import error_result
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.tools.mirrored import Mirrored


logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool that is there for the exchange's principal, with what an administrator calls it."""

    tool: BaseTool
    description: str

    def describe(self, request: MCPRequest) -> JSON:
        """The tool as tools/list has it."""
        with translation.override(settings.LANGUAGE_CODE):
            tool = self.tool
            described: JSON = {
                "name": tool.name,
                "description": self.description or tool.get_description(request),
                "inputSchema": tool.get_input_schema(request),
                "annotations": tool.annotations.to_json(),
            }
            if tool.title:
                described["title"] = tool.title
            if (schema := tool.get_output_schema(request)) is not None:
                described["outputSchema"] = schema
        return described


def available(exchange: Exchange, said: Mapping[str, Switch] | None = None) -> list[Entry]:
    """The tools that the principal may call now; or would, if administrators had said that of them."""
    rows = overrides.tools.of(exchange) if said is None else said
    entries = (_entry(tool, rows, exchange) for tool in exchange.site.tools.values())
    return [entry for entry in entries if entry is not None]


def listed(exchange: Exchange, *, fresh: bool = False) -> list[JSON]:
    """The tools as tools/list has them; ``fresh`` if the switches are to be read anew."""
    rows = overrides.tools.of(exchange, fresh=fresh)
    return [entry.describe(exchange.request) for entry in available(exchange, rows)]


def find(exchange: Exchange, name: str) -> BaseTool | None:
    """The tool of that name, if the principal may call it.

    For a tool that may write, the token, its user and the switch are read anew, whatever was read a moment ago.
    """
    tool = exchange.site.tools.get(name)
    if tool is None:
        return None
    fresh = tool.scope == ACTIONS
    if fresh and ACTIONS in exchange.principal.scopes:
        renew_principal(exchange)
    entry = _entry(tool, overrides.tools.of(exchange, fresh=fresh), exchange)
    return None if entry is None else entry.tool


def mirrored(exchange: Exchange, name: object) -> tuple[Mirrored, ...]:
    """The arguments of a tool that HTTP clients repeat in headers; of every tool, so that only a fault costs more."""
    tool = exchange.site.tools.get(name) if isinstance(name, str) else None
    return () if tool is None else tool.mirrored


def exists(exchange: Exchange, name: str) -> bool:
    """Whether the tool is there for the principal; asked outside of a handler."""
    with exchange.site.call_context(exchange.request):
        return find(exchange, name) is not None


def call(tool: BaseTool, exchange: Exchange, arguments: JSON) -> JSON:
    """Run the tool. What fails in it is told to the agent, without the text of errors that nobody wrote for it."""
    try:
        return tool.run(exchange, arguments)
    except ToolError as error:
        return error_result(error.message, error.errors)
    except TooSlow as error:
        return error_result(error.message)
    except MCPError:
        raise
    except (Exception, SystemExit):
        if exchange.cancellation.cancelled:
            raise
        logger.exception("The tool %s failed", tool.name)
        return error_result(f"{tool.name} failed. {tool.on_failure}")


def _entry(tool: BaseTool, rows: Mapping[str, Switch], exchange: Exchange) -> Entry | None:
    switch = rows.get(tool.name) or Switch(tool.enabled_by_default)
    request = exchange.request
    if tool.scope not in exchange.principal.scopes or not switch.is_for(request):
        return None
    if not ask(lambda: tool.is_available(request), False, f"tool {tool.name}"):
        return None
    if tool.task == "required" and not can_run(exchange.site):
        return None
    return Entry(tool, switch.description)
