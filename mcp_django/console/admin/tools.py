"""The list of tools, by what they are, and the page of one: what agents read of it, and what they did with it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.db import models
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils import timezone
from django.utils.functional import Promise
from django.utils.html import format_html
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.override_rows import make_tool_rows
from mcp_django.bridge.sites import all_sites
from mcp_django.bridge.tools.acting import ActingTool
from mcp_django.bridge.tools.base import BaseTool
from mcp_django.bridge.tools.query import QueryTool
from mcp_django.bridge.tools.saved_queries import SavedQuery
from mcp_django.bridge.writes.tools import WriteTool
from mcp_django.console.admin.overrides import site_of, tool_of
from mcp_django.console.admin.seen_calls import seen_calls
from mcp_django.console.admin.tool_pages import TryAdmin, may_ask
from mcp_django.console.review import inventory
from mcp_django.console.review.consent_words import in_words
from mcp_django.models import Call, Tool
from mcp_django.protocol.types import JSON

#: The button that takes an administrator's description away.
_DECLARED = "_declared"
#: How far back calls are counted.
_RECENT = timedelta(days=7)

#: What a tool is → the heading of its group, in the order of the groups.
KINDS: Mapping[str, Promise] = {
    "query": _("Queries"),
    "write": _("Writing through the forms of the admin"),
    "function": _("Functions"),
    "action": _("Actions of the admin"),
    "saved": _("Saved queries"),
    "gone": _("No longer there"),
}


def kind_of(tool: BaseTool | None) -> str:
    if tool is None:
        return "gone"
    if isinstance(tool, ActingTool):
        return "action"
    if isinstance(tool, SavedQuery):
        return "saved"
    return "query" if isinstance(tool, QueryTool) else "write" if isinstance(tool, WriteTool) else "function"


def can_be_tried(row: Tool, tool: BaseTool | None) -> bool:
    """Whether a call would find the tool."""
    return row.enabled and tool is not None and not tool.is_closed


@dataclass
class ListedTool:
    """A line of the list."""

    row: Tool
    #: The form in which the viewer switches it; None for viewers who may not.
    form: Any
    entry: JSON
    #: None for viewers who may not see the activity.
    calls: int | None

    @cached_property
    def tool(self) -> BaseTool | None:
        return tool_of(self.row)

    @property
    def can_be_tried(self) -> bool:
        return can_be_tried(self.row, self.tool)

    @property
    def kind(self) -> str:
        return kind_of(self.tool)

    @property
    def model(self) -> str:
        return self.tool.model_mcp.label if isinstance(self.tool, ActingTool) else ""

    @property
    def needs(self) -> str:
        """The scope, and the permissions of which the user needs one."""
        return ", ".join([*filter(None, [self.entry.get("scope")]), *self.entry.get("permissions", ())])

    @property
    def description(self) -> str:
        return self.row.description or (self.tool.get_description(None) if self.tool is not None else "")


class KindFilter(admin.SimpleListFilter):
    title = _("kind")
    parameter_name = "kind"

    def lookups(self, request: HttpRequest, model_admin: Any) -> Iterable[tuple[Any, Any]]:
        return KINDS.items()

    def queryset(self, request: HttpRequest, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
        kind = self.value()
        return queryset if kind not in KINDS else queryset.filter(pk__in=_keys_of(queryset, kind))


def _keys_of(rows: models.QuerySet[Any], kind: str | None) -> list[Any]:
    return [row.pk for row in rows.only("site", "name", "query") if kind_of(tool_of(row)) == kind]


class ToolAdmin(TryAdmin):
    """Overrides of tools. We make their rows, so people can add and delete none but those of saved queries."""

    list_display = ["name", "enabled"]
    list_filter = [KindFilter, "enabled", "asks", "site"]
    list_per_page = 200
    show_facets = admin.ShowFacets.NEVER
    search_fields = ["name", "description"]
    fields = [
        "name", "site", "enabled", "asks", "declared_consent", "what_it_does", "needs", "declared_description",
        "description", "groups",
    ]  # fmt: skip
    readonly_fields = [
        "name", "site", "declared_consent", "what_it_does", "needs", "declared_description", "saved_call", "activity",
    ]  # fmt: skip
    make_rows = staticmethod(make_tool_rows)

    def get_fields(self, request: HttpRequest, obj: Tool | None = None) -> list[Any]:
        fields = [*super().get_fields(request, obj), *self.activity_fields(request)]
        tool = None if obj is None else tool_of(obj)
        if tool is None or not tool.may_change:
            # Nobody is asked about a tool that reads.
            fields = [name for name in fields if name not in ("asks", "declared_consent")]
        if obj is not None and obj.query:
            fields.remove("declared_description")
            # The call may name fields that the viewer may not read.
            fields += ["saved_call"] if may_ask(request, tool_of(obj)) else []
        return fields

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Tool | None = None) -> bool:
        # The row of any other tool would be made again.
        return obj is not None and bool(obj.query) and super().has_delete_permission(request, obj)

    def buttons(self, request: HttpRequest, row: Tool) -> Iterator[tuple[str, Any]]:
        if can_be_tried(row, tool_of(row)):
            yield "try", _("Try it")
        yield from super().buttons(request, row)

    @admin.display(description=_("query"))
    def saved_call(self, row: Tool) -> str:
        return format_html(
            "<pre>{}</pre>", row.query and json.dumps(json.loads(row.query), indent=2, ensure_ascii=False)
        )

    # Its own page.

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **options: Any) -> HttpResponse:
        tool = tool_of(context["original"])
        context["is_closed"] = tool is not None and tool.is_closed
        return super().render_change_form(request, context, *args, **options)

    def save_model(self, request: HttpRequest, obj: Tool, form: Any, change: bool) -> None:
        if _DECLARED in request.POST:
            obj.description = ""
        super().save_model(request, obj, form, change)

    def response_change(self, request: HttpRequest, obj: Tool) -> HttpResponse:
        if _DECLARED not in request.POST:
            return super().response_change(request, obj)
        self.message_user(request, _("Agents read the declared description again."))
        return HttpResponseRedirect(self.page_url("change", obj.pk))

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        found: Any = super().get_changelist_instance(request)
        found.request = request
        found.has_change_permission = self.has_change_permission(request)
        return found

    def groups_of(self, request: HttpRequest, changelist: Any) -> Iterator[tuple[Promise, Sequence[ListedTool]]]:
        """The lines of a list by what they are, each group with its heading."""
        lines = list(self._lines(request, changelist))
        for kind, heading in KINDS.items():
            found = [line for line in lines if line.kind == kind]
            if found:
                yield heading, sorted(found, key=lambda line: (line.model, line.row.name))

    def _lines(self, request: HttpRequest, changelist: Any) -> Iterator[ListedTool]:
        rows: Sequence[Tool] = changelist.result_list
        forms = changelist.formset.forms if changelist.formset else [None] * len(rows)
        entries = {site.name: _entries(site, rows) for site in all_sites()}
        seen = seen_calls(self.admin_site, request)
        calls = None if seen is None else _recent_calls(seen, rows)
        for row, form in zip(rows, forms, strict=False):
            entry = entries.get(row.site, {}).get(row.name, {})
            yield ListedTool(row, form, entry, None if calls is None else calls[row.site, row.name])

    @admin.display(description=_("what it does"))
    def what_it_does(self, row: Tool) -> str:
        tool = tool_of(row)
        if tool is None:
            return str(_("no longer exists"))
        does = _("may destroy data") if tool.annotations.destructive else _("changes data")
        said = str(_("reads") if tool.annotations.read_only else does)
        if isinstance(tool, ActingTool):
            # The code of the project writes it, and no policy of ours looks into it.
            said += " · " + gettext("a file that it makes may hold more than its agent may read")
        return said

    @admin.display(description=_("declared consent"))
    def declared_consent(self, row: Tool) -> str:
        tool = tool_of(row)
        if isinstance(tool, WriteTool):
            said = [gettext("that of each model")]
            if tool.covers:
                said.append(gettext("what %(tool)s asks, it asks too") % {"tool": ", ".join(tool.covers)})
            return " · ".join(said)
        return in_words(getattr(tool, "consent", "preview"))

    @admin.display(description=_("needs"))
    def needs(self, row: Tool) -> str:
        site = site_of(row.site)
        entry = {} if site is None else _entries(site, [row]).get(row.name, {})
        return ListedTool(row, None, entry, None).needs or "-"

    @admin.display(description=_("declared description"))
    def declared_description(self, row: Tool) -> str:
        tool = tool_of(row)
        return tool.get_description(None) if tool is not None else ""


def _entries(site: Any, rows: Iterable[Tool]) -> Mapping[str, JSON]:
    own = [row for row in rows if row.site == site.name]
    return inventory.described_tools(
        site, [(tool, row.description) for row in own if (tool := tool_of(row)) is not None]
    )


def _recent_calls(calls: models.QuerySet[Call], rows: Iterable[Tool]) -> Counter[tuple[str, str]]:
    """How often each tool was called lately, by site and name."""
    called = calls.filter(at__gte=timezone.now() - _RECENT, kind=Call.Kind.CALL, name__in={row.name for row in rows})
    counted = called.values_list("site", "name").annotate(calls=models.Sum("count"))
    return Counter({(site, name): calls for site, name, calls in counted})
