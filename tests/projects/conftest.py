"""An admin with one model, as it would be in a project that the comparison is run in."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import User
from django.test import override_settings
from django.urls import path

from mcp_django import MCPSite
from tests.projects.rows import Factory
from tests.shop.models import Product

#: Makes an MCP site with the ModelAdmin of Product, and with a ModelMCP if there are options for one.
Served = Callable[..., MCPSite]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Any:
    urls: Any = ModuleType("small_urls")
    monkeypatch.setitem(sys.modules, "small_urls", urls)

    def make(model_admin: type[ModelAdmin[Any]], **options: Any) -> MCPSite:
        admin_site = AdminSite("small")
        admin_site.register(Product, model_admin)
        urls.urlpatterns = [path("small/", admin_site.urls)]
        site = MCPSite("small", admin_site=admin_site)
        if options:
            site.register(Product, **options)
        return site

    urls.urlpatterns = []
    with override_settings(ROOT_URLCONF="small_urls"):
        yield make


@pytest.fixture
def factory(db: None) -> Factory:
    made = Factory({})
    made.rows_of(Product)
    return made


@pytest.fixture
def root(db: None) -> User:
    return User.objects.create_superuser("root")
