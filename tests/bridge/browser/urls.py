"""The admin of one test, whose ModelAdmins may have views of their own."""

from django.contrib import admin
from django.urls import include, path


def made() -> list[object]:
    return [path("admin/", admin.site.urls), path("", include("mcp_django.urls"))]


urlpatterns = made()
