"""The moments and lengths of time that a person names in an option: a day, a time, or an age such as ``2d``."""

from __future__ import annotations

import datetime
import re

from django.conf import settings
from django.core.management.base import CommandError
from django.utils import timezone

from mcp_django.bridge.resources.fields.days import Days

_AGE = re.compile(r"([0-9]{1,9})([smhdw])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}

MOMENT_HELP = "a day (2026-11-01), a time (2026-11-01T14:30) or an age (30s, 5m, 1h, 2d, 1w)"


def parse_moment(option: str, text: str, *, end_of_day: bool = False) -> datetime.datetime:
    """The moment in the project's time zone; of a day, its beginning or its end. Raises CommandError."""
    try:
        moment = _age(text) or _day(text, end_of_day) or datetime.datetime.fromisoformat(text)
        if timezone.is_aware(moment) != settings.USE_TZ:
            moment = timezone.make_aware(moment) if settings.USE_TZ else timezone.make_naive(moment)
    except (ValueError, OverflowError):
        raise CommandError(f"{option}: {text!r} is no moment. Name {MOMENT_HELP}.") from None
    return moment


def parse_duration(option: str, text: str) -> datetime.timedelta:
    """A time such as ``90s``, ``30m``, ``12h`` or ``7d``. Raises CommandError."""
    try:
        duration = _duration(text)
    except OverflowError:
        duration = None
    if duration is None:
        raise CommandError(f"{option}: {text!r} is no time. Write a number with s, m, h, d or w, such as 30m.")
    return duration


def _age(text: str) -> datetime.datetime | None:
    duration = _duration(text)
    return None if duration is None else timezone.now() - duration


def _duration(text: str) -> datetime.timedelta | None:
    """The time that a number with a unit names; None for another text. Raises OverflowError."""
    found = _AGE.fullmatch(text)
    return datetime.timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else None


def _day(text: str, end: bool) -> datetime.datetime | None:
    try:
        day = datetime.date.fromisoformat(text)
    except ValueError:
        return None
    days = Days(day, day)
    return days.end() if end else days.start()
