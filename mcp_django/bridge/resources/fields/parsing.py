"""Values that agents send, read strictly: each function raises ValidationError for what its field cannot hold."""

from __future__ import annotations

import datetime
import re
import uuid
from collections.abc import Callable, Iterator, Sized
from contextlib import suppress
from decimal import Decimal
from typing import Any, TypeVar, cast

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connections, models
from django.utils import timezone

from mcp_django.bridge.resources.fields.days import Days
from mcp_django.core.compat.connections import integer_range
from mcp_django.core.types import AnyField
from mcp_django.protocol.errors import ParseError
from mcp_django.protocol.jsonrpc import decode

T = TypeVar("T", datetime.date, datetime.time, datetime.datetime)

#: From a value of an agent to a value of the ORM. Raises ValidationError.
ValueReader = Callable[[AnyField, Any], Any]

#: Python's int() also reads underscores, and the digits of every script.
_INTEGER = re.compile(r"[+-]?\d{1,100}", re.ASCII)

#: So does Python's Decimal(), which also reads words.
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,10})?", re.ASCII)
#: The digits that JSON's readers keep of a number for certain.
_EXACT_DIGITS = 15

#: Only these forms of ISO 8601: Python also reads ``20130131`` and ``2013-W05-4``, and forms read ``01/31/2013``.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME = re.compile(r"\d\d:\d\d(:\d\d([.,]\d{1,12})?)?", re.ASCII)
_DATETIME = re.compile(rf"{_DATE.pattern}[T ]{_TIME.pattern}(Z|[+-]\d\d(:?\d\d)?)?", re.ASCII)
_AS_DATE = "as 2013-01-31"
_AS_DATETIME = "must be a day, as 2013-01-31 for the whole day, or a date and time, as 2013-01-31T08:30:00Z"
#: Three letters in a row, which no date and no date-time has.
_WORD = re.compile(r"[^\W\d_]{3}")

#: Values in a list. A longer list makes a statement that databases plan slowly, or refuse.
MAX_LIST_VALUES = 200

#: Nobody searches for longer values, and SQLite refuses them as patterns.
_MAX_TEXT_CHARS = 10_000

_MAX_DURATION = datetime.timedelta(days=100_000_000)


def read_integer(field: AnyField, value: Any) -> int:
    if isinstance(value, float) and value.is_integer():
        _check_digits(value)
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValidationError("must be an integer")
    if isinstance(value, str) and not _INTEGER.fullmatch(value.strip()):
        raise ValidationError("must be an integer")
    number = int(value)
    low, high = integer_range(connections["default"], column_of(field).get_internal_type())
    if (low is not None and number < low) or (high is not None and number > high) or abs(number) > 2**63 - 1:
        raise ValidationError("is out of range")
    return number


