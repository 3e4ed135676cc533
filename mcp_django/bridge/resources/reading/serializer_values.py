"""Values of a DRF serializer as JSON: exact, and written as the values of rows are."""

from __future__ import annotations

import base64
import dataclasses
import datetime
from collections.abc import Mapping
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel
from pydantic_core import to_jsonable_python

from mcp_django.bridge.resources.fields import kinds

_KINDS: Mapping[type, kinds.Kind] = {
    int: kinds.INTEGER,
    Decimal: kinds.DECIMAL,
    datetime.datetime: kinds.DATETIME,
    datetime.date: kinds.DATE,
    datetime.time: kinds.TIME,
    datetime.timedelta: kinds.DURATION,
}


def write_value(value: Any, depth: int = 0) -> Any:
    """A value of a serializer as JSON: exact, and as the values of rows are written."""
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, Enum):
        return write_value(value.value, depth)
    if isinstance(value, str):
        return str(value)
    for cls in type(value).__mro__:
        if cls in _KINDS:
            return _KINDS[cls].write(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        value = to_jsonable_python(value, fallback=str)
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return str(value)
    if depth >= kinds.MAX_JSON_DEPTH:
        return f"… (deeper than {kinds.MAX_JSON_DEPTH} levels)"
    if isinstance(value, Mapping):
        return {str(name): write_value(item, depth + 1) for name, item in value.items()}
    return [write_value(item, depth + 1) for item in value]
