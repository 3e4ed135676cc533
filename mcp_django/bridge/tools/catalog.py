"""The tools of a site for one exchange: listing those that the principal may call, and calling one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import translation

from mcp_django.access import overrides, pauses
from mcp_django.access.authentication import renew_principal
from mcp_django.access.overrides import Override
from mcp_django.access.permissions import (
    ALLOWED,
    Decision,
    check_scopes,
    decide,
    decides_alone,
    has_scope,
    supposing,
    using_tool,
)
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.tasks.framework import can_run
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.results import done_result, error_result, text_block
from mcp_django.bridge.tools.saved_queries import SavedQuery, saved_query
from mcp_django.conf import get_conf
from mcp_django.core import failures
from mcp_django.core.running.suspension import Suspended
from mcp_django.exceptions import MCPError, ToolError
from mcp_django.exchange.scopes import ANY_MODEL, READ, tools_in
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.json_schema.schemas import with_texts
from mcp_django.protocol.names import distinct_titles
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.tools.mirrored import Mirrored
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site


logger = logging.getLogger("mcp_django")


@dataclass(frozen=True, slots=True)
class AvailableTool:
    """A tool that the exchange's principal may call, with the description that an administrator gave it."""

    tool: BaseTool
    #: Empty: the tool's own description.
    description: str

    def describe(self, request: MCPRequest) -> JSON:
        """The tool as tools/list has it."""
        tool = self.tool
        with translation.override(settings.LANGUAGE_CODE), using_tool(request, tool.name):
            described: JSON = {
                "name": tool.name,
                "title": tool.get_title(),
                "description": self.description or tool.get_description(request),
                "inputSchema": _input_schema(tool, request),
                "annotations": tool.annotations.to_json(),
            }
            if (schema := tool.get_output_schema(request)) is not None:
                described["outputSchema"] = schema
        return described


def _input_schema(tool: BaseTool, request: MCPRequest) -> JSON:
    schema = tool.get_input_schema(request)
    return with_texts(schema) if get_conf().TEXT_ARGUMENTS else schema


def all_tools(site: Site, rows: Mapping[str, Override]) -> Mapping[str, BaseTool]:
    """Every tool of a site by name: those that exist without a database, and the queries that people saved."""
    saved = {name: tool for name, row in rows.items() if (tool := saved_query(site, name, row)) is not None}
    return {**site.tools, **saved} if saved else site.tools


def known(exchange: Exchange, name: str) -> BaseTool | None:
    """The tool of that name, whether or not the principal may call it."""
    declared = exchange.site.tools.get(name)
    return declared or saved_query(exchange.site, name, overrides.tools.of(exchange).get(name))


def available(exchange: Exchange, decided: Mapping[str, Override] | None = None) -> list[AvailableTool]:
    """The tools that the principal may call now, or could call if administrators had ``decided`` so."""
    rows = overrides.tools.of(exchange) if decided is None else decided
    Rights.of(exchange.site, exchange.request).decided_by(rows)
    find_actions(exchange)
    found = (_available(tool, rows, exchange) for tool in all_tools(exchange.site, rows).values())
    return [one for one in found if one is not None]


def listed(exchange: Exchange, *, fresh: bool = False) -> list[JSON]:
    """The tools as tools/list has them. ``fresh``: whether the overrides are read again."""
    rows = overrides.tools.of(exchange, fresh=fresh)
    with supposing(exchange.request):
        return distinct_titles([one.describe(exchange.request) for one in available(exchange, rows)])


def find(exchange: Exchange, name: str) -> BaseTool | None:
    """The tool of that name, if the principal may call it.

    For a tool that may write, the token, its user and the override are read again, even if they were read a moment ago.
    Raises Paused, and InsufficientScope if scopes that the client can ask for would open the tool.
    """
    if name not in exchange.site.tools:
        find_actions(exchange)
    tool = known(exchange, name)
    if tool is None:
        pauses.check_exchange(exchange)
        return None
    fresh = tool.scope != READ
    with using_tool(exchange.request, name):
        may_ask = has_scope(exchange.request, tool.least_scope)
        if fresh and may_ask:
            renew_principal(exchange)
    rows = exchange.tool_overrides
    if rows is None or fresh:
        # Without the scope nothing is asked, and so no permission is read.
        read = overrides.tools.of_call if may_ask else overrides.tools.of
        rows = read(exchange, fresh=fresh)
    pauses.check_exchange(exchange, rows)
    decision = _decide_by(tool, rows, exchange)
    if decision is ALLOWED and is_runnable(tool, exchange):
        return tool
    exchange.usage.refusal = "NO_TASKS" if decision is ALLOWED else decision.name
    check_scopes(exchange.request, lambda: _decide_by(tool, rows, exchange) is ALLOWED and is_runnable(tool, exchange))
    return None


