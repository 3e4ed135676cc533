"""tools/list and tools/call.

A list is always computed anew, in every process, so that a client that was notified of a change gets the new list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mcp_django.access.authentication import renew_principal
from mcp_django.access.changing_calls import calls
from mcp_django.bridge.tools import catalog
from mcp_django.bridge.tools.mirrored import find_mismatch
from mcp_django.bridge.tools.results import error_result
from mcp_django.core.running.bodies import is_small
from mcp_django.core.running.suspension import Suspended
from mcp_django.exceptions import MissingCapability
from mcp_django.exchange.connection import RequestHeaders
from mcp_django.exchange.exchange import Exchange
from mcp_django.protocol.errors import ToolNotFound
from mcp_django.protocol.types import JSON
from mcp_django.server import step_up
from mcp_django.server.pages import page
from mcp_django.server.request_state import OWN_PARAMS

if TYPE_CHECKING:
    from mcp_django.access.overrides import Override
    from mcp_django.exchange.site import Site


def list_tools(exchange: Exchange) -> JSON:
    renew_principal(exchange)
    listed = catalog.listed(exchange, fresh=True)
    if step_up.wants_schemes(exchange.principal):
        step_up.add_schemes(exchange, listed)
    return page(exchange, "tools", listed, lambda tool: str(tool["name"]))


def call_tool(exchange: Exchange) -> JSON:
    """Run a tool. Its own failures are results with ``isError``.

    For the client, a tool that the principal may not use does not exist.
    """
    tool = catalog.find(exchange, exchange.params["name"])
    if tool is None:
        step_up.check_login(exchange)
        raise ToolNotFound(exchange.params["name"])
    exchange.usage.found = tool.name
    exchange.usage.declared = tool.argument_names
    exchange.tool_overrides = None
    if tool.may_change:
        calls.add(exchange)
    answer = partial(_run_or_explain, exchange)
    try:
        return answer(partial(catalog.call, tool, exchange, exchange.params.get("arguments") or {}))
    except Suspended as suspended:
        suspended.then(answer)
        raise


def _run_or_explain(exchange: Exchange, run: Callable[[], JSON]) -> JSON:
    """Run the tool. For a legacy client a missing capability becomes an error result."""
    try:
        return run()
    except MissingCapability as error:
        if exchange.era.enveloped:
            raise
        exchange.usage.fail(error.reason)
        return error_result(error.message)


def overrides_on_loop(site: Site, params: JSON) -> Mapping[str, Override] | None:
    """What administrators decided, where a call with these params can be answered on the loop with it.

    Then nothing but the body of an asynchronous function reads the database, runs code of the project or takes long.
    """
    if not (OWN_PARAMS.isdisjoint(params) and is_small(params)):
        return None
    return catalog.overrides_on_loop(site, params.get("name"))


def check_param_headers(exchange: Exchange, headers: RequestHeaders) -> None:
    """Raises HeaderMismatch if a header does not repeat an argument as the tool's schema demands."""
    name = exchange.params.get("name")
    mirrored = catalog.mirrored(exchange, name)
    mismatch = find_mismatch(headers, mirrored, exchange.params.get("arguments")) if mirrored else None
    # For the client, a tool that the principal may not use does not exist, so its headers are never wrong.
    if mismatch is not None and catalog.exists(exchange, str(name)):
        raise mismatch
