"""The same, with the line that answers at the root of the host too."""

from django.urls import include, path

urlpatterns = [path("staff/", include("mcp_django.urls")), path("", include("mcp_django.oauth.well_known"))]
