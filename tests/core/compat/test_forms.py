"""The steps in which Django validates the form of a model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django import forms

from mcp_django.core.compat.forms import around_construction
from tests.shop.models import Person


def test_around_construction_sees_cleaned_values_before_they_are_written_and_the_instance_after(db: None) -> None:
    form: Any = forms.modelform_factory(Person, fields=["name", "badge"])({"name": "Ada", "badge": "a"})
    seen: list[Any] = []

    @contextmanager
    def context() -> Iterator[None]:
        seen.append((form.instance.name, dict(form.cleaned_data)))
        form.cleaned_data["badge"] = "b"
        yield
        seen.append((form.instance.name, form.instance.badge))

    around_construction(form, context)

    assert form.is_valid()
    assert seen == [("", {"name": "Ada", "badge": "a"}), ("Ada", "b")]
