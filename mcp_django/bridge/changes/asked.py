"""What a tool needs beside the right to call it: by its declaration, and by what administrators decided.

A function or an action whose calls need people is previewed first, and confirmed, as a change of a record is.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from mcp_django.access import overrides
from mcp_django.bridge.changes import applying, change_rows, confirmations
from mcp_django.bridge.changes.proposed import ANSWER, CONFIRM, REASON
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.policy.policy import Rights

if TYPE_CHECKING:
    from mcp_django.bridge.changes.proposed import ChangingTool
    from mcp_django.bridge.declared.consent import Consent
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.protocol.types import JSON

_PROPERTIES: JSON = {
    CONFIRM: {"type": "string", "maxLength": confirmations.MAX_CHARS, "description": "From the preview."},
    REASON: {"type": "string", "maxLength": change_rows.MAX_REASON, "description": "Why, for people."},
}


def needs_people(request: MCPRequest | None, name: str, declared: Consent) -> bool:
    """Whether people may have to agree to a call of the tool, so that it is previewed first."""
    return declared != Level.PREVIEW.name.lower() or _decided(request, name) > Level.PREVIEW


def _decided(request: MCPRequest | None, name: str) -> Level:
    """What administrators decided, as it was read for this request."""
    site = None if request is None else request.mcp.site
    if request is None or site is None:
        return Level.PREVIEW
    decided = Rights.of(site, request).overrides
    row = (overrides.tools.of_request(site, request) if decided is None else decided).get(name)
    return Level.PREVIEW if row is None or not row.asks else Level.named(row.asks)


def with_confirmation(schema: JSON, names: Collection[str]) -> JSON:
    """The schema of a tool's arguments, with those of the ``names`` that confirm a call."""
    properties = {name: _PROPERTIES[name] for name in _PROPERTIES if name in names}
    return {**schema, "properties": {**schema.get("properties", {}), **properties}}


def preview_or_change(
    exchange: Exchange, tool: ChangingTool, arguments: JSON, *, how: str = applying.NOT_YET
) -> tuple[JSON, JSON | None]:
    """What the call would do, or what came of it, and the tool's own result if this call has made it.

    ``how`` says in a preview how it is confirmed.

    Raises InvalidQuery, ToolError and what the project raises.
    """
    if CONFIRM not in arguments:
        return applying.preview(exchange, tool, arguments, how=how), None
    answer = applying.change(exchange, tool, arguments)
    made: JSON | None = answer.pop(ANSWER, None)
    return answer, made
