"""What is sent of forms otherwise than by a browser is found, and so is what saving an untouched page changes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import User

from mcp_django import MCPSite
from mcp_django.bridge.writes.form_data import FormData
from tests.projects.conftest import Served
from tests.projects.forms import Forms
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
