"""Links between the activity and what it names, for viewers who may follow them."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django.contrib.admin import AdminSite
from django.db import models
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils.html import format_html

from mcp_django.models import Call


def shows_activity(admin_site: AdminSite, request: HttpRequest) -> bool:
    """Whether the viewer may see the activity in this AdminSite."""
    return admin_site.is_registered(Call) and admin_site.get_model_admin(Call).has_view_permission(request)


def activity_link(admin_site: AdminSite, text: Any, **filters: Any) -> str:
    """A link to the activity, filtered: ``activity_link(site, "activity", user=17)``."""
    return format_html('<a href="{}?{}">{}</a>', _url(admin_site, Call, "changelist"), urlencode(filters), text)


def object_link(
    admin_site: AdminSite, request: HttpRequest, model: type[models.Model], key: Any, text: str
) -> str | None:
    """A link to the page of a row. None where there is no such page or row, or where the viewer may not see it."""
    row = visible_row(admin_site, request, model, key)
    return None if row is None else row_link(admin_site, row, text)


def visible_row(admin_site: AdminSite, request: HttpRequest, model: type[models.Model], key: Any) -> Any:
    """The row, if the viewer may open its page; else None."""
    if not admin_site.is_registered(model):
        return None
    model_admin = admin_site.get_model_admin(model)
    row = model_admin.get_object(request, str(key))
    return row if row is not None and model_admin.has_view_permission(request, row) else None


def row_link(admin_site: AdminSite, row: models.Model, text: str) -> str:
    """A link to the page of a row that the viewer may open; the text alone where the URLs lack that page."""
    try:
        url = _url(admin_site, type(row), "change", row.pk)
    except NoReverseMatch:
        return text
    return format_html('<a href="{}">{}</a>', url, text)


def _url(admin_site: AdminSite, model: type[models.Model], page: str, *args: Any) -> str:
    meta = model._meta
    return reverse(f"admin:{meta.app_label}_{meta.model_name}_{page}", args=args, current_app=admin_site.name)
