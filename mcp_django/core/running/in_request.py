"""Runs a function in the request of a person, as a call of an agent runs: in the project's language and time zone.

It stays in the thread of the request, below the project's middleware: what that has set for the person, such as a
tenant, holds for what the person looks at.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import TypeVar

from django.conf import settings
from django.utils import timezone, translation

T = TypeVar("T")
#: The language of the person, while something runs as in a call.
_theirs: ContextVar[str | None] = ContextVar("mcp_django_their_language", default=None)


def as_in_a_call(run: Callable[[], T]) -> T:
    """What the function returns, or raises."""
    before = _theirs.set(their_language())
    try:
        with translation.override(settings.LANGUAGE_CODE), timezone.override(None):
            return run()
    finally:
        _theirs.reset(before)


def their_language() -> str | None:
    """The language of whoever reads what is said: a person, also while something runs as in a call."""
    return _theirs.get() or translation.get_language()