def decision(exchange: Exchange, tool: BaseTool, decided: Mapping[str, Override]) -> Decision:
    """Whether the principal may call the tool by these overrides, and if not, why: for administrators."""
    return _decide_by(tool, decided, exchange)


def usable(exchange: Exchange, tools: Iterable[BaseTool]) -> Iterator[BaseTool]:
    """Those of the tools that the principal may call now. Each is checked when its turn comes."""
    rows = _decided(exchange)
    return (tool for tool in tools if _available(tool, rows, exchange) is not None)


def may_call_one_of(site: Site, request: MCPRequest, tools: Iterable[BaseTool]) -> bool:
    """Whether the request's principal may call one of the tools now. It needs no exchange: a push has none."""
    decided = Rights.of(site, request).overrides
    rows = overrides.tools.of_request(site, request) if decided is None else decided
    return any(_decide(tool, rows, request) is ALLOWED for tool in tools)


def withheld(exchange: Exchange, tools: Iterable[BaseTool]) -> Mapping[Decision, frozenset[str]]:
    """Why the principal may not call those of the tools that the user's own permissions allow, with their scopes.

    The reasons are SWITCHED_OFF and NO_SCOPE. A tool for groups that the user is not in counts as not allowed.
    """
    rows = _decided(exchange)
    found: dict[Decision, set[str]] = {}
    for tool in tools:
        if tool.is_closed:
            continue
        override = override_of(tool, rows)
        why = [] if override.enabled else [Decision.SWITCHED_OFF]
        with using_tool(exchange.request, tool.name):
            why += [] if has_scope(exchange.request, tool.scope) else [Decision.NO_SCOPE]
            on, hook = replace(override, enabled=True), tool.is_permitted
            if why and decide(exchange.request, ANY_MODEL, on, hook, f"tool {tool.name}") is ALLOWED:
                for reason in why:
                    found.setdefault(reason, set()).add(tool.scope)
    return {reason: frozenset(scopes) for reason, scopes in found.items()}


def mirrored(exchange: Exchange, name: object) -> tuple[Mirrored, ...]:
    """The arguments of a tool that HTTP clients repeat in headers.

    Whether the principal may call the tool is not asked: only a fault in the headers is worth that cost.
    """
    tool = exchange.site.tools.get(name) if isinstance(name, str) else None
    return () if tool is None else tool.mirrored


def exists(exchange: Exchange, name: str) -> bool:
    """Whether the principal may call the tool. For callers outside of a handler."""
    with exchange.site.in_context(exchange.request):
        return find(exchange, name) is not None


def may_change(exchange: Exchange, name: str) -> bool:
    """Whether it is a tool that may change data and that the principal may call. For callers outside of a handler."""
    with exchange.site.in_context(exchange.request):
        tool = find(exchange, name)
        return tool is not None and tool.may_change


def overrides_on_loop(site: Site, name: Any) -> Mapping[str, Override] | None:
    """What administrators decided, if a call then uses the database only in the body of the function.

    None if it may use the database elsewhere: such a call needs a worker.
    """
    if name not in site.tools_on_loop or site.has_call_context or not site.runs_on_loop:
        return None
    rows = overrides.tools.remembered(site)
    return rows if rows is not None and decides_alone(override_of(site.tools[name], rows)) else None


def call(tool: BaseTool, exchange: Exchange, arguments: JSON) -> JSON:
    """Run the tool. If it fails, the result says so. Only ToolError and TooSlow have a text for agents."""
    answer = partial(_run_or_explain, tool, exchange)
    try:
        return answer(partial(tool.run, exchange, arguments))
    except Suspended as suspended:
        suspended.then(answer)
        raise


