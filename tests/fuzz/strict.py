"""SQLite as strict as PostgreSQL: no null character in a text, nor in JSON."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import DataError
from django.db.backends.utils import CursorWrapper
from django.db.models import JSONField


def be_strict(monkeypatch: pytest.MonkeyPatch) -> None:
    """What PostgreSQL refuses is refused by whatever database the test runs on."""
    execute, executemany, prepare = CursorWrapper.execute, CursorWrapper.executemany, JSONField.get_db_prep_value

    def strict_execute(self: Any, sql: str, params: Any = None) -> Any:
        _check(params)
        return execute(self, sql, params)

    def strict_executemany(self: Any, sql: str, param_list: Any) -> Any:
        given = list(param_list)
        for params in given:
            _check(params)
        return executemany(self, sql, given)

    def strict_prepare(self: Any, value: Any, connection: Any, prepared: bool = False) -> Any:
        if _holds_null(value):
            raise DataError("unsupported Unicode escape sequence")
        return prepare(self, value, connection, prepared)

    monkeypatch.setattr(CursorWrapper, "execute", strict_execute)
    monkeypatch.setattr(CursorWrapper, "executemany", strict_executemany)
    monkeypatch.setattr(JSONField, "get_db_prep_value", strict_prepare)


def _holds_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(_holds_null(item) for pair in value.items() for item in pair)
    if isinstance(value, list | tuple):
        return any(map(_holds_null, value))
    return isinstance(value, str) and "\x00" in value


def _check(params: Any) -> None:
    values = params.values() if isinstance(params, dict) else params or ()
    if any(isinstance(value, str) and "\x00" in value for value in values):
        raise DataError("A string literal cannot contain NUL (0x00) characters.")
