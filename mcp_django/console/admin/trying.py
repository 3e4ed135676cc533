"""Calls tools, and reads prompts, for a person in the admin, as an agent of that person would, or of another user."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from django.http import HttpRequest

from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.conf import get_conf
from mcp_django.console.calls import Answer, answer, exchange_for, in_time
from mcp_django.exceptions import MCPError
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.requests import from_view
from mcp_django.exchange.scopes import SCOPES
from mcp_django.protocol.names import CONSOLE
from mcp_django.protocol.types import JSON
from mcp_django.server.completion import complete


def may_try_as_others(user: Any) -> bool:
    """Whether the user may act as another one: a superuser under TRY_AS, where the trail names both."""
    conf = get_conf()
    return bool(conf.TRY_AS) and conf.AUDIT != "off" and bool(getattr(user, "is_superuser", False))


def call(
    request: HttpRequest, site: MCPSite, tool: BaseTool, user: Any, arguments: JSON, *, scopes: Iterable[str] = SCOPES
) -> Answer:
    """Call the tool as an agent of ``user`` with these scopes would, for the person of the request."""
    params = {"name": tool.name, "arguments": arguments}
    return send(request, site, user, "tools/call", params, scopes=scopes)


def send(
    request: HttpRequest, site: MCPSite, user: Any, method: str, params: JSON, *, scopes: Iterable[str] = SCOPES
) -> Answer:
    """Send a message as an agent of ``user`` with these scopes would, for the person of the request.

    The trail has a line of the user's, whose client is named after the person.
    """
    exchange = _exchange(request, site, user, method, params, scopes=scopes)
    if user.pk != request.user.pk:
        # The line has only the beginning of the person's name, which may change. No argument has this name.
        exchange.usage.values["called by"] = str(request.user.pk)
    return answer(exchange)


def suggest_for_tool(
    request: HttpRequest, site: MCPSite, tool: BaseTool, name: str, typed: Mapping[str, str]
) -> Sequence[str]:
    """Values for an argument of the tool, as an agent of the person may see them. ``typed``: each argument so far.

    The protocol has no completion of the arguments of tools, so that no agent can ask for these.
    """
    exchange = _exchange(request, site, request.user, "completion/complete", {})
    return _suggested(exchange, lambda: tool.complete(exchange, name, typed).values)


def suggest_for_prompt(
    request: HttpRequest, site: MCPSite, prompt: str, name: str, typed: Mapping[str, str]
) -> Sequence[str]:
    """Values for an argument of the prompt, as an agent of the person is suggested them."""
    params = {
        "ref": {"type": "ref/prompt", "name": prompt},
        "argument": {"name": name, "value": typed[name]},
        "context": {"arguments": {other: text for other, text in typed.items() if other != name and text}},
    }
    exchange = _exchange(request, site, request.user, "completion/complete", params)
    return _suggested(exchange, lambda: complete(exchange)["completion"]["values"])


def _suggested(exchange: Exchange, ask: Callable[[], Sequence[str]]) -> Sequence[str]:
    """Typing is no call: it is neither counted against a limit nor written down. What is refused has no suggestions."""

    def run() -> Sequence[str]:
        with exchange.site.in_context(exchange.request):
            try:
                return ask()
            except MCPError:
                return ()

    return in_time(exchange, run)


def _exchange(
    request: HttpRequest, site: MCPSite, user: Any, method: str, params: JSON, *, scopes: Iterable[str] = SCOPES
) -> Exchange:
    return exchange_for(
        site, user, scopes, method, params, request=from_view(request), transport="admin",
        known_as=f"{CONSOLE} {request.user.get_username()}",
    )  # fmt: skip
