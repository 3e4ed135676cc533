"""The admin of one test, whose ModelAdmins may have views of their own."""

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import include, path


def pay(request: HttpRequest) -> HttpResponse:
    """A page of the project outside of the admin."""
    raise AssertionError("no action may lead here")


def made() -> list[object]:
    return [path("admin/", admin.site.urls), path("pay/", pay), path("", include("mcp_django.urls"))]


urlpatterns = made()
