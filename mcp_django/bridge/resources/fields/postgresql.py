"""The kinds of PostgreSQL's own fields: arrays, ranges and hstore. Needs ``django.contrib.postgres`` and a driver."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from django.contrib.postgres import fields as postgres
from django.core.exceptions import ValidationError
from django.core.validators import DecimalValidator
from django.db import models

from mcp_django.bridge.resources.fields import field_kinds, kinds
from mcp_django.bridge.resources.fields.kinds import Kind, list_of
from mcp_django.bridge.resources.fields.parsing import MAX_LIST_VALUES, ValueReader, as_list, check_length, read_part
from mcp_django.core.types import AnyField

#: The brackets of a range, which say whether its ends belong to it.
_BOUNDS = ("[)", "[]", "()", "(]")
#: Of a range that holds no value.
_EMPTY = "empty"

#: The kinds whose values an array may be searched for.
_COMPARED = frozenset(
    {
        kinds.INTEGER, kinds.BOOLEAN, kinds.TEXT, kinds.NUMBER, kinds.DECIMAL, kinds.DATE, kinds.DATETIME, kinds.TIME,
        kinds.DURATION, kinds.UUID,
    }
)  # fmt: skip


def kind_of(cls: type[Any], field: Any, *, named: bool) -> Kind | None:
    """The kind of a field whose class is ``cls``, or is made from it."""
    if cls is postgres.ArrayField:
        base = field_kinds.kind_of(field.base_field, named=named)
        return None if base is None or base.linked else _array_of(base)
    return _KINDS.get(cls)


@cache
def _array_of(base: Kind) -> Kind:
    listed = list_of(base)
    compared = ("exact", "contains", "contained_by", "overlap") if base in _COMPARED else ()
    lookups = (*compared, "len", "isnull")

    def read_values(field: Any, values: Any, *, takes_null: bool = False) -> list[Any]:
        base_field = field.base_field
        return [
            None if value is None and takes_null else _fitting(base_field, base.read(base_field, value))
            for value in _checked(values)
        ]

    def read(field: Any, values: Any) -> list[Any]:
        """A list to store, which may hold nulls. No row is compared with them."""
        return read_values(field, values, takes_null=field.base_field.null)

    readers: Mapping[str, ValueReader] = {**dict.fromkeys(compared, read_values), "len": read_part}
    return Kind(listed.name, listed.schema, lookups, read, listed.write, orderable=False, readers=readers, long=True)


def _checked(values: Any) -> list[Any]:
    """A list that is not too long. Raises ValidationError."""
    listed = as_list(values)
    check_length(listed)
    return listed


def _fitting(field: AnyField, value: Any) -> Any:
    """A value that the database casts to the field's type without a change. Raises ValidationError."""
    if isinstance(value, str) and field.max_length is not None and len(value) > field.max_length:
        raise ValidationError(f"no value is longer than {field.max_length} characters")
    if isinstance(field, models.DecimalField):
        DecimalValidator(field.max_digits, field.decimal_places)(value)
    return value


def _range_of(base: Kind) -> Kind:
    """The kind of a range of values: an object with its ends, null where it has none."""

    def read(field: Any, value: Any) -> Any:
        if not isinstance(value, dict) or not value.keys() <= {"lower", "upper", "bounds"}:
            raise ValidationError('must be an object, as {"lower": 1, "upper": 5, "bounds": "[)"}')
        bounds = value.get("bounds", "[)")
        if bounds == _EMPTY and value.get("lower") is value.get("upper") is None:
            return field.range_type(empty=True)
        if bounds not in _BOUNDS:
            raise ValidationError(f"bounds must be one of {', '.join(_BOUNDS)}")
        lower, upper = (
            None if value.get(name) is None else read_end(field, value[name]) for name in ("lower", "upper")
        )
        if lower is not None and upper is not None and lower > upper:
            raise ValidationError("lower must not be greater than upper")
        return field.range_type(lower, upper, bounds)

    def read_end(field: Any, value: Any) -> Any:
        end = base.read(field.base_field, value)
        if isinstance(end, int):
            base.read(field.base_field, end + 1)  # PostgreSQL writes an end that is included as the number after it.
        return end

    def read_range_or_value(field: Any, value: Any) -> Any:
        if isinstance(value, dict):
            return read(field, value)
        end = read_end(field, value)
        return field.range_type(end, end, "[]")

    def write(value: Any) -> Any:
        if value.isempty:
            return {"lower": None, "upper": None, "bounds": _EMPTY}
        lower, upper = (None if end is None else base.write(end) for end in (value.lower, value.upper))
        bounds = ("[" if value.lower_inc else "(") + ("]" if value.upper_inc else ")")
        return {"lower": lower, "upper": upper, "bounds": bounds}

    lookups = ("exact", "contains", "contained_by", "overlap", "fully_lt", "fully_gt", "isnull")
    readers: Mapping[str, ValueReader] = {"contains": read_range_or_value}
    return Kind(
        f"{base.name} range", {"type": "object"}, lookups, read, write, orderable=False, readers=readers
    )  # fmt: skip


def _read_pairs(field: AnyField, value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or len(value) > MAX_LIST_VALUES:
        raise ValidationError('must be an object of strings, as {"color": "red"}')
    return {kinds.TEXT.read(field, key): kinds.TEXT.read(field, item) for key, item in value.items()}


def _read_map(field: AnyField, value: Any) -> dict[str, str | None]:
    """A map to store, whose values may be null. No row is compared with them."""
    nulls = {key: None for key, item in value.items() if item is None} if isinstance(value, dict) else {}
    pairs = value if not nulls else {key: item for key, item in value.items() if item is not None}
    return {**_read_pairs(field, pairs), **dict.fromkeys((kinds.TEXT.read(field, key) for key in nulls), None)}


def _read_keys(field: AnyField, value: Any) -> list[str]:
    return [kinds.TEXT.read(field, key) for key in _checked(value)]


#: Without ``django.contrib.postgres`` among the installed apps the value is text, as the database writes it.
HSTORE = Kind(
    "string map", {}, ("contains", "has_key", "has_keys", "has_any_keys", "isnull"), _read_map, kinds.DATA.write,
    orderable=False, long=True,
    readers={"contains": _read_pairs, "has_key": kinds.TEXT.read, "has_keys": _read_keys, "has_any_keys": _read_keys},
)  # fmt: skip

_KINDS: Mapping[type[Any], Kind] = {
    postgres.HStoreField: HSTORE,
    postgres.IntegerRangeField: _range_of(kinds.INTEGER),
    postgres.BigIntegerRangeField: _range_of(kinds.INTEGER),
    postgres.DecimalRangeField: _range_of(kinds.DECIMAL),
    postgres.DateRangeField: _range_of(kinds.DATE),
    postgres.DateTimeRangeField: _range_of(kinds.DATETIME),
}
