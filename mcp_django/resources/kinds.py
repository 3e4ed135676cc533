"""What each class of model field is outside: its JSON type, its lookups, how a value is read in and written out.

A field class that is not in ``KINDS`` is not exposed until a ModelMCP names the field: an encrypted field, say, is a
CharField whose values come out decrypted.
"""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import connections, models
from django.utils import timezone
from django.utils.duration import duration_iso_string

if TYPE_CHECKING:
    AnyField = models.Field[Any, Any]
else:
    AnyField = models.Field

JSON = dict[str, Any]

#: Integers beyond this lose digits in JavaScript clients, so they are written as strings.
MAX_SAFE_INTEGER = 2**53 - 1

_EXACT = ("exact", "in", "isnull")
_ORDERED = (*_EXACT, "gt", "gte", "lt", "lte", "range")
_TEXT = (
    *_EXACT, "iexact", "contains", "icontains", "startswith", "istartswith", "endswith", "iendswith",
    "gt", "gte", "lt", "lte",
)  # fmt: skip
_DATE_PARTS = ("year", "month", "day", "week_day")
_TIME_PARTS = ("hour", "minute")

#: Python reads more than these as an integer: underscores, and the digits of every script.
_INTEGER = re.compile(r"[+-]?\d{1,100}", re.ASCII)

#: Longer values are no question that a person would ask, and too long for a pattern on SQLite.
_MAX_TEXT_CHARS = 10_000

_MAX_DURATION = datetime.timedelta(days=100_000_000)

#: Lookups whose value is a number whatever the field is.
PART_LOOKUPS = frozenset({*_DATE_PARTS, *_TIME_PARTS})


@dataclass(frozen=True, slots=True)
class Kind:
    """One family of fields."""

    #: The word for it in describe_models.
    name: str
    schema: Mapping[str, Any]
    lookups: tuple[str, ...]
    #: From what an agent sent to what the ORM takes. Raises ValidationError.
    read: Callable[[AnyField, Any], Any]
    #: From what the ORM gives to JSON.
    write: Callable[[Any], Any]
    orderable: bool = True


def _same(value: Any) -> Any:
    return value


