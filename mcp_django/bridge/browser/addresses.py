"""Where forms and redirects of a page lead: to the list, to a view of the package's own, or away from the admin."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from django.contrib.admin import ModelAdmin
from django.urls import Resolver404, resolve

from mcp_django.bridge.writes.pages import below_prefix, page_path

if TYPE_CHECKING:
    from mcp_django.bridge.tools.action_pages import PageStart
    from mcp_django.exchange.requests import MCPRequest

#: The pages that the admin has of each model, and those of an AdminSite, by their names: no package's own.
_OF_MODELS = ("add", "change", "changelist", "delete", "history")
_OF_SITES = frozenset((
    "app_list", "autocomplete", "index", "jsi18n", "login", "logout", "password_change", "password_change_done",
    "view_on_site",
))  # fmt: skip
#: Whose views are no package's own: they lead on, or show and write what the tools for records are for.
_NOT_OWN = ("django.", "mcp_django.")
#: The view that an AdminSite has for every path that leads to nothing.
_CATCH_ALL = "catch_all_view"


@dataclass(frozen=True)
class Address:
    """A path with its query, and the view that is there; None for the list of the action itself."""

    path: str
    query: str = ""
    view: Callable[..., Any] | None = None
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] | None = None

    @property
    def full_path(self) -> str:
        return f"{self.path}?{self.query}" if self.query else self.path


def list_address(admin: ModelAdmin[Any], request: MCPRequest) -> Address:
    """The list of the ModelAdmin; where the admin is not served, the path of the request stands for it."""
    return Address(page_path(admin, "changelist") or request.path)


def address_of(admin: ModelAdmin[Any], request: MCPRequest, url: str, base: Address) -> Address | None:
    """Where a URL on the page at ``base`` leads, if that is the list, or a view of a package in the same AdminSite.

    A path below a model that leads nowhere is answered with a redirect by the admin's last view, and would look done.
    """
    parts = urlsplit(urljoin(base.full_path, url))
    if parts.netloc and parts.netloc != request.get_host():
        return None
    if parts.path == list_address(admin, request).path:
        return Address(parts.path, parts.query)
    try:
        found = resolve(below_prefix(parts.path))
    except Resolver404:
        return None
    if "admin" not in found.app_names or admin.admin_site.name not in found.namespaces:
        return None
    if not _is_own(found.func, found.url_name):
        return None
    return Address(parts.path, parts.query, found.func, found.args, found.kwargs)


def start_address(admin: ModelAdmin[Any], request: MCPRequest, start: PageStart) -> Address | None:
    """Where an action on a row begins: at a view of a package, or with a button at the admin's form of it, or list."""
    form = page_path(admin, "change", start.key)
    path = form if start.path is None else start.path
    if path is None:
        return None
    if not start.button or path not in (form, page_path(admin, "changelist")):
        found = address_of(admin, request, path, list_address(admin, request))
        return None if found is None or found.view is None else found
    found_view = resolve(below_prefix(path))
    return Address(path, "", found_view.func, found_view.args, found_view.kwargs)


def _is_own(view: Any, name: str | None) -> bool:
    """Whether a view belongs to a package or to the project, and is none that the admin has of each model."""
    owner = getattr(view, "model_admin", None)
    if owner is not None and name in {f"{owner.opts.app_label}_{owner.opts.model_name}_{one}" for one in _OF_MODELS}:
        return False
    view = getattr(view, "func", view)
    module = f"{getattr(view, '__module__', '')}."
    return name not in _OF_SITES and not module.startswith(_NOT_OWN) and getattr(view, "__name__", "") != _CATCH_ALL
