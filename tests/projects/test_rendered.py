from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User

from tests.projects.conftest import Served
from tests.projects.rendered import Browser, Page, Shown
from tests.projects.rows import Factory
from tests.shop.models import Product, Tag
from tests.support.data import make_staff


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


def test_rows_without_boxes_are_found_by_their_links(served: Served, factory: Factory, root: User) -> None:
    shown = seen(served(type("BareAdmin", (ProductAdmin,), {"actions": None})), root, factory)

    assert shown.listed == {str(row.pk) for row in factory.rows_of(Product)}


def test_rows_without_boxes_and_links_are_found(served: Served, factory: Factory, root: User) -> None:
    bare = type("BareAdmin", (ProductAdmin,), {"actions": None, "list_display_links": None})

    assert seen(served(bare), root, factory).listed == {str(row.pk) for row in factory.rows_of(Product)}


def test_a_user_without_the_permission_is_shown_nothing(served: Served, factory: Factory) -> None:
    shown = seen(served(ProductAdmin), make_staff("vera"), factory)

    assert shown == Shown()


def test_the_rows_of_an_inline_are_told_with_their_fields(served: Served, factory: Factory, root: User) -> None:
    class TagInline(admin.StackedInline):  # type: ignore[type-arg]
        model = Product.tags.through

    [row, _] = factory.rows_of(Product)
    row.tags.add(Tag.objects.create(name="red"))  # type: ignore[attr-defined]
    link = Product.tags.through.objects.get()

    shown = seen(served(type("TaggedAdmin", (ProductAdmin,), {"inlines": (TagInline,)})), root, factory)

    assert shown.inlines == {Product.tags.through: {str(link.pk): {"tag"}}}


def test_a_page_of_a_package_with_markup_of_its_own_is_read() -> None:
    page = Page('<div class="field-line"><input name="name"><br></div><p class="field-x">')

    assert page.fields == {"line", "x"}
