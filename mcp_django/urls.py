"""The endpoint of the default site: ``path("", include("mcp_django.urls"))``."""

from mcp_django.bridge.sites import site

urlpatterns, app_name, _ = site.urls
