"""The pages of the console, found as the admin itself knows of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from django.contrib.admin import AdminSite
from django.urls import NoReverseMatch, reverse

from mcp_django.bridge.declared.secrets import is_ours
from mcp_django.core.compat.admin import model_admins


def pages(admin_site: AdminSite, keys: Mapping[Any, Any]) -> Iterator[tuple[Any, str]]:
    """Each page of our models, with the model: the lists, the forms and whatever our ModelAdmins have beside them.

    ``keys`` has the key of one row of a model. The first pages of our apps come with None.
    """
    for model, name, args in _names(admin_site, keys):
        # Not every page is of a row, and an AdminSite has a first page for each app that is registered with it.
        with suppress(NoReverseMatch):
            yield model, reverse(f"admin:{name}", args=args, current_app=admin_site.name)


def _names(admin_site: AdminSite, keys: Mapping[Any, Any]) -> Iterator[tuple[Any, str, list[Any]]]:
    for model, model_admin in model_admins(admin_site).items():
        if is_ours(model):
            for pattern in filter(lambda one: one.name, model_admin.get_urls()):
                yield model, str(pattern.name), []
                if model in keys:
                    yield model, str(pattern.name), [keys[model]]
    for label in ("mcp_django", "mcp_django_oauth"):
        yield None, "app_list", [label]
