"""Calls the functions of a project that answer a request: in this thread, or with their bodies on the event loop."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils import translation

from mcp_django.core.running.suspension import Suspended
from mcp_django.core.running.workers import can_suspend, run_function
from mcp_django.exceptions import FieldError
from mcp_django.exchange.exchange import Exchange

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest


class InvalidArguments(Exception):
    """The function cannot be called with these arguments. ``errors`` has an entry for each wrong one."""

    def __init__(self, errors: Sequence[FieldError], *, reason: str = "INVALID_ARGUMENTS") -> None:
        super().__init__("; ".join(f"{error['field']}: {error['message']}" for error in errors))
        self.errors = list(errors)
        #: As that of ToolError.
        self.reason = reason


def call_function(
    function: Callable[..., Any], request: MCPRequest, values: dict[str, Any], *, name: str, on_loop: bool = True
) -> Any:
    """``function(request, **values)``. ``name`` names it in logs, as "tool book".

    Raises Suspended for an asynchronous function whose body may run on the loop.
    """
    if not inspect.iscoroutinefunction(function):
        return function(request, **values)
    exchange = request.mcp
    if not on_loop or not isinstance(exchange, Exchange) or not exchange.connection.can_suspend or not can_suspend():
        return run_function(function, request, **values)
    if not exchange.site.runs_on_loop:
        return run_function(function, request, **values)
    used_tool, context = request.used_tool, exchange.site.acall_context

    async def body() -> Any:
        # The code that called this function has reset both by now.
        request.mcp, request.used_tool = exchange, used_tool
        with translation.override(settings.LANGUAGE_CODE):
            async with context(request):
                return await function(request, **values)

    principal = exchange.principal
    raise Suspended(body, name, exchange.cancellation, principal.key if principal.user.pk is not None else "")
