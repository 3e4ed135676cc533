"""Finds values for the variables of paths: the keys of rows that the API itself shows, or that are in the database."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from django.urls import Resolver404, resolve

from mcp_django.bridge.api.operations import Operation

#: Keys of a row in a list that may name it in a path.
_KEYS = ("id", "pk", "uuid", "slug", "code", "name", "key", "identifier", "number", "local_id")


class Places:
    """The values of the variables of each path, as far as they are found."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        #: What the project itself says of variables, by their names.
        self._given = given
        #: Callback of a view → the variables with which a row that was shown names it.
        self._seen: dict[int, Mapping[str, str]] = {}
        #: Path of a list → its rows.
        self._rows: dict[str, list[Any]] = {}

    def learn(self, path: str, shown: Any) -> None:
        """Note the URLs in what a path shows, and its rows."""
        self._rows.setdefault(path, rows_of(shown))
        for url in _urls(shown):
            with suppress(Resolver404):
                match = resolve(urlsplit(url).path)
                # Not captured_kwargs, which lacks those of the patterns that include the last one.
                found = {name: str(one) for name, one in match.kwargs.items() if name not in match.extra_kwargs}
                if found:
                    self._seen.setdefault(id(match.func), found)

    def values(self, operation: Operation) -> Mapping[str, str] | None:
        """The variables of the path of an operation; None if one of them is not known."""
        names = operation.route.names
        if not names:
            return {}
        if found := self._seen.get(id(operation.route.callback)):
            return {**found, **{name: str(self._given[name]) for name in names if name in self._given}}
        values: dict[str, str] = {}
        for name in names:
            value = self._given.get(f"{operation.resource}.{name}", self._given.get(name))
            if value is None:
                value = self._value(operation, name, values)
            if value is None:
                return None
            values[name] = str(value)
        return values

    def _value(self, operation: Operation, name: str, before: Mapping[str, str]) -> Any:
        """The key of a row of the list above a variable, or of the model of the view."""
        above = operation.route.text.partition(f"{{{name}}}")[0]
        for one, value in before.items():
            above = above.replace(f"{{{one}}}", value)
        view = operation.view_class
        lookup = getattr(view, "lookup_field", None)
        for row in self._rows.get(above, ()):
            for key in dict.fromkeys(filter(None, (name, lookup, *_KEYS))):
                if isinstance(row, Mapping) and isinstance(row.get(key), str | int):
                    return row[key]
        if name != operation.route.names[-1]:
            return None
        with suppress(Exception):
            row = operation.model._base_manager.order_by("pk").first()
            return getattr(row, (lookup or "pk").replace("__", "."))
        return None


def rows_of(shown: Any) -> list[Any]:
    """The rows of a list, or of the page of one."""
    if isinstance(shown, list):
        return shown
    lists = [one for one in shown.values() if isinstance(one, list)] if isinstance(shown, dict) else []
    return lists[0] if len(lists) == 1 else []


def _urls(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for one in value.values():
            yield from _urls(one)
    elif isinstance(value, list):
        for one in value[:3]:
            yield from _urls(one)
    elif isinstance(value, str) and value.startswith(("http://localhost/", "/")):
        yield value
