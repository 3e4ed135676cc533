"""The steps in which Django validates the form of a model."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


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