def _read_integer(field: AnyField, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValidationError("must be an integer")
    if isinstance(value, str) and not _INTEGER.fullmatch(value.strip()):
        raise ValidationError("must be an integer")
    number = int(value)
    low, high = connections["default"].ops.integer_field_range(column_of(field).get_internal_type())
    if (low is not None and number < low) or (high is not None and number > high) or abs(number) > 2**63 - 1:
        raise ValidationError("is out of range")
    return number


def _write_integer(value: int) -> int | str:
    return value if abs(value) <= MAX_SAFE_INTEGER else str(value)


def _write_json(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return _write_integer(value)
    if isinstance(value, dict):
        return {key: _write_json(item) for key, item in value.items()}
    return [_write_json(item) for item in value] if isinstance(value, list) else value


def _read_boolean(field: AnyField, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValidationError("must be true or false")


def _read_text(field: AnyField, value: Any) -> str:
    if not isinstance(value, str):
        raise ValidationError("must be a string")
    if "\x00" in value:
        raise ValidationError("must not hold null characters")
    if len(value) > _MAX_TEXT_CHARS:
        raise ValidationError(f"must not be longer than {_MAX_TEXT_CHARS} characters")
    return value


def _read_number(field: AnyField, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValidationError("must be a number")
    return float(forms.FloatField().clean(str(value)))


def _read_decimal(field: AnyField, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValidationError("must be a number or a string of digits")
    number: Decimal | None = forms.DecimalField().clean(str(value))
    # Beyond these a database refuses what a Decimal can hold.
    if number is None or abs(number.adjusted()) > 60 or len(number.as_tuple().digits) > 100:
        raise ValidationError("is out of range")
    return number


def _form_reader(form_field: Callable[[], forms.Field], what: str) -> Callable[[AnyField, Any], Any]:
    def read(field: AnyField, value: Any) -> Any:
        if not isinstance(value, str):
            raise ValidationError(f"must be {what}")
        try:
            cleaned = form_field().clean(value)
        except (ValidationError, ValueError, OverflowError):
            raise ValidationError(f"must be {what}") from None
        if cleaned is None:
            raise ValidationError(f"must be {what}")
        return cleaned

    return read


def _read_datetime(field: AnyField, value: Any) -> datetime.datetime:
    read = _form_reader(forms.DateTimeField, "a date and time, as 2013-01-31T08:30:00Z")
    moment: datetime.datetime = read(field, value)
    # An offset at the ends of the calendar cannot be turned into UTC.
    if not 1 < moment.year < 9999:
        raise ValidationError("is out of range")
    return moment


def _write_datetime(value: datetime.datetime) -> str:
    if timezone.is_naive(value):
        return value.isoformat()
    return value.astimezone(datetime.UTC).isoformat().replace("+00:00", "Z")


def _read_duration(field: AnyField, value: Any) -> datetime.timedelta:
    read = _form_reader(forms.DurationField, "a duration, as P1DT2H or 1 02:00:00")
    duration: datetime.timedelta = read(field, value)
    # SQLite and MariaDB keep microseconds in 64 bits, which a timedelta exceeds.
    if abs(duration) > _MAX_DURATION:
        raise ValidationError("is out of range")
    return duration


def _read_uuid(field: AnyField, value: Any) -> uuid.UUID:
    try:
        return uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise ValidationError("must be a UUID") from None


def _refuse(field: AnyField, value: Any) -> Any:
    raise ValidationError("cannot be compared")


INTEGER = Kind("integer", {"type": ["integer", "string"]}, _ORDERED, _read_integer, _write_integer)
BOOLEAN = Kind("boolean", {"type": "boolean"}, _EXACT, _read_boolean, bool)
TEXT = Kind("text", {"type": "string"}, _TEXT, _read_text, str)
NUMBER = Kind("number", {"type": "number"}, _ORDERED, _read_number, _same)
DECIMAL = Kind("decimal", {"type": "string"}, _ORDERED, _read_decimal, lambda value: format(value, "f"))
DATE = Kind(
    "date", {"type": "string", "format": "date"}, (*_ORDERED, *_DATE_PARTS),
    _form_reader(forms.DateField, "a date, as 2013-01-31"), lambda value: value.isoformat(),
)  # fmt: skip
DATETIME = Kind(
    "datetime", {"type": "string", "format": "date-time"}, (*_ORDERED, "date", *_DATE_PARTS, *_TIME_PARTS),
    _read_datetime, _write_datetime,
)  # fmt: skip
TIME = Kind(
    "time", {"type": "string", "format": "time"}, (*_ORDERED, *_TIME_PARTS),
    _form_reader(forms.TimeField, "a time, as 08:30:00"), lambda value: value.isoformat(),
)  # fmt: skip
DURATION = Kind(
    "duration", {"type": "string", "format": "duration"}, _ORDERED, _read_duration, duration_iso_string,
)  # fmt: skip
UUID = Kind("uuid", {"type": "string", "format": "uuid"}, _EXACT, _read_uuid, str)
DATA = Kind("json", {}, ("isnull",), _refuse, _write_json, orderable=False)
FILE = Kind("file", {"type": "string"}, ("isnull",), _refuse, str, orderable=False)

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
    models.GenericIPAddressField: TEXT,
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
}


def kind_of(field: AnyField, *, named: bool) -> Kind | None:
    """The kind of a column. A subclass of a known class is taken for one only where the field was ``named``."""
    field = column_of(field)
    exact = KINDS.get(type(field))
    if exact is not None or not named:
        return exact
    return next((KINDS[cls] for cls in type(field).__mro__ if cls in KINDS), None)


def column_of(field: AnyField) -> AnyField:
    """The field that says what is in the column: the far end of a foreign key, the output of a generated field."""
    while True:
        if isinstance(field, models.ForeignKey):
            field = field.target_field
        elif isinstance(field, models.GeneratedField):
            field = field.output_field  # type: ignore[assignment]
        else:
            return field
