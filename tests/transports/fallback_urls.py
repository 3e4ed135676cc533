"""Patterns with a language prefix, which make LocaleMiddleware look at every 404."""

from django.conf.urls.i18n import i18n_patterns
from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("mcp_django.urls")),
    *i18n_patterns(path("admin/", admin.site.urls)),
]
