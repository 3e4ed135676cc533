"""Calls tools, and reads prompts, for a person in the admin, as an agent of that person would, or of another user."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from django.http import HttpRequest
from pydantic_core import from_json

from mcp_django.bridge.sites import MCPSite
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.conf import get_conf
from mcp_django.core.running.deadlines import deadlines
from mcp_django.core.running.in_request import as_in_a_call
from mcp_django.exceptions import MCPError, MissingCapability
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import from_view
from mcp_django.exchange.scopes import SCOPES, expand
from mcp_django.protocol.envelope import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, Client
from mcp_django.protocol.names import CONSOLE, escaped
from mcp_django.protocol.revisions import NEWEST
from mcp_django.server.completion import complete
from mcp_django.server.dispatch import respond
from mcp_django.types import JSON

T = TypeVar("T")

#: Rows and cells of the table that an answer is shown as.
_MAX_ROWS, _MAX_CELL = 100, 200


class _Console(NoConnection):
    """The admin, where a person stands for the client. Nobody can be asked there."""

    transport = "admin"


@dataclass(frozen=True)
class Table:
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class Answer:
    """What came of a call."""

    call: JSON
    body: bytes
    ms: float
    queries: int

    @cached_property
    def message(self) -> JSON:
        found: JSON = from_json(self.body)
        return found

    @property
    def result(self) -> JSON:
        found: JSON = self.message.get("result", {})
        return found

    @property
    def is_error(self) -> bool:
        return "error" in self.message or bool(self.result.get("isError"))

    @property
    def needs_client(self) -> bool:
        """Whether the tool asks its user, or continues as a task. Both need a real client."""
        return bool(self.message.get("error", {}).get("code") == MissingCapability.code)

    @property
    def text(self) -> str:
        """What the agent reads."""
        if "error" in self.message:
            return str(self.message["error"]["message"])
        return "\n".join(str(part.get("text", f"({part.get('type')})")) for part in self.result.get("content", ()))

    @property
    def json(self) -> str:
        return json.dumps(self.message, indent=2, ensure_ascii=False)

    @property
    def bytes(self) -> int:
        return len(self.body)

    @property
    def table(self) -> Table | None:
        """The rows of the answer, where it is a list of objects or has one."""
        content = self.result.get("structuredContent")
        if isinstance(content, Mapping) and _is_table(content.get("columns"), content.get("rows")):
            return Table(content["columns"], [list(map(_cell, row)) for row in content["rows"][:_MAX_ROWS]])
        values = content.values() if isinstance(content, Mapping) else [content]
        rows = next((value for value in values if _is_rows(value)), None)
        if rows is None:
            return None
        headings = list(dict.fromkeys(name for row in rows[:_MAX_ROWS] for name in row))
        return Table(headings, [[_cell(row.get(name)) for name in headings] for row in rows[:_MAX_ROWS]])


def _is_table(columns: Any, rows: Any) -> bool:
    return isinstance(columns, list) and isinstance(rows, list) and all(isinstance(row, list) for row in rows)


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(row, Mapping) for row in value)


def _cell(value: Any) -> str:
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_CELL else f"{text[:_MAX_CELL]}…"


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

    It is answered in a thread of its own, so in no transaction of the request. The trail has a line of the user's,
    whose client is named after the person.
    """
    exchange = _exchange(request, site, user, method, params, scopes=scopes)
    if user.pk != request.user.pk:
        # The line has only the beginning of the person's name, which may change. No argument has this name.
        exchange.usage.values["called by"] = str(request.user.pk)

    def run() -> Answer:
        began = time.perf_counter()
        body = respond(exchange).body
        ms = (time.perf_counter() - began) * 1_000
        asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return Answer(asked, body, ms, exchange.cancellation.queries.count)

    return _in_time(exchange, run)


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

    return _in_time(exchange, run)


def _exchange(
    request: HttpRequest, site: MCPSite, user: Any, method: str, params: JSON, *, scopes: Iterable[str] = SCOPES
) -> Exchange:
    envelope = {PROTOCOL_VERSION_META_KEY: NEWEST, CLIENT_CAPABILITIES_META_KEY: {}}
    principal = Principal(user, expand(scopes), source=Source.COMMAND)
    return Exchange(
        site=site, principal=principal, revision=NEWEST, method=method, request_id=1,
        params={**params, "_meta": envelope},
        client=Client({"version": "1"}, known_as=escaped(f"{CONSOLE} {request.user.get_username()}")),
        connection=_Console(), request=from_view(request).for_principal(principal),
    )  # fmt: skip


def _in_time(exchange: Exchange, run: Callable[[], T]) -> T:
    """What the function returns. Its queries are stopped when the time of a request is over."""

    def expire() -> None:
        exchange.cancellation.expire()
        exchange.cancellation.queries.interrupt()

    def within() -> T:
        with deadlines.within(get_conf().REQUEST_SECONDS or 3_600, expire):
            return run()

    return as_in_a_call(within)
