"""Calls that a person makes, on a page of the admin or by a command, and what an agent would be answered."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from pydantic_core import from_json

from mcp_django.bridge.sites import MCPSite
from mcp_django.conf import get_conf
from mcp_django.core.running.deadlines import deadlines
from mcp_django.core.running.in_request import as_in_a_call
from mcp_django.exceptions import MissingCapability
from mcp_django.exchange.connection import NoConnection
from mcp_django.exchange.exchange import Exchange
from mcp_django.exchange.principals import Principal, Source
from mcp_django.exchange.requests import MCPRequest
from mcp_django.exchange.scopes import expand
from mcp_django.protocol.envelope import CLIENT_CAPABILITIES_META_KEY, PROTOCOL_VERSION_META_KEY, Client
from mcp_django.protocol.names import escaped
from mcp_django.protocol.revisions import NEWEST
from mcp_django.protocol.types import JSON
from mcp_django.server.dispatch import respond

T = TypeVar("T")

#: Rows and cells of the table that an answer is shown as.
_MAX_ROWS, _MAX_CELL = 100, 200


class _ByPerson(NoConnection):
    """A person stands for the client. Nobody can be asked there, and nobody is paused."""

    is_of_agent = False

    def __init__(self, transport: str) -> None:
        self.transport = transport


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
    #: The token that confirms what the call has previewed; empty where it has previewed nothing.
    confirm: str = ""

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


def exchange_for(
    site: MCPSite,
    user: Any,
    scopes: Iterable[str],
    method: str,
    params: JSON,
    *,
    request: MCPRequest,
    transport: str,
    known_as: str,
) -> Exchange:
    """A request as an agent of ``user`` with these scopes would make it.

    ``request`` is that of the person, ``transport`` is ``admin`` or ``command``, and the activity calls the client as
    ``known_as`` says.
    """
    envelope = {PROTOCOL_VERSION_META_KEY: NEWEST, CLIENT_CAPABILITIES_META_KEY: {}}
    principal = Principal(user, expand(scopes), source=Source.COMMAND)
    return Exchange(
        site=site, principal=principal, revision=NEWEST, method=method, request_id=1,
        params={**params, "_meta": envelope},
        client=Client({"version": "1"}, known_as=escaped(known_as)),
        connection=_ByPerson(transport), request=request.for_principal(principal),
    )  # fmt: skip


def answer(exchange: Exchange) -> Answer:
    """What the agent would be answered. The trail has a line of it."""

    def run() -> Answer:
        began = time.perf_counter()
        body = respond(exchange).body
        ms = (time.perf_counter() - began) * 1_000
        params = {name: value for name, value in exchange.params.items() if name != "_meta"}
        asked = {"jsonrpc": "2.0", "id": 1, "method": exchange.method, "params": params}
        return Answer(asked, body, ms, exchange.cancellation.queries.count, exchange.usage.confirm)

    return in_time(exchange, run)


def in_time(exchange: Exchange, run: Callable[[], T]) -> T:
    """What the function returns. Its queries are stopped when the time of a request is over."""

    def expire() -> None:
        exchange.cancellation.expire()
        exchange.cancellation.queries.interrupt()

    def within() -> T:
        with deadlines.within(get_conf().REQUEST_SECONDS or 3_600, expire):
            return run()

    return as_in_a_call(within)
