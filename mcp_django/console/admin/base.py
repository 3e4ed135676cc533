"""What our ModelAdmins share: pages of their own, and who changes something, for the audit trail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.exceptions import FieldDoesNotExist
from django.db.models import Model
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access.trail import acting
from mcp_django.console.admin import app_list, documentation, unfold
from mcp_django.core.compat.admin import key_in_url
from mcp_django.core.web_pages import not_atomic
from mcp_django.protocol.names import printable

if TYPE_CHECKING:
    AdminBase = admin.ModelAdmin[Any]
else:
    AdminBase = unfold.model_admin()


class PagesAdmin(AdminBase):
    """Has pages of its own beside those of every ModelAdmin."""

    class Media:
        css = {"all": ["mcp_django/console.css"]}
        js = ["mcp_django/console.js"]

    def __init__(self, model: type[Model], admin_site: admin.AdminSite) -> None:
        super().__init__(model, admin_site)
        app_list.arrange(admin_site)

    def page_path(
        self, route: str, view: Callable[..., HttpResponseBase], name: str, *, atomic: bool = True
    ) -> URLPattern:
        """The URL of a page, for ``get_urls``: ``page_path("<path:object_id>/roll/", self.roll_view, "roll")``.

        With ``atomic=False`` it is in no transaction of ATOMIC_REQUESTS.
        """
        found = self.guarded(view)
        return path(route, found if atomic else not_atomic(found), name=self._name_of(name))

    def guarded(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """The view, for people whom the AdminSite lets in."""
        return self.admin_site.admin_view(view)

    def page_url(self, name: str, *args: Any) -> str:
        """The URL of a page of this ModelAdmin: one of its own, or "changelist", "add", "change" and the others."""
        return reverse(f"admin:{self._name_of(name)}", args=args, current_app=self.admin_site.name)

    def page(
        self, request: HttpRequest, template: str, *, title: Any = "", about: object = None, **context: Any
    ) -> TemplateResponse:
        """A page from a template that extends ``admin/mcp_django/page.html``. Like all admin pages, it is not cached.

        Its heading is the ``title`` with the name of what it is ``about``: without that, of ``object``, which is the
        row that the way back leads to.
        """
        subject = context.get("object") if about is None else about
        names = {"title": title, "subject": printable(str(subject))}
        shared = {
            **self.admin_site.each_context(request),
            "opts": self.opts,
            "title": title if subject is None else gettext("%(title)s: %(subject)s") % names,
            "short_title": title,
            "changelist": self.page_url("changelist"),
            "media": self.media,
            "help_url": documentation.page_url(template),
        }
        request.current_app = self.admin_site.name
        return TemplateResponse(request, f"admin/mcp_django/{template}.html", {**shared, **context})

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        unfold.dress(form)
        return form

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        response: HttpResponse = super().changelist_view(
            request, {"links": self.list_links(request), **(extra_context or {})}
        )
        return response

    def list_links(self, request: HttpRequest) -> list[tuple[str, Any]]:
        """What the head of the list leads to: URLs and their texts."""
        help_url = documentation.page_url(f"{self.opts.model_name}/change_list")
        return [(help_url, _("This page in the documentation"))] if help_url else []

    def is_own_page(self, request: HttpRequest) -> bool:
        """Whether the page is this ModelAdmin's, and not that of another one that deletes our rows too."""
        match = request.resolver_match
        return match is None or str(match.url_name).startswith(self._name_of(""))

    def _name_of(self, page: str) -> str:
        return f"{self.opts.app_label}_{self.opts.model_name}_{page}"


class FilteredAdmin(PagesAdmin):
    """The URL of its list can filter only by what the filters of the list offer."""

    def lookup_allowed(self, lookup: str, value: str, request: HttpRequest) -> bool:
        """Whether the URL may filter by it. A filter by any other column would disclose it letter by letter."""
        name = lookup.partition("__")[0]
        offered = {one if isinstance(one, str) else one[0] for one in self.list_filter if isinstance(one, str | tuple)}
        return (name in offered or not self._is_field(name)) and super().lookup_allowed(lookup, value, request)

    def _is_field(self, name: str) -> bool:
        """Whether it is a field, and not the parameter of a filter of our own."""
        try:
            self.opts.get_field(name)
        except FieldDoesNotExist:
            return False
        return True


class ActingAdmin(FilteredAdmin):
    """The audit trail names the user of the request for changes that its pages make."""

    def changelist_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with acting(request):
            return super().changelist_view(request, *args, **kwargs)

    def changeform_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with acting(request):
            return super().changeform_view(request, *args, **kwargs)

    def delete_view(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        with acting(request):
            return super().delete_view(request, *args, **kwargs)


class ButtonsAdmin(ActingAdmin):
    """The page of a row has buttons for what the viewer may do to it."""

    def buttons(self, request: HttpRequest, row: Any) -> Iterator[tuple[str, Any]]:
        """The name of a page of this ModelAdmin about the row, and the text of the button that leads there."""
        yield from ()

    def links(self, request: HttpRequest, row: Any) -> Iterator[tuple[str, Any]]:
        """The URL of a page elsewhere, and the text of the button that leads there."""
        yield from ()

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        row = self.get_object(request, key_in_url(object_id))
        shown: dict[str, Any] = {}
        if row is not None:
            own = [(self.page_url(page, object_id), text) for page, text in self.buttons(request, row)]
            shown["buttons"] = [*own, *self.links(request, row)]
        return super().change_view(request, object_id, form_url, {**(extra_context or {}), **shown})
