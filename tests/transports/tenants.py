"""A site that keeps tenants apart, and middleware that we do not know to be harmless."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from django.contrib import admin
from django.contrib.auth.models import User
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import include, path

from mcp_django import MCPSite, ModelMCP, tool
from tests.shop.models import Tag

URLCONF = "tests.transports.tenant_urls"

tenant: contextvars.ContextVar[str] = contextvars.ContextVar("tenant", default="")
visitor: contextvars.ContextVar[str] = contextvars.ContextVar("visitor", default="nobody")


class TenantSite(MCPSite):
    """Serves whom the header X-Tenant names."""

    @contextmanager
    def call_context(self, request: HttpRequest) -> Iterator[None]:
        token = tenant.set(request.META.get("HTTP_X_TENANT", ""))
        try:
            yield
        finally:
            tenant.reset(token)


class TagMCP(ModelMCP):
    fields = ["name"]

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        name = tenant.get()
        return super().get_queryset(request).filter(name__startswith=f"{name}:" if name else "of nobody")


def make_site() -> TenantSite:
    """The site; it must not outlive its test, since rows of its tools are made for every site there is."""
    # Their URLconf has no admin.
    site = TenantSite("tenants", admin_site=admin.site)
    site.register(Tag, TagMCP)

    @tool(site=site, read_only=True)
    def visit(request: HttpRequest) -> str:
        """Who was here before, as far as the context tells; leaves the own name in it."""
        before = visitor.get()
        visitor.set(str(request.user))
        return before

    return site


def make_urls(site: TenantSite) -> ModuleType:
    """A URLconf that serves the site."""
    module = ModuleType(URLCONF)
    module.urlpatterns = [path("", include(site.urls[:2], namespace=site.name))]  # type: ignore[attr-defined]
    return module


class UnknownMiddleware:
    """Nothing that we know to be harmless; says by a header that it was passed."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response["X-Passed"] = "yes"
        return response


class QueryingMiddleware(UnknownMiddleware):
    """Uses the database before the view, as the lookup of a tenant does."""

    def __call__(self, request: HttpRequest) -> HttpResponse:
        User.objects.exists()
        return super().__call__(request)
