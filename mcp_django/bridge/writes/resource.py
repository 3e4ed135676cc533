"""``mcp-change://NUMBER``: what became of a change. An agent watches it while the change waits for its user."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from mcp_django.bridge.changes import change_rows, outcomes
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.writes.tools import GetChange
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest


@dataclass(frozen=True)
class ChangeTemplate(FunctionTemplate):
    """The template of one site, available where get_change is."""

    site: Any = field(kw_only=True)

    def is_available(self, request: MCPRequest) -> bool:
        tool = self.site.tools.get(GetChange.name)
        return tool is not None and catalog.may_call_one_of(self.site, request, [tool])


def change_template(site: Any) -> ChangeTemplate:
    return ChangeTemplate(
        uri=change_rows.URI,
        name="change",
        function=_read,
        title="A change that you proposed",
        description="What became of it. Watch it while it waits for its user.",
        mime_type="application/json",
        watch=True,
        site=site,
    )


def _read(request: MCPRequest, change: str) -> JSON | None:
    exchange = cast("Exchange", request.mcp)
    found = change_rows.find(exchange.site, exchange.principal, change)
    return None if found is None else outcomes.answer_of(exchange, found)
