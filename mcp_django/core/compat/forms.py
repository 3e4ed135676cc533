"""The steps in which Django makes and validates forms."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import lru_cache, wraps
from typing import Any

from django.forms.forms import BaseForm

#: The forms that are made in this context, where somebody wants to know them.
_made: ContextVar[list[BaseForm] | None] = ContextVar("mcp_django_made_forms", default=None)


def around_construction(form: Any, context: Callable[[], AbstractContextManager[None]]) -> None:
    """Enter a context while the form writes its cleaned values to its instance, and validates that.

    Private: ``BaseModelForm._post_clean``. Seen with: Django 5.2, 6.0, 6.1. Public way: none; ``clean()`` of a subclass
    is called before it, and a project may ask for the class of its form.
    """
    construct = form._post_clean

    def construct_within() -> None:
        with context():
            construct()

    form._post_clean = construct_within


@contextmanager
def made_forms() -> Iterator[list[BaseForm]]:
    """The forms that are made within the block, in this thread and what it awaits, in their order.

    Private: ``BaseForm.__init__`` is replaced for good, as Django's test runner replaces ``Template._render``. Seen
    with: Django 5.2, 6.0, 6.1. Public way: ``TemplateResponse.context_data``, which pages by ``render()`` lack.
    """
    _note_forms()
    found: list[BaseForm] = []
    token = _made.set(found)
    try:
        yield found
    finally:
        _made.reset(token)


@lru_cache(maxsize=1)
def _note_forms() -> None:
    """Once in a process: to replace it and to put it back would lose what another thread has replaced meanwhile."""
    cls: Any = BaseForm
    begin = cls.__init__

    @wraps(begin)
    def noted(form: BaseForm, *args: Any, **kwargs: Any) -> None:
        begin(form, *args, **kwargs)
        if (found := _made.get()) is not None:
            found.append(form)

    cls.__init__ = noted
