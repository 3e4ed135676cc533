from django.urls import include, path
from nautobot.core.urls import handler404, handler500
from nautobot.core.urls import urlpatterns as of_nautobot

__all__ = ["handler404", "handler500", "urlpatterns"]

urlpatterns = [path("", include("mcp_django.urls")), *of_nautobot]
