"""Calls each operation of a project's API as a client of HTTP and as an agent, for several callers."""

from __future__ import annotations

import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.core.signals import got_request_exception

from mcp_django.bridge.api.answers import without_secrets
from mcp_django.bridge.api.operations import Operation
from mcp_django.bridge.sites import MCPSite
from mcp_django.test import MCPClient
from tests.api.comparing import _comparable, by_tool, difference, over_http, shown_of
from tests.projects.apis.cases import Case, Cases
from tests.projects.apis.known import LEAK
from tests.projects.apis.paging import pages_by_tool, pages_over_http
from tests.projects.apis.places import rows_of

SCOPES = ["read", "write"]
#: Callers of those operations of which one case each is compared.
OF_ALL = ("root", "anonymous")
#: What differs between two calls that are the same: times, and keys that are made anew.
_NOW = re.compile(r"^20(?:2[6-9]|[3-9]\d)-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d)$")
_UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")


@dataclass
class Comparison:
    """The comparison of one site, for callers by their names. A caller without a user has no login."""

    site: MCPSite
    callers: Mapping[str, Any]
    #: Values of variables of paths.
    given: Mapping[str, Any]
    #: Names whose values differ from call to call.
    volatile: frozenset[str] = frozenset()
    #: Resources all of whose cases are compared, for each caller. None: all resources.
    full: frozenset[str] | None = None
    cases: Counter[str] = field(default_factory=Counter)
    skipped: list[str] = field(default_factory=list)
    #: Statuses of HTTP, and how often they came.
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    #: Why HTTP fails, with the calls that fail so.
    failures: dict[str, list[str]] = field(default_factory=dict)

    def lines(self, operations: list[Operation], callers: list[str]) -> Iterator[str]:
        """The differences, one a line: operation, caller, case, and how they differ."""
        with self._client("root") as client:
            made = Cases(self.callers["root"], client, self.given)
            cases = list(made.of(operations, self.full))
        self.skipped = made.skipped
        for caller in callers:
            with self._client(caller) as client:
                for case in cases:
                    if self.is_full(case.operation) or caller in OF_ALL:
                        differs = self._compare(client, self.callers[caller], case)
                        if differs:
                            yield f"{case.operation.name} {caller} {case.what}: {differs}"

    def is_full(self, operation: Operation) -> bool:
        return self.full is None or operation.resource in self.full

    def _client(self, caller: str) -> MCPClient:
        user = self.callers[caller]
        client = MCPClient(user, None if user is None else SCOPES, site=self.site, switched_on=["change_api"])
        client._request.META["REMOTE_ADDR"] = "127.0.0.1"
        return client

    def _compare(self, client: MCPClient, user: Any, case: Case) -> str:
        begun = time.monotonic()
        with _failing() as why:
            status, expected = pages_over_http(user, case) if case.is_whole else over_http(user, case.send)
        between = time.monotonic()
        outcome, got = _by_tool(client, case)
        self.seconds += Counter(http=between - begun, tool=time.monotonic() - between)
        self.cases["all"] += 1
        self.statuses[status] += 1
        if status >= 500:
            self.failures.setdefault(why[-1] if why else "", []).append(f"{case.operation.name} {case.what}")
        differs = self._difference(status, expected, outcome, got)
        self.cases["else" if differs else "equal"] += 1
        return differs

    def _difference(self, status: int, expected: Any, outcome: str, got: Any) -> str:
        if _is_said(status, outcome, got):
            return ""
        expected, got = self._steady(expected), self._steady(got)
        differs = difference(status, expected, outcome, got)
        if outcome != "done" or not differs:
            return differs
        if 400 <= status < 500:
            return f"{LEAK}{differs}"
        differs = where(expected, shown_of(got, expected)) or differs
        more = len(got.get("rows", got.get("items", ()))) - len(rows_of(expected))
        return f"{LEAK}{more} rows more: {differs}" if more > 0 else differs

    def _steady(self, value: Any) -> Any:
        """The value without what differs from call to call."""
        if isinstance(value, dict):
            if "columns" in value and "rows" in value:
                rows = [
                    [self._of_name(*one) for one in zip(value["columns"], row, strict=True)] for row in value["rows"]
                ]
                return {**value, "rows": rows}
            return {name: self._of_name(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self._steady(one) for one in value]
        if isinstance(value, str):
            return "now" if _NOW.match(value) else _UUID.sub("uuid", value)
        return value

    def _of_name(self, name: str, value: Any) -> Any:
        return "…" if name in self.volatile else self._steady(value)


def same(expected: Any, shown: Any) -> bool:
    """Whether two values are those of the same answer."""
    return bool(_comparable(without_secrets(expected, ())) == _comparable(shown))


def where(expected: Any, shown: Any, path: str = "") -> str:
    """The first place where two values differ, with what stands there; empty if it is not found."""
    if isinstance(expected, dict) and isinstance(shown, dict):
        pairs = [(name, expected.get(name, "nothing"), shown.get(name, "nothing")) for name in {**expected, **shown}]
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        pairs = [(str(index), *both) for index, both in enumerate(zip(expected, shown, strict=True))]
    else:
        return "" if same(expected, shown) else f"{path}: {expected!r:.200} is not {shown!r:.200}"
    found = (where(one, other, f"{path}.{name}".lstrip(".")) for name, one, other in pairs if not same(one, other))
    return next(found, "")


def _by_tool(client: MCPClient, case: Case) -> tuple[str, Any]:
    try:
        return pages_by_tool(client, case) if case.is_whole else by_tool(client, case.operation, case.arguments)
    except Exception as error:  # noqa: BLE001 - it is reported
        return "crashed", f"{type(error).__name__}: {error}"


def _is_said(status: int, outcome: str, got: Any) -> bool:
    """Whether the agent is told the very status, or that a change was answered by a redirect."""
    if outcome == "refused":
        return f"(status {status})" in str(got)
    return status in range(300, 400) and outcome == "done" and got.get("answered") == status


@contextmanager
def _failing() -> Iterator[list[str]]:
    """The errors that views have ended with."""
    found: list[str] = []

    def note(**kwargs: Any) -> None:
        found.append(f"{sys.exc_info()[1]!r:.200}")

    got_request_exception.connect(note, weak=False)
    try:
        yield found
    finally:
        got_request_exception.disconnect(note)
