"""The workshop as a project: its API, the MCP endpoint, the admin and a login."""

from django.contrib import admin
from django.contrib.auth.views import LoginView
from django.urls import include, path

from tests.api.ninja_project.api import api

urlpatterns = [
    path("", include("mcp_django.urls")),
    path("admin/", admin.site.urls),
    path("accounts/login/", LoginView.as_view(template_name="admin/login.html"), name="login"),
    path("api/", api.urls),
]