def read_boolean(field: AnyField, value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise ValidationError("must be true or false")


def read_text(field: AnyField, value: Any) -> str:
    if not isinstance(value, str):
        raise ValidationError("must be a string")
    if "\x00" in value:
        raise ValidationError("must not hold null characters")
    if len(value) > _MAX_TEXT_CHARS:
        raise ValidationError(f"must not be longer than {_MAX_TEXT_CHARS} characters")
    return value


def read_number(field: AnyField, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValidationError("must be a number")
    return float(forms.FloatField().clean(str(value)))


def read_decimal(field: AnyField, value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValidationError("must be a number or a string of digits")
    if isinstance(value, float):
        _check_digits(value)
    if not _DECIMAL.fullmatch(str(value).strip()):
        raise ValidationError("must be a number or a string of digits")
    number: Decimal | None = forms.DecimalField().clean(str(value))
    # Beyond these a database refuses what a Decimal can hold.
    if number is None or abs(number.adjusted()) > 60 or len(number.as_tuple().digits) > 100:
        raise ValidationError("is out of range")
    return number


def _check_digits(value: float) -> None:
    """Raises ValidationError for a number that may have lost digits."""
    digits = repr(value).partition("e")[0].replace(".", "").strip("-0")
    if len(digits) > _EXACT_DIGITS:
        raise ValidationError("has more digits than a number keeps in JSON: send it as a text")


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


def read_date(field: AnyField, value: Any) -> datetime.date:
    return _from_iso(datetime.date, _DATE, value, f"must be a date, {_AS_DATE}{_no_words(value)}")


def _no_words(value: Any) -> str:
    """What is said of words for days, such as ``yesterday``: an agent may not know which day it is."""
    if not isinstance(value, str) or not _WORD.search(value):
        return ""
    return f". Words are not read; today is {Days.today().first.isoformat()}"


def read_time(field: AnyField, value: Any) -> datetime.time:
    return _from_iso(datetime.time, _TIME, value, "must be a time, as 08:30:00")


def _from_iso(made: type[T], form: re.Pattern[str], value: Any, message: str) -> T:
    text = value.strip() if isinstance(value, str) else ""
    try:
        if form.fullmatch(text):
            return made.fromisoformat(text)
    except ValueError:
        pass
    raise ValidationError(message)


def read_datetime(field: AnyField, value: Any) -> datetime.datetime:
    """One instant to store: for a day, its first one. It is one that a page of the current time zone can show."""
    found = read_datetime_or_day(field, value)
    moment = found if isinstance(found, datetime.datetime) else cast("datetime.datetime", found.start())
    return _in_calendar(moment, timezone.get_current_timezone()) if settings.USE_TZ else moment


def read_datetime_or_day(field: AnyField, value: Any) -> datetime.datetime | Days:
    """A date-time, in the current time zone if it has no offset; or a day of that zone."""
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        day = read_date(field, value)
        if not 1 < day.year < 9999:
            raise ValidationError("is out of range: at the ends of the calendar, give a date and time")
        return Days(day, day)
    moment = _from_iso(datetime.datetime, _DATETIME, value, f"{_AS_DATETIME}{_no_words(value)}")
    if settings.USE_TZ:
        # A local time that exists twice is the first of the two. One that clocks skip is later by what they skip.
        return _in_calendar(moment, datetime.UTC)
    return moment if timezone.is_naive(moment) else timezone.make_naive(moment, timezone.get_default_timezone())


def _in_calendar(moment: datetime.datetime, zone: datetime.tzinfo) -> datetime.datetime:
    """An aware moment that there is in this zone too. Raises ValidationError."""
    try:
        aware = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
        aware.astimezone(zone)
    except OverflowError:
        raise ValidationError("is out of range") from None
    return aware


def read_duration(field: AnyField, value: Any) -> datetime.timedelta:
    read = _form_reader(forms.DurationField, "a duration, as P1DT2H or 1 02:00:00")
    duration: datetime.timedelta = read(field, value)
    # SQLite and MariaDB keep microseconds in 64 bits, which a timedelta exceeds.
    if abs(duration) > _MAX_DURATION:
        raise ValidationError("is out of range")
    return duration


def read_uuid(field: AnyField, value: Any) -> uuid.UUID:
    try:
        return value if isinstance(value, uuid.UUID) else uuid.UUID(value)
    except (ValueError, AttributeError, TypeError):
        raise ValidationError("must be a UUID") from None


def read_address(field: AnyField, value: Any) -> str:
    if isinstance(value, str) and "%" in value:
        raise ValidationError("must be an IP address without a zone, which would not be kept")
    read = _form_reader(forms.GenericIPAddressField, "an IP address")
    address: str = read(field, value)
    return address


def read_part(field: AnyField, value: Any) -> int:
    """A number that is compared with a part of a value, whatever the field is."""
    return read_integer(models.IntegerField(), value)


def read_year(field: AnyField, value: Any) -> int:
    year = read_part(field, value)
    # Django compares a year with the first and the last moment of it, in UTC.
    if not 1 < year < 9999:
        raise ValidationError("is out of range")
    return year


def as_list(values: Any) -> list[Any]:
    """A list of an agent. A text is the JSON of one, or its values with commas between them, as in a URI.

    Raises ValidationError.
    """
    if isinstance(values, str) and values.lstrip().startswith("["):
        with suppress(ParseError):
            values = decode(values)
    if isinstance(values, str):
        values = values.split(",")
    if not isinstance(values, list):
        raise ValidationError("must be a list")
    return values


def check_length(values: Sized) -> None:
    """Raises ValidationError for a list that is too long."""
    if len(values) > MAX_LIST_VALUES:
        raise ValidationError(f"at most {MAX_LIST_VALUES} values")


def refuse(field: AnyField, value: Any) -> Any:
    """The reader of a kind that no filter compares. Raises ValidationError."""
    raise ValidationError("cannot be compared")


def column_of(field: AnyField) -> AnyField:
    """The field whose values the column holds: the target of a foreign key, the output of a generated field."""
    *_, column = steps_to_column(field)
    return column


def steps_to_column(field: AnyField) -> Iterator[AnyField]:
    """The field, then those that it takes its values from, up to ``column_of``."""
    while True:
        yield field
        if isinstance(field, models.ForeignKey):
            field = field.target_field
        elif isinstance(field, models.GeneratedField):
            field = field.output_field  # type: ignore[assignment]
        else:
            return
