"""Forms that read and write date-times without loss: in UTC, where no time of day occurs twice or is skipped."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, tzinfo
from functools import wraps
from typing import Any

from django import forms
from django.conf import settings
from django.utils import timezone

#: The methods of a field that turn a text into a date-time, or compare the two.
_READING = ("clean", "to_python", "has_changed")


def exact(form_class: Any, prepare: Callable[[Any], None], begin: Callable[..., object] | None = None) -> Any:
    """The form class with instances that read date-times in UTC. All else of the class and the instances stays.

    ``begin`` is called with the arguments of each instance before it is made, and ``prepare`` with the instance.

    The project's own code in the form runs in the project's time zone, except while a date-time field cleans a value.
    """

    def make(*args: Any, **kwargs: Any) -> Any:
        if begin is not None:
            begin(*args, **kwargs)
        form = form_class(*args, **kwargs)
        read_exactly(form)
        prepare(form)
        return form

    return made_by(make, form_class)


def made_by(make: Callable[..., Any], cls: Any) -> Any:
    """The class of forms, or of formsets, whose instances ``make`` makes; what is no class stays what it is."""
    if not isinstance(cls, type):
        return cls
    # No instance of a subclass is made: a project may ask for the class of its form, or give instances of another.
    made = {
        "__new__": lambda _, *args, **kwargs: make(*args, **kwargs),
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
    }
    # Past the metaclass, which would make the fields of the form once more.
    return type.__new__(type(cls), cls.__name__, (cls,), made)


def read_exactly(form: Any) -> None:
    """Let the date-time fields of a form read UTC, and keep the stored values, which validating the form replaces."""
    form.mcp_stored = vars(form.instance).copy() if hasattr(form, "instance") else {}
    for field in form.fields.values() if settings.USE_TZ else ():
        if holds_moments(field):
            for name in _READING:
                setattr(field, name, _in_utc(getattr(field, name)))


def moments_in(zone: tzinfo, field: forms.Field) -> AbstractContextManager[Any]:
    """A context in which a date-time field writes in this time zone."""
    return timezone.override(zone) if settings.USE_TZ and holds_moments(field) else nullcontext()


def holds_moments(field: Any) -> bool:
    """Whether the field, or a part of it, is of date-times."""
    if isinstance(field, forms.DateTimeField | forms.SplitDateTimeField):
        return True
    parts = [*(getattr(field, "fields", None) or ()), getattr(field, "base_field", None)]
    return any(part is not None and holds_moments(part) for part in parts)


def _in_utc(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        with timezone.override(UTC):
            return method(*args, **kwargs)

    return call
