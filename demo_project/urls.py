"""The front page, the MCP endpoint and the admin."""

from django.contrib import admin
from django.urls import include, path

from demo_project.flights import views

urlpatterns = [
    path("", include("mcp_django.urls")),
    path("admin/", admin.site.urls),
    path("", views.front, name="front"),
    path("login/", views.log_in, name="log-in"),
    path("boards/", views.compared, name="boards"),
    path("boards/ticket/", views.ticket, name="board-ticket"),
    path("boards/cancel/", views.cancel, name="cancel-flight"),
]
