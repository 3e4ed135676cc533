from django.urls import include, path

urlpatterns = [path("", include("mcp_django.urls"))]
