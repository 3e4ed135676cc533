"""The kind of each of Django's field classes: its JSON type, its lookups, how its values are read and written.

``field_kinds`` says what the kind of a field of another class is.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from typing import Any

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.db.models.functions import Length
from django.utils import timezone
from django.utils.duration import duration_iso_string

from mcp_django.bridge.resources.fields import days
from mcp_django.bridge.resources.fields.parsing import (
    ValueReader,
    read_address,
    read_boolean,
    read_date,
    read_datetime,
    read_datetime_or_day,
    read_decimal,
    read_duration,
    read_integer,
    read_number,
    read_part,
    read_text,
    read_time,
    read_uuid,
    read_year,
    refuse,
)
from mcp_django.core.types import AnyField

#: Integers beyond this lose digits in JavaScript clients, so they are written as strings.
MAX_SAFE_INTEGER = 2**53 - 1

_EXACT = ("exact", "in", "isnull")
_ORDERED = (*_EXACT, "gt", "gte", "lt", "lte", "range")
_TEXT = (
    *_EXACT, "iexact", "contains", "icontains", "startswith", "istartswith", "endswith", "iendswith",
    "gt", "gte", "lt", "lte",
)  # fmt: skip
_DATE_PARTS = ("year", "quarter", "month", "day", "week", "week_day", "iso_year", "iso_week_day")
_TIME_PARTS = ("hour", "minute", "second")
#: Lookups that take a part of the value, which is then compared.
PARTS = frozenset({*_DATE_PARTS, *_TIME_PARTS, "date", "time", "len"})

#: How a part of a value, as ``departs_at__hour__gte``, is compared otherwise than by equality.
PART_COMPARISONS = ("gt", "gte", "lt", "lte", "in", "range")

#: The encoder takes no deeper JSON than this.
MAX_JSON_DEPTH = 100

#: The moment at which a zone is asked for its name.
_ANY_MOMENT = datetime.datetime(2000, 1, 1)


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """One family of fields."""

    #: Its name in describe_models.
    name: str
    schema: Mapping[str, Any]
    #: The lookups that a filter may use.
    lookups: tuple[str, ...]
    read: ValueReader
    #: From a value of the ORM to JSON.
    write: Callable[[Any], Any]
    orderable: bool = True
    #: For lookups whose value is not of the field's own type.
    readers: Mapping[str, ValueReader] = field(default_factory=dict)
    #: Whether rows hold a link for resources/read instead of the value. It is null where the value is ``empty``.
    linked: bool = False
    empty: Any = None
    #: From a path, a lookup and what was read for it to a condition.
    compare: Callable[[str, str, Any], Q] = days.comparison
    #: Makes a function like ``write`` for many values, so that what they share is looked up once.
    make_writer: Callable[[], Callable[[Any], Any]] | None = None
    #: The expression that reads the value, given the path of the field.
    select: Callable[[str], Any] = F
    #: Whether a value may be long, and is cut in a page.
    long: bool = False
    #: Types of values, that of null among them, which ``write`` leaves as they are.
    json_types: frozenset[type] = frozenset()
    #: Beyond this number, and below its negative, ``write`` does not leave values of those types as they are.
    largest: int | None = None
    #: Whether the field's own class converts the values: those that the database sorts and compares may be others.
    converted: bool = False
    #: Whether a search may look for a part of what is stored.
    searchable: bool = True

    def read_for(self, lookup: str, field: AnyField, value: Any) -> Any:
        """What the lookup compares the field with, as the ORM takes it. Raises ValidationError."""
        return self.readers.get(lookup, self.read)(field, value)

    def is_json(self, values: Sequence[Any], types: AbstractSet[type]) -> bool:
        """Whether ``write`` leaves all values of a column, which are of these types, as they are."""
        if self.largest is None or not types <= self.json_types:
            return types <= self.json_types
        return max(map(abs, filter(None, values)), default=0) <= self.largest

    def writer(self) -> Callable[[Any], Any]:
        """A function like ``write``, for the values of a column."""
        return self.write if self.make_writer is None else self.make_writer()


def _same(value: Any) -> Any:
    return value


def _write_text(value: Any) -> str:
    """A text. The text fields of some packages give an object that renders it, and has it as ``raw``."""
    return value if type(value) is str else str(getattr(value, "raw", value))


def _write_decimal(value: Any) -> str:
    """A decimal, or the amount of an object of djmoney."""
    return format(value if type(value) is Decimal else getattr(value, "amount", value), "f")


def _write_integer(value: int) -> int | str:
    return value if abs(value) <= MAX_SAFE_INTEGER else str(value)


def _write_json(value: Any, depth: int = 0) -> Any:
    """A value of a JSON column. It may be of any type, if the project has its own decoder."""
    if isinstance(value, bool | float | str) or value is None:
        return value
    if isinstance(value, int):
        return _write_integer(value)
    if isinstance(value, datetime.datetime):
        return _write_datetime(value)
    if not isinstance(value, dict | list | tuple):
        return str(value)
    if depth >= MAX_JSON_DEPTH:
        return f"… (deeper than {MAX_JSON_DEPTH} levels)"
    if isinstance(value, dict):
        return {str(key): _write_json(item, depth + 1) for key, item in value.items()}
    return [_write_json(item, depth + 1) for item in value]


def _write_datetime(value: datetime.datetime) -> str:
    return _datetime_writer()(value)


def _datetime_writer() -> Callable[[datetime.datetime], str]:
    """A writer of date-times in the current time zone, with its offset; in UTC if that is UTC or cannot be written."""
    if not settings.USE_TZ:
        return _write_local
    zone = timezone.get_current_timezone()
    if zone.tzname(_ANY_MOMENT) == "UTC":
        return write_utc

    def write(value: datetime.datetime) -> str:
        if value.tzinfo is None:
            return value.isoformat()
        try:
            text = value.astimezone(zone).isoformat()
        except OverflowError:
            return write_utc(value)
        # An offset with seconds, as of local mean time, is more than ISO 8601 knows.
        return text if text[-6] in "+-" else write_utc(value)

    return write


def _write_local(value: datetime.datetime) -> str:
    """A date-time of a project without time zones."""
    local = value if timezone.is_naive(value) else timezone.make_naive(value, timezone.get_default_timezone())
    return local.isoformat()


def write_utc(value: datetime.datetime) -> str:
    """A date-time in UTC, as ``2013-01-31T08:30:00Z``."""
    if value.tzinfo is not datetime.UTC:
        if timezone.is_naive(value):
            return value.isoformat()
        value = value.astimezone(datetime.UTC)
    return f"{value.isoformat().removesuffix('+00:00')}Z"


_DATE_READERS: Mapping[str, ValueReader] = {
    **dict.fromkeys(_DATE_PARTS, read_part), "year": read_year, "iso_year": read_year,
}  # fmt: skip
_TIME_READERS: Mapping[str, ValueReader] = dict.fromkeys(_TIME_PARTS, read_part)

INTEGER = Kind(
    "integer", {"type": ["integer", "string"]}, _ORDERED, read_integer, _write_integer,
    json_types=frozenset({int, type(None)}), largest=MAX_SAFE_INTEGER,
)  # fmt: skip
BOOLEAN = Kind(
    "boolean", {"type": "boolean"}, _EXACT, read_boolean, bool, json_types=frozenset({bool, type(None)}),
)  # fmt: skip
TEXT = Kind(
    "text", {"type": "string"}, _TEXT, read_text, _write_text, long=True, json_types=frozenset({str, type(None)}),
)  # fmt: skip
ADDRESS = Kind(
    "ip address", {"type": "string"}, (*_EXACT, "startswith"), read_address, str, readers={"startswith": read_text},
)  # fmt: skip
NUMBER = Kind(
    "number", {"type": "number"}, _ORDERED, read_number, _same, json_types=frozenset({float, type(None)}),
)  # fmt: skip
DECIMAL = Kind("decimal", {"type": "string"}, _ORDERED, read_decimal, _write_decimal)
DATE = Kind(
    "date", {"type": "string", "format": "date"}, (*_ORDERED, *_DATE_PARTS), read_date,
    lambda value: value.isoformat(), readers=_DATE_READERS,
)  # fmt: skip
DATETIME = Kind(
    "datetime", {"type": "string", "format": "date-time"}, (*_ORDERED, "date", "time", *_DATE_PARTS, *_TIME_PARTS),
    read_datetime, _write_datetime,
    readers={
        **dict.fromkeys(_ORDERED, read_datetime_or_day), **_DATE_READERS, **_TIME_READERS, "date": read_date,
        "time": read_time,
    },
    compare=days.moment_comparison, make_writer=_datetime_writer,
)  # fmt: skip
TIME = Kind(
    "time", {"type": "string", "format": "time"}, (*_ORDERED, *_TIME_PARTS), read_time,
    lambda value: value.isoformat(), readers=_TIME_READERS,
)  # fmt: skip
DURATION = Kind(
    "duration", {"type": "string", "format": "duration"}, _ORDERED, read_duration, duration_iso_string,
)  # fmt: skip
UUID = Kind("uuid", {"type": "string", "format": "uuid"}, _EXACT, read_uuid, str)
DATA = Kind("json", {}, ("isnull",), refuse, _write_json, orderable=False, long=True)
#: The name of a stored file.
FILE = Kind(
    "file", {"type": ["string", "null"]}, ("isnull",), refuse, str, orderable=False, linked=True, empty="",
)  # fmt: skip
#: Bytes, of which only the number is read for a row.
BINARY = Kind(
    "binary", {"type": ["string", "null"]}, ("isnull",), refuse, str, orderable=False, linked=True, empty=b"",
    select=Length,
)  # fmt: skip
#: A content type, as the label of its model: the value of a foreign key to ContentType. See ``generic``.
CONTENT_TYPE = Kind(
    "content type", {"type": "string", "description": "A model, as app.model."}, _EXACT, read_text, str.lower,
)  # fmt: skip

KINDS: Mapping[type[Any], Kind] = {
    models.AutoField: INTEGER,
    models.BigAutoField: INTEGER,
    models.SmallAutoField: INTEGER,
    models.IntegerField: INTEGER,
    models.BigIntegerField: INTEGER,
    models.SmallIntegerField: INTEGER,
    models.PositiveIntegerField: INTEGER,
    models.PositiveBigIntegerField: INTEGER,
    models.PositiveSmallIntegerField: INTEGER,
    models.BooleanField: BOOLEAN,
    models.CharField: TEXT,
    models.TextField: TEXT,
    models.SlugField: TEXT,
    models.EmailField: TEXT,
    models.URLField: TEXT,
    models.FilePathField: TEXT,
    models.GenericIPAddressField: ADDRESS,
    models.FloatField: NUMBER,
    models.DecimalField: DECIMAL,
    models.DateField: DATE,
    models.DateTimeField: DATETIME,
    models.TimeField: TIME,
    models.DurationField: DURATION,
    models.UUIDField: UUID,
    models.JSONField: DATA,
    models.FileField: FILE,
    models.ImageField: FILE,
    models.BinaryField: BINARY,
}


@cache
def list_of(kind: Kind) -> Kind:
    """The kind of a list of values. No filter compares such a list."""

    def write(values: Any) -> list[Any]:
        return [None if value is None else kind.write(value) for value in values]

    items = dict(kind.schema)
    if types := items.get("type"):
        items["type"] = [*([types] if isinstance(types, str) else types), "null"]
    schema = {"type": "array", "items": items}
    return Kind(f"list of {kind.name}", schema, (), refuse, write, orderable=False, long=True)


@cache
def related_list(kind: Kind) -> Kind:
    """The kind of a list of values of related rows, which are JSON already."""
    return replace(list_of(kind), write=_same, long=False, json_types=frozenset({list}))


#: A table of related rows, whose values are JSON already.
RELATED_TABLE = Kind("table", {"type": "object"}, (), refuse, _same, orderable=False, json_types=frozenset({dict}))


def split_path(path: str) -> tuple[str, str]:
    """The first name of a path, and the rest. A path that ends in ``__`` has no rest, and is taken as one name."""
    head, _, rest = path.partition("__")
    return (head, rest) if rest else (path, "")


def is_parent_link(field: AnyField) -> bool:
    """Whether the relation leads from a child of multi-table inheritance to the rest of the same row."""
    return bool(getattr(field.remote_field, "parent_link", False))
