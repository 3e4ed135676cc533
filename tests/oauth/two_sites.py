"""The URLs of a project with two sites, of which one is below a prefix."""

from django.urls import include, path

from mcp_django import MCPSite

staff = MCPSite("staff")

urlpatterns = [path("", include("mcp_django.urls")), path("staff/", staff.urls)]
