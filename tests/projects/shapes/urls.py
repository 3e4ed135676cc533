from django.contrib import admin
from django.http import HttpResponse
from django.urls import include, path


def page(request, code):  # type: ignore[no-untyped-def]
    return HttpResponse(code)


urlpatterns = [
    path("admin/", admin.site.urls),
    path("pages/<code>/", page, name="page"),
    path("", include("mcp_django.urls")),
]
