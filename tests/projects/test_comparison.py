"""The comparison finds what differs, in either direction."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User

from mcp_django import MCPSite
from tests.projects.comparison import Comparison, is_leak
from tests.projects.conftest import Served
from tests.projects.rows import Factory
from tests.shop.models import Product
from tests.support.data import make_staff


class ProductAdmin(admin.ModelAdmin):  # type: ignore[type-arg]
    list_display = ("name", "price")
    fields = ("name", "active")


def lines(site: MCPSite, factory: Factory, **users: User) -> list[str]:
    return Comparison(site, users, factory).lines()


def test_what_is_shown_as_the_admin_shows_it_is_no_difference(served: Served, factory: Factory, root: User) -> None:
    assert lines(served(ProductAdmin), factory, root=root) == []


def test_a_field_that_is_missing_is_named(served: Served, factory: Factory, root: User) -> None:
    site = served(type("KeyAdmin", (ProductAdmin,), {"fields": ("name", "active", "api_key")}))

    assert lines(site, factory, root=root) == ["small shop.product: no api_key"]


def test_a_field_that_the_admin_hides_is_a_leak(served: Served, factory: Factory, root: User) -> None:
    site = served(ProductAdmin, fields=["name", "price", "active", "stock"])

    found = lines(site, factory, root=root)

    assert found == [
        "small shop.product.stock: LEAK a value is answered that no page shows",
        "small shop.product: LEAK stock",
    ]
    assert all(map(is_leak, found))


def test_rows_that_the_admin_hides_are_a_leak(served: Served, factory: Factory, root: User) -> None:
    class FewAdmin(ProductAdmin):
        def get_queryset(self, request: Any) -> Any:
            return super().get_queryset(request).filter(pk=factory.rows_of(Product)[0].pk)

    site = served(FewAdmin, get_queryset=lambda self, request: Product.objects.all())

    found = lines(site, factory, root=root)

    assert "small shop.product: LEAK rows that the admin does not show" in found
    assert "small shop.product.name: LEAK a value is answered that no page shows" in found


def test_a_model_that_the_admin_hides_from_a_user_is_a_leak_for_that_user(
    served: Served, factory: Factory, root: User
) -> None:
    site = served(ProductAdmin, has_view_permission=lambda self, request, obj=None: True)

    found = lines(site, factory, root=root, clerk=make_staff("clerk"))

    assert "small shop.product: LEAK the admin does not show this model for clerk" in found
