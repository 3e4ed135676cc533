"""Our part of the list of apps, which each page of an AdminSite has: one section, with the changes that wait.

Its last line leads each member of staff to their own page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from django.contrib.admin import AdminSite
from django.http import HttpRequest
from django.utils.translation import gettext

from mcp_django.console.changes.waiting import MOST_COUNTED, waiting_for
from mcp_django.exchange.audience import own_page_path
from mcp_django.models import Change

App = dict[str, Any]

#: The labels of our apps. The first one gives the section its name and its page.
_OURS = ("mcp_django", "mcp_django_oauth")
_NAME = itemgetter("name")


def arrange(admin_site: AdminSite) -> None:
    """Have the AdminSite list our apps as one section."""
    # Each page of the admin has the list, and a template of ours would be one of many that a project may replace.
    before: Any = admin_site.get_app_list
    if getattr(before, "func", None) is not arranged:
        admin_site.get_app_list = partial(arranged, before)  # type: ignore[method-assign]


def arranged(get_app_list: Callable[..., Any], request: HttpRequest, app_label: str | None = None) -> Any:
    """The list of apps, where ours is one section, which says how many changes wait for this person."""
    if app_label is None:
        # A project may have overridden it without the label, which Django gives it for the page of one app alone.
        found = get_app_list(request)
    elif app_label in _OURS:
        found = [app for label in _OURS for app in get_app_list(request, label)]
    else:
        found = get_app_list(request, app_label)
    # What a project lists may be the same each time, so it is never changed.
    found = _in_one_section(found)
    if not request.user.is_authenticated:
        return found
    return _with_own_page([_numbered(app, request) for app in found], is_whole=app_label is None)


def _in_one_section(found: Sequence[App]) -> Sequence[App]:
    sections = {app["app_label"]: app for app in found if app.get("app_label") in _OURS}
    section, *others = [sections[label] for label in _OURS if label in sections] or [{}]
    if not others:
        return found
    models = [model for app in (section, *others) for model in app["models"]]
    # A project may have an order of its own.
    if section["models"] == sorted(section["models"], key=_NAME):
        models.sort(key=_NAME)
    return [{**app, "models": models} if app is section else app for app in found if app not in others]


def _numbered(app: App, request: HttpRequest) -> App:
    if not any(one.get("model") is Change for one in app.get("models", ())):
        return app
    count = len(waiting_for(request))
    shown = f" ({count}+)" if count >= MOST_COUNTED else f" ({count})" if count else ""
    models = [{**one, "name": f"{one['name']}{shown}"} if one.get("model") is Change else one for one in app["models"]]
    return {**app, "models": models}


def _with_own_page(found: Sequence[App], *, is_whole: bool) -> Sequence[App]:
    """The list with a line that leads to the person's own page: in the whole one also where nothing else of ours is."""
    url = own_page_path()
    if url is None:
        return found
    # Themes for the admin ask each line for its model.
    line = {
        "model": Change, "object_name": "MyAgent", "name": gettext("My agent"), "admin_url": url, "add_url": None,
        "view_only": True, "perms": dict.fromkeys(("add", "change", "delete"), False) | {"view": True},
    }  # fmt: skip
    label = next((app["app_label"] for app in found if app.get("app_label") in _OURS), None)
    if label is not None:
        return [{**app, "models": [*app["models"], line]} if app.get("app_label") == label else app for app in found]
    section = {
        "name": Change._meta.app_config.verbose_name, "app_label": _OURS[0], "app_url": url, "has_module_perms": True,
        "models": [line],
    }  # fmt: skip
    return [*found, section] if is_whole else found
