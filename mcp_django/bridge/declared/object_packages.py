"""The actions on the page of one row that packages add to a ModelAdmin. Each package is known by what it adds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from django.template import RequestContext
from django.urls import NoReverseMatch, reverse

from mcp_django.bridge.declared.object_actions import ObjectAction
from mcp_django.core.compat.admin import key_for_url, object_tool_of
from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from django.contrib.admin import ModelAdmin
    from django.db.models import Model
    from django.http import HttpRequest

    from mcp_django.bridge.declared.options import ModelMCP


def object_actions_of(model_mcp: ModelMCP) -> Iterable[ObjectAction]:
    """Those that a registration declares, those of its buttons, and those of packages, each name once."""
    admin: Any = model_mcp.model_admin
    if admin is None:
        return ()
    found: dict[str, ObjectAction] = {}
    buttons = [ObjectAction(name=one.strip("_"), button=one) for one in model_mcp.buttons]
    of_packages = (one for adapter in _ADAPTERS for one in _found(adapter, admin))
    for one in (*model_mcp.object_actions, *buttons, *of_packages):
        found.setdefault(one.name, one)
    return found.values()


def _found(adapter: Callable[[Any], Iterable[ObjectAction]], admin: Any) -> Iterable[ObjectAction]:
    """Those of one package; none where what it names is not there, which is that package's to report."""
    nothing: list[ObjectAction] = []
    return call_hook(lambda: list(adapter(admin)), nothing, f"{type(admin).__name__}: {adapter.__name__.lstrip('_')}")


def _of_object_actions(admin: Any) -> Iterator[ObjectAction]:
    """django-object-actions: ``change_actions``, at a page below the row, by a link or by a small form."""
    if not hasattr(admin, "get_change_actions") or not hasattr(admin, "tools_view_name"):
        return
    for name in admin.change_actions:
        function = getattr(admin, name)
        methods = [one.upper() for one in getattr(function, "methods", ("GET", "POST"))]
        by_form = object_tool_of(admin, name)["button_type"] == "form"
        yield _declared(
            function,
            name,
            getattr(function, "label", ""),
            path=partial(_below, admin, "actions", name),
            method="POST" if "GET" not in methods or (by_form and "POST" in methods) else "GET",
            is_available=partial(_changes_by, admin, name),
        )


def _changes_by(admin: Any, name: str, request: HttpRequest, obj: Model) -> bool:
    return name in admin.get_change_actions(request, str(obj.pk), "")


def _of_unfold(admin: Any) -> Iterator[ObjectAction]:
    """django-unfold: ``actions_detail`` and ``actions_row`` at a page below the row, and ``actions_submit_line``."""
    if not hasattr(admin, "get_unfold_action"):
        return
    for place in ("detail", "row", "submit_line"):
        for one in getattr(admin, f"_get_base_actions_{place}")():
            name = one.action_name.removeprefix(f"{_prefix(admin)}_")
            by: dict[str, Any] = {"path": partial(_below, admin, name)}
            if place == "submit_line":
                by = {"button": one.action_name}
            elif getattr(one, "dialog", None):
                by["shows_page"] = True
            offered = partial(_unfolds, getattr(admin, f"get_actions_{place}"), one.action_name, place != "row")
            yield _declared(one.method, name, one.description, is_available=offered, **by)


def _unfolds(ask: Callable[..., Any], name: str, with_key: bool, request: HttpRequest, obj: Model) -> bool:
    return name in {one.action_name for one in ask(request, *([obj.pk] if with_key else []))}


def _of_extra_buttons(admin: Any) -> Iterator[ObjectAction]:
    """django-admin-extra-buttons: ``@button`` on a method that takes the key of a row, at a page of its own."""
    for name, handler in getattr(admin, "extra_button_handlers", {}).items():
        if handler.url_pattern is None or handler.single_object_invocation or handler.change_form is False:
            continue
        yield _declared(
            handler.func,
            name,
            handler.config.get("label", ""),
            path=partial(_with_key, admin, name),
            is_available=partial(_is_pressed, handler),
            # A permission of the package's own decides alone, as in the admin.
            permissions=() if handler.permission else None,
        )


def _is_pressed(handler: Any, request: HttpRequest, obj: Model) -> bool:
    button = handler.get_button(RequestContext(request, {"request": request, "original": obj}))
    return bool(button.can_render() and button.enabled)


def _of_inline_actions(admin: Any) -> Iterator[ObjectAction]:
    """django-inline-actions: ``inline_actions`` of the ModelAdmin, by a button beside the row in the list."""
    if not hasattr(admin, "render_inline_actions"):
        return
    for declared in admin.inline_actions or ():
        name = _name(declared)
        yield _declared(
            getattr(admin, name),
            name,
            path=lambda obj: _path(admin, "changelist"),
            method="POST",
            button=partial(_beside, admin, name),
            is_available=partial(_is_inline, admin, name),
        )


def _beside(admin: ModelAdmin[Any], name: str, obj: Any) -> str:
    parts = (type(admin).__name__.lower(), "admin", name, obj._meta.app_label, obj._meta.model_name, str(obj.pk))
    return f"_action__{'__'.join(parts)}"


def _is_inline(admin: Any, name: str, request: HttpRequest, obj: Model) -> bool:
    return name in map(_name, admin.get_inline_actions(request, obj))


def _name(action: Any) -> str:
    return action if isinstance(action, str) else str(action.__name__)


_ADAPTERS = (_of_object_actions, _of_unfold, _of_extra_buttons, _of_inline_actions)


def _declared(function: Any, name: str, title: Any = "", **options: Any) -> ObjectAction:
    """The action of a function, with what ``mcp_django.action`` and ``admin.action`` say of it."""
    annotations = getattr(function, "mcp_annotations", None)
    said: dict[str, Any] = {
        "permissions": getattr(function, "allowed_permissions", None),
        "changes": getattr(function, "mcp_changes", ()),
        "consent": getattr(function, "mcp_consent", "preview"),
        "shows_page": getattr(function, "mcp_shows_pages", False),
    }
    if annotations is not None:
        said |= {one: getattr(annotations, one) for one in ("read_only", "destructive", "idempotent")}
    return ObjectAction(name=name, title=title or getattr(function, "short_description", ""), **{**said, **options})


def _prefix(admin: ModelAdmin[Any]) -> str:
    return f"{admin.opts.app_label}_{admin.opts.model_name}"


def _below(admin: ModelAdmin[Any], end: str, *args: Any) -> str | None:
    """The path of a page below that of a row, which comes last of the arguments."""
    *names, obj = args
    return _path(admin, end, key_for_url(obj.pk), *names)


def _with_key(admin: ModelAdmin[Any], end: str, obj: Model) -> str | None:
    return _path(admin, end, obj.pk)


def _path(admin: ModelAdmin[Any], end: str, *args: Any) -> str | None:
    """The path of a page of the model, by the name that packages give it. None if it is not served."""
    try:
        return reverse(f"admin:{_prefix(admin)}_{end}", args=args, current_app=admin.admin_site.name)
    except NoReverseMatch:
        return None
