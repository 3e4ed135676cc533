"""The calls that a viewer may see in an AdminSite, and what names them where numbers about them are kept."""

from __future__ import annotations

import hashlib

from django.contrib.admin import AdminSite
from django.core.exceptions import EmptyResultSet
from django.db import connections
from django.db.models import QuerySet
from django.http import HttpRequest

from mcp_django.console.admin.links import shows_activity
from mcp_django.models import Call


def seen_calls(admin_site: AdminSite, request: HttpRequest) -> QuerySet[Call] | None:
    """The calls that the ModelAdmin shows to the viewer, unordered; None for viewers who may not see the activity."""
    if not shows_activity(admin_site, request):
        return None
    return admin_site.get_model_admin(Call).get_queryset(request).order_by()


def key_of(request: HttpRequest, calls: QuerySet[Call]) -> str:
    """Names the calls by who looks, where, and by the statement that finds them.

    Whoever sees other calls has other numbers, and so does another tenant, whose schema or database it is.
    """
    try:
        statement = str(calls.query.sql_with_params())
    except EmptyResultSet:
        statement = ""
    where = (request.get_host(), calls.db, connections[calls.db].settings_dict["NAME"], _schema(calls.db))
    text = repr((request.user.pk, where, statement))
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


def _schema(alias: str) -> str:
    """The schema of the tenant, where a project has one for each."""
    return str(getattr(connections[alias], "schema_name", ""))
