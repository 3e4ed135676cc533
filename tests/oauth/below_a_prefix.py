"""The URLs of a project that has the endpoint below a prefix."""

from django.urls import include, path

urlpatterns = [path("staff/", include("mcp_django.urls"))]
