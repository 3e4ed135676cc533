"""Each AdminSite of Django's tests beside an MCP site of its own, and one for the models that have no admin there."""

from admin_inlines import admin as inlines
from admin_views import admin as views
from admin_views import custom_has_permission_admin, customadmin
from django.apps import apps
from django.contrib.admin import AdminSite
from django.urls import include, path
from proxy_models import admin as proxies

from mcp_django import MCPSite

#: Models that Django's tests register nowhere, each with the ModelAdmin that a project has that says nothing.
plain = AdminSite(name="plain")
for app in ("model_fields", "custom_pk", "unmanaged_models"):
    plain.register([model for model in apps.get_app_config(app).get_models() if not model._meta.auto_created])

_OTHERS = {
    "admin2": customadmin.site,
    "admin4": customadmin.simple_site,
    "admin5": views.site2,
    "admin6": views.site6,
    "admin7": views.site7,
    "admin9": views.site9,
    "admin10": views.site10,
    "has_permission": custom_has_permission_admin.site,
    "inlines": inlines.site,
    "inlines2": inlines.site2,
    "inlines3": inlines.site3,
    "inlines4": inlines.site4,
    "proxies": proxies.site,
    "plain": plain,
}
urlpatterns = [path("admin/", views.site.urls), path("", include("mcp_django.urls"))]
SITES = []
for name, admin_site in _OTHERS.items():
    # Several have the same name there, since a URLconf of Django's tests has one of them.
    admin_site.name = name
    SITES.append(MCPSite(name, admin_site=admin_site))
    urlpatterns.append(path(f"{name}/", admin_site.urls))
