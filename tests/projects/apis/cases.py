"""The calls that are compared: each with what is sent, for operations and for pages of lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Any
from urllib.parse import quote

from mcp_django.bridge.api.answers import MOST_ROWS, without_secrets
from mcp_django.bridge.api.operations import Operation
from mcp_django.test import MCPClient
from tests.api.comparing import over_http
from tests.projects.apis.bodies import bodies
from tests.projects.apis.places import Places, rows_of

#: Filters of one list that are tried.
_MOST_QUERIES = 3
#: A list goes over as many pages.
_PAGES = 3


@dataclass(frozen=True)
class Case:
    """One call, and what is sent with it."""

    operation: Operation
    values: Mapping[str, str]
    what: str
    body: Any = None
    query: Mapping[str, Any] = field(default_factory=dict)
    #: Whether all pages of the list are read.
    is_whole: bool = False
    #: The arguments of ``call_api`` that no client of HTTP has.
    ours: Mapping[str, Any] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return quote(self.operation.route.path(self.values))

    def send(self, http: Any) -> Any:
        """Send it with the client of HTTP."""
        method = self.operation.method.lower()
        if method == "get":
            return http.get(self.url, self.query)
        return getattr(http, method)(self.url, data=self.body, format=_format(self.operation))

    @property
    def arguments(self) -> dict[str, Any]:
        query = {} if self.ours else self.query
        return {"params": {**self.values, **query}, **self.ours, **({} if self.body is None else {"body": self.body})}


class Cases:
    """The cases of all operations. What a superuser sees of the lists names the rows of the others."""

    def __init__(self, root: Any, client: MCPClient, given: Mapping[str, Any]) -> None:
        self._root, self._client, self._places = root, client, Places(given)
        #: What GET of a path shows to the superuser.
        self._shown: dict[str, Any] = {}
        #: Operations whose paths have variables for which no value was found.
        self.skipped: list[str] = []

    def of(self, operations: list[Operation], full: frozenset[str] | None) -> Iterator[Case]:
        """Those of these operations; one of each whose resource is not among ``full``, if that is given."""
        for one in sorted((one for one in operations if one.is_safe), key=lambda one: len(one.route.names)):
            if (values := self._places.values(one)) is not None:
                yield from self._reading(one, values, is_full=full is None or one.resource in full)
        for one in operations:
            values = self._places.values(one)
            if values is None:
                self.skipped.append(f"{one.name}: {one.route.text}")
            elif not one.is_safe:
                yield from self._changing(one, values, is_full=full is None or one.resource in full)

    def _reading(self, one: Operation, values: Mapping[str, str], *, is_full: bool) -> Iterator[Case]:
        case = Case(one, values, "GET")
        yield case
        status, found = over_http(self._root, case.send)
        if status != 200:
            return
        path = one.route.path(values)
        self._shown[path] = found
        self._places.learn(path, found)
        if is_full and (rows := rows_of(found)):
            described = self._describe(one).get("params", {})
            yield from (
                Case(one, values, f"GET by {name}", query={name: value}) for name, value in queries(described, rows)
            )
            yield from _pages(one, values, found, rows)

    def _changing(self, one: Operation, values: Mapping[str, str], *, is_full: bool) -> Iterator[Case]:
        if not is_full:
            yield Case(one, values, f"{one.method} empty", None if one.method == "DELETE" else {})
            return
        shown = self._shown.get(one.route.path(values))
        row = next(iter(rows_of(shown)), None)
        # An agent sends what it has seen.
        made = bodies(one, self._describe(one).get("body"), without_secrets(shown, ()), row)
        yield from (Case(one, values, f"{one.method} {what}", body) for what, body in made)

    def _describe(self, one: Operation) -> Any:
        return self._client.call("describe_api", operation=one.name).structured


def _pages(one: Operation, values: Mapping[str, str], found: Any, rows: list[Any]) -> Iterator[Case]:
    """A list over several pages: small ones, if the API has a parameter for that."""
    paginator = getattr(one.view_class, "pagination_class", None)
    size = getattr(paginator, "page_size_query_param", None) or getattr(paginator, "limit_query_param", None)
    if isinstance(found, dict) and "next" in found:
        count = found.get("count", len(rows))
        if size and count > 1:
            limit = min(ceil(count / _PAGES), MOST_ROWS)
            yield Case(one, values, f"GET pages of {limit}", query={size: limit}, is_whole=True, ours={"limit": limit})
        elif count > len(rows):
            yield Case(one, values, "GET all pages", is_whole=True)
    elif isinstance(found, list) and len(rows) > MOST_ROWS:
        yield Case(one, values, "GET all pages", is_whole=True)


def queries(described: Mapping[str, Any], rows: list[Any]) -> Iterator[tuple[str, Any]]:
    """Names in the query of a list that its rows have as well, each with the value of the first row that has one."""
    names = [name for name in described if any(isinstance(row, Mapping) and name in row for row in rows)]
    for name in names[:_MOST_QUERIES]:
        value = next((row[name] for row in rows if isinstance(row, Mapping) and row.get(name)), None)
        if isinstance(value, str | int):
            yield name, value


def _format(operation: Operation) -> str:
    parsers = operation.initkwargs.get("parser_classes", getattr(operation.view_class, "parser_classes", ()))
    kinds = [getattr(one, "media_type", "") for one in parsers]
    return "multipart" if kinds and not any("json" in one or one == "*/*" for one in kinds) else "json"
