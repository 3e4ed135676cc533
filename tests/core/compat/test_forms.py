"""The steps in which Django makes and validates forms."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from django import forms

from mcp_django.core.compat.forms import around_construction, made_forms
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


def test_made_forms_are_those_of_the_block_and_of_no_other_thread() -> None:
    class Asked(forms.Form):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            self.fields["later"] = forms.CharField()

    with made_forms() as outer, ThreadPoolExecutor(1) as pool:
        first = Asked()
        with made_forms() as inner:
            second = forms.formset_factory(Asked, extra=1)().forms[0]
            pool.submit(Asked).result()
        third = Asked()
    Asked()

    assert (outer, [one for one in inner if isinstance(one, Asked)]) == ([first, third], [second])
    assert "later" in outer[0].fields
