"""A database that becomes unreachable during a query of the project's own code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import DatabaseError, connection

from mcp_django import site
from mcp_django.core.db import outages

_LEAVING = {
    "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
    "mysql": "KILL CONNECTION_ID()",
    # SQLite is a file that is always reachable. So a statement fails, and the connection only counts as lost.
    "sqlite": "SELECT * FROM what_is_not_there",
}


class Leaving:
    """The check of the permission to view a model loses the connection, so many ``times``."""

    def __init__(self, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._is_lost = False
        model_mcp, is_usable = site.models[label], outages._is_usable
        self._ask = model_mcp.has_view_permission
        monkeypatch.setattr(model_mcp, "has_view_permission", self._has_view_permission)
        monkeypatch.setattr(outages, "_is_usable", lambda one: not self._is_lost and is_usable(one))

    def _has_view_permission(self, request: Any, obj: Any = None) -> bool:
        self._lose()
        return self._ask(request, obj)

    def _lose(self) -> None:
        self._is_lost = connection.vendor == "sqlite" and self.times > 0
        if self.times:
            self.times -= 1
            with connection.cursor() as cursor:
                cursor.execute(_LEAVING[connection.vendor])


class LeavingInContext(Leaving):
    """The site's ``call_context`` loses the connection, and raises its own exception from the database's."""

    def __init__(self, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(label, monkeypatch)
        monkeypatch.setattr(site.models[label], "has_view_permission", self._ask)
        monkeypatch.setattr(type(site), "call_context", self._call_context)

    @contextmanager
    def _call_context(self, request: Any) -> Iterator[None]:
        try:
            self._lose()
        except DatabaseError as error:
            raise LookupError("no tenant") from error
        yield
