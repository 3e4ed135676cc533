"""Which annotations pydantic reads and writes by itself, without code of the project."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin
from uuid import UUID

from pydantic.fields import FieldInfo

_PLAIN = (str, int, float, bool, NoneType, None, date, datetime, time, timedelta, Decimal, UUID)
_GENERIC = (list, tuple, dict, Sequence, Mapping, Union, UnionType)


def is_plain(annotation: Any) -> bool:
    """Whether the annotation has only built-in types, whose values are checked without a call into the project."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return is_plain(parts[0]) and all(_is_plain_metadata(one) for one in annotation.__metadata__)
    if origin is Literal:
        return all(isinstance(one, str | int | NoneType) for one in parts)
    if origin in _GENERIC:
        return all(one is Ellipsis or is_plain(one) for one in parts)
    return annotation in _PLAIN or annotation in (list, dict)


def _is_plain_metadata(metadata: Any) -> bool:
    """Whether it only describes or bounds a value. A default_factory is a function of the project."""
    return isinstance(metadata, str) or (isinstance(metadata, FieldInfo) and metadata.default_factory is None)