def _run_or_explain(tool: BaseTool, exchange: Exchange, run: Callable[[], JSON]) -> JSON:
    """Run the tool. If it fails, the result says why."""
    try:
        with using_tool(exchange.request, tool.name):
            return _with_note(run(), tool, exchange)
    except (ToolError, TooSlow) as error:
        if exchange.usage.is_done:
            return _without_result(exchange, error.message)
        exchange.usage.fail(error.reason, error.errors)
        return error_result(error.message, error.errors)
    except MCPError:
        raise
    except (Exception, SystemExit) as error:
        if exchange.cancellation.cancelled:
            raise
        failures.note(error)
        logger.exception("The tool %s failed", tool.name)
        if exchange.usage.is_done:
            return _without_result(exchange, "What follows the work has failed; the server's log has the details.")
        exchange.usage.fail("TOOL_ERROR", raised=error)
        return error_result(f"{tool.name} failed. {tool.on_failure}")


def _with_note(result: JSON, tool: BaseTool, exchange: Exchange) -> JSON:
    """The result, with a text about arguments that were read otherwise than they were sent."""
    sent: JSON = exchange.params.get("arguments") or {}
    texts = [one for one in sent.values() if isinstance(one, str)]
    if not any(text.lstrip()[:1] in ("{", "[") for text in texts) or not (names := tool.read_from_texts(sent)):
        return result
    text = f"Read as JSON, which came as a text: {', '.join(names)}. Send the value itself."
    return {**result, "content": [*result.get("content", ()), text_block(text)]}


def _without_result(exchange: Exchange, why: str) -> JSON:
    """The result of a tool that has done its work. It is returned, since an error would end the project's context."""
    exchange.usage.is_result_lost = True
    return done_result(why)


def find_actions(exchange: Exchange) -> None:
    """Find the actions that the project offers only for this request, also if its credential is for one of them."""
    exchange.site.find_actions(exchange.request)
    # Any tool will do, since a credential for one may read whatever that tool needs.
    unknown = (name for name in tools_in(exchange.principal.scopes) if name not in exchange.site.tools)
    for name in islice(unknown, 1):
        with using_tool(exchange.request, name):
            exchange.site.find_actions(exchange.request)


def _available(tool: BaseTool, rows: Mapping[str, Override], exchange: Exchange) -> AvailableTool | None:
    if _decide(tool, rows, exchange.request) is not ALLOWED or not is_runnable(tool, exchange):
        return None
    return AvailableTool(tool, override_of(tool, rows).description)


def _decided(exchange: Exchange) -> Mapping[str, Override]:
    """What administrators decided, by which the tool was found that runs, if one does."""
    decided = Rights.of(exchange.site, exchange.request).overrides
    return overrides.tools.of(exchange) if decided is None else decided


def _decide_by(tool: BaseTool, rows: Mapping[str, Override], exchange: Exchange) -> Decision:
    """As ``_decide``. The same overrides then hold for everything that the tool reads."""
    Rights.of(exchange.site, exchange.request).decided_by(rows)
    return _decide(tool, rows, exchange.request)


def _decide(tool: BaseTool, rows: Mapping[str, Override], request: MCPRequest) -> Decision:
    if tool.is_closed:
        return Decision.READ_ONLY
    with using_tool(request, tool.name):
        override, is_available = override_of(tool, rows), tool.is_available
        if tool.asks_permissions:
            return decide(request, tool.least_scope, override, is_available, f"tool {tool.name}")
        decision = decide(request, tool.least_scope, override, None)
        return decision if decision is not ALLOWED or is_available(request) else Decision.NO_PERMISSION


def is_runnable(tool: BaseTool, exchange: Exchange) -> bool:
    """False for a tool that must be a task where the site cannot run tasks."""
    return tool.task != "required" or can_run(exchange.site)


def override_of(tool: BaseTool, rows: Mapping[str, Override]) -> Override:
    """What administrators decided about the tool."""
    row = rows.get(tool.name)
    if row is not None and (not row.query or isinstance(tool, SavedQuery)):
        return row
    # A row of a saved query decides nothing about a tool that the project has since declared under the same name.
    return overrides.ON if tool.enabled_by_default else overrides.OFF
