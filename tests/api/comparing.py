"""Calls an operation as a client of HTTP and as an agent, and says how the two answers differ."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

from django.core.cache import cache
from django.db import transaction
from django.urls import Resolver404, resolve
from rest_framework.test import APIClient

from mcp_django.bridge.api.answers import without_secrets
from mcp_django.bridge.api.operations import Operation
from mcp_django.bridge.sites import MCPSite
from mcp_django.core.compat.requests import close_resources
from mcp_django.test import CallRefused, MCPClient

#: What a refusal says → the statuses of HTTP that it stands for.
_SAID = {
    "finds nothing there": (404, 410), "You may not make this call": (403,), "needs a login": (401, 403),
    "is one file here": (400,), "refuses this": (400, 409, 422, *range(300, 400)), "was called too often": (429,),
    "failed": range(500, 600),
}  # fmt: skip
#: Keys whose values name the host, or a row that is made anew each time.
_OF_HOST = ("next", "previous", "url", "file", "context", "thread")


def operation_of(site: MCPSite, path: str, method: str) -> tuple[Operation, Mapping[str, Any]] | None:
    """The operation that a path leads to, and the variables of the path."""
    with suppress(Resolver404):
        match = resolve(path)
        for one in site.api.operations.values():
            if one.route.callback is match.func and one.method == method:
                return one, {name: str(value) for name, value in match.kwargs.items()}
    return None


def over_http(user: Any, send: Callable[[APIClient], Any]) -> tuple[int, Any]:
    """The status and the value of an answer of HTTP; what it has written is taken back."""
    cache.clear()
    client = APIClient(raise_request_exception=False, SERVER_NAME="localhost")
    if user is not None:
        client.force_login(user)
    with rolled_back():
        try:
            response = send(client)
        except SystemExit:
            return 500, None
    value = _value(response)
    # A stream that is left open is ended by the collector, and Django sets a context variable then: if that happens
    # while another one is set, CPython 3.11 crashes.
    close_resources(response)
    return response.status_code, value


def _value(response: Any) -> Any:
    if response.streaming:
        chunks = iter(response)
        return b"".join(next(chunks, b"") for _ in range(10)).decode()
    text = response.content.decode()
    if "json" in response.get("Content-Type", ""):
        return json.loads(text) if text else None
    return text or None


@contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        try:
            yield
        finally:
            transaction.set_rollback(True)


def by_tool(
    client: MCPClient,
    operation: Operation,
    arguments: dict[str, Any],
    taken_back: Callable[[], AbstractContextManager[None]] = rolled_back,
) -> tuple[str, Any]:
    """What an agent gets: "done" with a value, or why it was refused; what a change has written is taken back."""
    cache.clear()
    if operation.is_safe:
        try:
            return "done", client.call("call_api", operation=operation.name, **arguments).structured
        except CallRefused as refused:
            return "refused", [str(refused), *refused.errors]
    with taken_back():
        try:
            plan = client.call("change_api", operation=operation.name, **arguments).structured
            arguments["confirm"] = plan["confirm"]
            made = client.call("change_api", operation=operation.name, **arguments).structured
            return ("done" if made["status"] == "applied" else made["status"]), made
        except CallRefused as refused:
            return "refused", [str(refused), *refused.errors]


def difference(status: int, expected: Any, outcome: str, got: Any) -> str:
    """How an answer of a tool differs from that of HTTP; empty where it does not."""
    if not 200 <= status < 300:
        said = str(got)
        agrees = outcome == "refused" and any(text in said and status in those for text, those in _SAID.items())
        return "" if agrees or (status >= 500 and outcome == "unknown") else f"{status}, but {outcome}: {got}"
    if outcome != "done" or got.get("answered", status) != status:
        return f"{status}, but {outcome}: {got}"
    expected, shown = _comparable(without_secrets(expected, ())), _comparable(shown_of(got, expected))
    return "" if expected == shown else f"{expected!r:.300} is not {shown!r:.300}"


def shown_of(got: Any, expected: Any) -> Any:
    """What a tool shows, in the form that HTTP has it in."""
    if "text" in got:
        return got["text"]
    rows = got.get("items")
    if "columns" in got:
        rows = [dict(zip(got["columns"], row, strict=True)) for row in got["rows"]]
    if rows is None:
        return got.get("result")
    if isinstance(expected, list):
        return rows
    name = next(name for name, value in expected.items() if isinstance(value, list))
    return {**expected, name: rows}


def _comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if name in _OF_HOST else _comparable(one) for name, one in value.items() if name != "id"}
    if isinstance(value, list):
        return [_comparable(one) for one in value[:100]]
    return value[:50] if isinstance(value, str) else value
