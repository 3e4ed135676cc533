"""prompts/list and prompts/get."""

from __future__ import annotations

from mcp_django.access.authentication import renew_principal
from mcp_django.bridge.prompts import catalog
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import PromptNotFound
from mcp_django.protocol.types import JSON
from mcp_django.server.pages import page


def list_prompts(exchange: Exchange) -> JSON:
    renew_principal(exchange)
    return page(exchange, "prompts", catalog.listed(exchange, fresh=True), lambda prompt: str(prompt["name"]))


def get_prompt(exchange: Exchange) -> JSON:
    """The messages of a prompt. For the client, a prompt that the principal may not use does not exist."""
    entry = catalog.find(exchange, exchange.params["name"])
    if entry is None:
        raise PromptNotFound(exchange.params["name"])
    exchange.usage.found = exchange.params["name"]
    return entry.get(exchange, exchange.params.get("arguments") or {})
