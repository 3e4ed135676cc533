"""What administrators decide about tools and prompts, and the list of tools."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest, HttpResponse
from django.utils.text import Truncator
from django.utils.translation import gettext_lazy as _
from django.utils.translation import ngettext_lazy

from mcp_django.bridge.sites import all_sites
from mcp_django.bridge.tools.saved_queries import saved_query
from mcp_django.console.admin.base import ButtonsAdmin
from mcp_django.console.admin.links import activity_link, shows_activity
from mcp_django.models import AdminOverride, Prompt, Tool

if TYPE_CHECKING:
    from mcp_django.bridge.sites import MCPSite
    from mcp_django.bridge.tools.base import BaseTool


#: Model, and whether its rows are on now → what a page says of so many.
_SWITCHED: Mapping[tuple[type[models.Model], bool], Any] = {
    (Tool, True): ngettext_lazy("%d tool was switched on.", "%d tools were switched on."),
    (Tool, False): ngettext_lazy("%d tool was switched off.", "%d tools were switched off."),
    (Prompt, True): ngettext_lazy("%d prompt was switched on.", "%d prompts were switched on."),
    (Prompt, False): ngettext_lazy("%d prompt was switched off.", "%d prompts were switched off."),
}


class OverrideAdmin(ButtonsAdmin):
    """What administrators decide about tools and prompts: on or off, the texts, and the groups."""

    list_editable = ["enabled"]
    filter_horizontal = ["groups"]
    actions = ["enable", "disable"]
    #: Adds the rows of declared tools or prompts that have none yet.
    make_rows: Callable[[str], int]

    def get_queryset(self, request: HttpRequest) -> models.QuerySet[Any]:
        return super().get_queryset(request).prefetch_related("groups")

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        if request.method == "GET":
            type(self).make_rows(self.get_queryset(request).db)
        response: HttpResponse = super().changelist_view(request, extra_context)
        return response

    @admin.display(description=_("declared description"))
    def declared_description(self, row: Any) -> str:
        raise NotImplementedError

    @admin.display(description=_("declared description"))
    def summary(self, row: Any) -> str:
        return Truncator(self.declared_description(row)).chars(90)

    def activity_fields(self, request: HttpRequest) -> list[str]:
        """The field with the link to the activity, for viewers who may follow it."""
        return ["activity"] if shows_activity(self.admin_site, request) else []

    @admin.display(description=_("activity"))
    def activity(self, row: Any) -> str:
        return activity_link(self.admin_site, _("all activity"), tool=row.name)

    @admin.display(description=_("groups"))
    def group_names(self, row: AdminOverride) -> str:
        return ", ".join(group.name for group in row.groups.all()) or "-"

    @admin.action(description=_("Switch on"), permissions=["change"])
    def enable(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        self._set_enabled(request, queryset, enabled=True)

    @admin.action(description=_("Switch off"), permissions=["change"])
    def disable(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> None:
        self._set_enabled(request, queryset, enabled=False)

    def _set_enabled(self, request: HttpRequest, queryset: models.QuerySet[Any], *, enabled: bool) -> None:
        changed = list(queryset.exclude(enabled=enabled))
        for row in changed:
            row.enabled = enabled
            row.save(update_fields=["enabled"])
            self.log_change(request, row, [{"changed": {"fields": ["enabled"]}}])
        count = len(changed)
        self.message_user(request, _SWITCHED[self.model, enabled] % count)


def site_of(name: str) -> MCPSite | None:
    return next((site for site in all_sites() if site.name == name), None)


def tool_of(row: Tool) -> BaseTool | None:
    """The tool that a row is about; None for one that is gone."""
    site = site_of(row.site)
    if site is None:
        return None
    return saved_query(site, row.name, row) if row.query else site.tools.get(row.name)
