from django.contrib import admin
from django.urls import include, path

urlpatterns = [
    path("", include("mcp_django.urls")),
    path("admin/", admin.site.urls),
]
