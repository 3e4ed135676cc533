from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User

from tests.projects.conftest import Served
from tests.projects.rendered import Browser, Shown
from tests.projects.rows import Factory
from tests.shop.models import Product, Tag


class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", lambda obj: obj.price)
    fieldsets = ((None, {"fields": (("name", "active"), "stock")}),)
    readonly_fields = ("stock",)


def seen(site: Any, user: User, factory: Factory) -> Shown:
    keys = [str(row.pk) for row in factory.rows_of(Product)]
    return Browser(site.admin_sites[0], user).look_at(Product, keys)


def test_the_columns_rows_and_fields_are_those_of_the_pages(served: Served, factory: Factory, root: User) -> None:
    shown = seen(served(ProductAdmin), root, factory)

    keys = {str(row.pk) for row in factory.rows_of(Product)}
    assert shown.columns == {"name", "<lambda>"}
    assert shown.listed == shown.forms.keys() == keys
    assert set(map(frozenset, shown.forms.values())) == {frozenset({"name", "active", "stock"})}
    assert shown.failed == []


def test_the_rows_of_an_inline_are_told_with_their_fields(served: Served, factory: Factory, root: User) -> None:
    class TagInline(admin.StackedInline):  # type: ignore[type-arg]
        model = Product.tags.through

    [row, _] = factory.rows_of(Product)
    row.tags.add(Tag.objects.create(name="red"))  # type: ignore[attr-defined]
    link = Product.tags.through.objects.get()

    shown = seen(served(type("TaggedAdmin", (ProductAdmin,), {"inlines": (TagInline,)})), root, factory)

    assert shown.inlines == {Product.tags.through: {str(link.pk): {"tag"}}}
