"""What is sent of forms otherwise than by a browser is found, and so is what saving an untouched page changes."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User

from mcp_django import MCPSite
from mcp_django.writes.form_data import FormData
from tests.projects.conftest import Served
from tests.projects.forms import Forms, differing
from tests.projects.rows import Factory
from tests.shop.models import Product


class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    fields = ("name", "price", "active")


def compared(site: MCPSite, factory: Factory, root: User) -> Forms:
    return Forms(site, root, factory)


def test_a_page_that_is_sent_and_saved_as_by_a_browser_is_no_difference(
    served: Served, factory: Factory, root: User
) -> None:
    found = compared(served(ProductAdmin), factory, root)

    assert found.lines() == []
    assert found.pages == {"shop.product": 2}
    assert found.saved == 1


@pytest.mark.parametrize(("expected", "found", "line"), [
    ({"a": ["1"]}, {}, "a: a browser sends it"),
    ({}, {"a": [""]}, "a: a browser does not send it"),
    ({"a": ["1"]}, {"a": ["2"]}, "a: a browser sends another value"),
])  # fmt: skip
def test_what_is_sent_otherwise_is_told_by_its_name(expected: Any, found: Any, line: str) -> None:
    assert list(differing({**expected, "b": ["1"]}, {**found, "b": ["1"]})) == [line]


def test_what_is_sent_otherwise_is_told_with_its_page(
    served: Served, factory: Factory, root: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = FormData.write
    monkeypatch.setattr(FormData, "write", lambda self, bound, value: bound.name == "name" or write(self, bound, value))

    found = compared(served(ProductAdmin), factory, root).lines()

    assert found == [
        "small shop.product: saving it untouched is refused for name, and in a browser works",
        "small shop.product: the add page, name: a browser sends it",
        "small shop.product: the change page, name: a browser sends it",
    ]


def test_a_page_that_fails_in_a_browser_is_told(served: Served, factory: Factory, root: User) -> None:
    site = served(type("BrokenAdmin", (ProductAdmin,), {"add_form_template": "nowhere.html"}))

    assert compared(site, factory, root).lines() == ["small shop.product: its add page fails with TemplateDoesNotExist"]


def test_a_page_that_cannot_be_opened_is_told(served: Served, factory: Factory, root: User) -> None:
    def add_view(self: Any, request: Any, *args: Any) -> Any:
        if hasattr(request, "mcp"):
            raise KeyError
        return super(ProductAdmin, self).add_view(request, *args)

    site = served(type("PickyAdmin", (ProductAdmin,), {"add_view": add_view}))

    assert compared(site, factory, root).lines() == ["small shop.product: the add page is not opened: KeyError"]


def test_what_saving_an_untouched_page_changes_is_told_and_does_not_stay(
    served: Served, factory: Factory, root: User
) -> None:
    def save_model(self: Any, request: Any, obj: Any, form: Any, change: bool) -> None:
        obj.stock += 1
        super(ProductAdmin, self).save_model(request, obj, form, change)

    before = list(Product.objects.values_list("stock", flat=True))
    site = served(type("CountingAdmin", (ProductAdmin,), {"save_model": save_model}))

    found = compared(site, factory, root).lines()

    assert found == ["small shop.product: saving it untouched changes shop.product.stock"]
    assert list(Product.objects.values_list("stock", flat=True)) == before


def test_a_page_that_is_refused_in_a_browser_too_is_no_difference(served: Served, factory: Factory, root: User) -> None:
    class RefusingForm(forms.ModelForm):  # type: ignore[type-arg]
        def clean_name(self) -> str:
            raise forms.ValidationError("no")

    found = compared(served(type("RefusingAdmin", (ProductAdmin,), {"form": RefusingForm})), factory, root)

    assert found.lines() == []
    assert found.saved == 0


def test_a_page_that_a_browser_could_save_is_told(served: Served, factory: Factory, root: User) -> None:
    def save_model(self: Any, request: Any, *args: Any) -> None:
        if hasattr(request, "mcp"):
            raise ValueError

    site = served(type("PickyAdmin", (ProductAdmin,), {"save_model": save_model}))

    assert compared(site, factory, root).lines() == [
        "small shop.product: saving it untouched fails with ValueError, and in a browser works"
    ]
