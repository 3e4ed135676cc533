"""completion/complete (2026-07-28 server/utilities/completion)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from mcp_django.bridge.completion import Completer
from mcp_django.bridge.prompts import catalog
from mcp_django.bridge.resources import completers
from mcp_django.exceptions import field_error
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import InvalidParams, PromptNotFound, ReferenceNotFound
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name


def complete(exchange: Exchange) -> JSON:
    """Suggestions for one argument. A prompt, resource or field that the principal may not use does not exist."""
    params = exchange.params
    name, typed = params["argument"]["name"], params["argument"]["value"]
    others = (params.get("context") or {}).get("arguments") or {}
    suggesting = _completers(exchange, params["ref"])
    if name not in suggesting:
        message = unknown_name("argument", name, list(suggesting))
        raise InvalidParams(f"Unknown argument: {name[:100]}.", [field_error("argument.name", message, name)])
    known = {other: value for other, value in others.items() if other in suggesting}
    return {"completion": suggesting[name](typed, known).to_json()}


def _completers(exchange: Exchange, ref: JSON) -> Mapping[str, Completer]:
    """The completer of each argument of the prompt or template that ``ref`` names. Raises MCPError."""
    if ref["type"] == "ref/prompt":
        entry = catalog.find(exchange, ref["name"])
        if entry is None:
            raise PromptNotFound(ref["name"], "ref.name")
        prompt = entry.prompt
        return {argument.name: partial(prompt.complete, exchange, argument.name) for argument in prompt.arguments}
    found = completers.completers(exchange, ref["uri"])
    if found is None:
        raise ReferenceNotFound(ref["uri"])
    return found
