"""A database that goes away while a project's own code asks it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection

from mcp_django import outages, site

_LEAVING = {
    "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
    "mysql": "KILL CONNECTION_ID()",
    # It is a file, and cannot go away: what fails is a statement, and the connection only counts as lost.
    "sqlite": "SELECT * FROM what_is_not_there",
}


class Leaving:
    """Whoever asks for the permission to view a model loses the connection, as many ``times`` as it is told to."""

    def __init__(self, label: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.times = 0
        self._is_lost = False
        model_mcp, is_usable = site.models[label], outages._is_usable
        self._ask = model_mcp.has_view_permission
        monkeypatch.setattr(model_mcp, "has_view_permission", self._has_view_permission)
        monkeypatch.setattr(outages, "_is_usable", lambda one: not self._is_lost and is_usable(one))

    def _has_view_permission(self, request: Any, obj: Any = None) -> bool:
        self._is_lost = connection.vendor == "sqlite" and self.times > 0
        if self.times:
            self.times -= 1
            with connection.cursor() as cursor:
                cursor.execute(_LEAVING[connection.vendor])
        return self._ask(request, obj)
