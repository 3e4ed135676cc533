"""The audit trail in the admin: *Activity*, which everybody may only read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from django.contrib import admin, messages
from django.contrib.admin.options import IncorrectLookupParameters
from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from django.core.paginator import Paginator
from django.db import models
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
    StreamingHttpResponse,
)
from django.urls import URLPattern
from django.utils.functional import cached_property
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from mcp_django.access.trail import acting
from mcp_django.console.admin import activity_filters
from mcp_django.console.admin.activity_cells import badge, explained, moment, span
from mcp_django.console.admin.activity_pages import ActivityPages
from mcp_django.console.admin.links import activity_link, object_link
from mcp_django.models import AccessToken, Call, Prompt, Tool

if TYPE_CHECKING:
    CallPaginator = Paginator[Call]
else:
    CallPaginator = Paginator

#: The most lines of the list. Counting further would take longer than the page itself.
MAX_LISTED = 10_000


class CappedPaginator(CallPaginator):
    """Counts no further than MAX_LISTED."""

    @cached_property
    def counted(self) -> int:
        listed: Any = self.object_list
        return int(listed.order_by()[: MAX_LISTED + 1].count())

    @property
    def count(self) -> int:
        return min(self.counted, MAX_LISTED)

    @property
    def is_capped(self) -> bool:
        return self.counted > MAX_LISTED


class CallAdmin(ActivityPages):
    """Whoever may view calls sees those of all users. Nobody may add, change or delete one."""

    list_display = ["time", "subject", "result", "user_label", "model", "token_label", "client", "rows", "duration"]
    list_filter = [
        activity_filters.DayFilter,
        activity_filters.OutcomeFilter,
        activity_filters.ReasonFilter,
        activity_filters.KindFilter,
        activity_filters.UserFilter,
        activity_filters.TokenFilter,
        activity_filters.ClientFilter,
        activity_filters.ToolFilter,
        activity_filters.ModelFilter,
    ]
    # Without it the admin shows no field for the search. The search itself is in get_search_results.
    search_fields = ["request_id"]
    search_help_text = _(
        "A changed record as “flights.flight 17”, or the id of a request, a trace or a session, or an address."
    )
    # Ordering by a column without an index would read the whole table.
    sortable_by = ["time"]
    ordering = ["-at", "-pk"]
    actions = None
    paginator = CappedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    readonly_fields = ["exact_time", "explanation", "user", "token", "credential", "tool", "duration"]
    fieldsets = [
        (None, {"fields": ["exact_time", "kind", "outcome", "reason", "detail", "explanation", "count"]}),
        (_("Caller"), {"fields": [
            "user", "user_id", "token", "token_id", "credential", "lineage", "client_name", "client_id", "address",
            "transport", "revision",
        ]}),
        (_("Request"), {"fields": [
            "site", "method", "tool", "model", "uri", "arguments", "values", "request_id", "trace_id", "session",
        ]}),
        (_("Effect and cost"), {"fields": ["keys", "rows", "bytes", "duration", "queries"]}),
    ]  # fmt: skip

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Call | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Call | None = None) -> bool:
        return False

    # The list.

    @admin.display(description=_("time"), ordering="at")
    def time(self, call: Call) -> str:
        return moment(call.at)

    @admin.display(description=_("user"))
    def user_label(self, call: Call) -> str:
        return call.user_name or call.user_id or call.address

    @admin.display(description=_("token"))
    def token_label(self, call: Call) -> str:
        return _token_label(call)

    @admin.display(description=_("client"))
    def client(self, call: Call) -> str:
        return call.client_name

    @admin.display(description=_("what"))
    def subject(self, call: Call) -> str:
        return call.subject

    @admin.display(description=_("outcome"))
    def result(self, call: Call) -> str:
        return badge(call)

    @admin.display(description=_("took"))
    def duration(self, call: Call) -> str:
        return span(timedelta(milliseconds=call.ms))

    def get_search_results(
        self, request: HttpRequest, queryset: models.QuerySet[Call], search_term: str
    ) -> tuple[models.QuerySet[Call], bool]:
        return activity_filters.search(queryset, search_term), False

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        context = {
            "title": _("Activity"),
            "most_listed": MAX_LISTED,
            **(extra_context or {}),
        }
        return super().changelist_view(request, context)

    def list_links(self, request: HttpRequest) -> list[tuple[str, Any]]:
        filters = request.GET.urlencode()
        return [
            (f"{self.page_url('live')}?{filters}", _("Live")), (self.page_url("totals"), _("Totals")),
            (self.page_url("connections"), _("Connections")), (f"{self.page_url('csv')}?{filters}", _("Export as CSV")),
            *super().list_links(request),
        ]  # fmt: skip

    def get_urls(self) -> list[URLPattern]:
        own = [
            self.page_path("csv/", self.csv_view, "csv"),
            self.page_path("connections/", self.connections_view, "connections"),
            self.page_path("connections/end/", self.end_view, "end"),
            *self.activity_urls(),
        ]
        return [*own, *super().get_urls()]

    # Who is connected.

    def connections_view(self, request: HttpRequest) -> HttpResponse:
        """The clients that are connected now, as each process answers, what is stored, and what is lent."""
        from mcp_django.console.admin import connections

        if not self.has_view_permission(request):
            raise PermissionDenied
        shown = connections.shown_to(request)
        return self.page(
            request, "call/connections", title=_("Connections"), end_url=self.page_url("end"),
            list_url=self.page_url("connections"), **shown,
        )  # fmt: skip

    def end_view(self, request: HttpRequest) -> HttpResponse:
        """End a session, a task or what is lent to an agent, as a superuser or its own user."""
        from mcp_django.console.admin import connections

        if not self.has_view_permission(request):
            raise PermissionDenied
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        with acting(request):
            ended = connections.end(request, request.POST.get("what", ""), request.POST.get("named", ""))
        if ended is None:
            messages.warning(request, _("It has already ended, or you may not end it."))
        else:
            messages.success(request, ended)
        return HttpResponseRedirect(self.page_url("connections"))

    # As a file.

    def csv_view(self, request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        """The lines that the list shows with the same filters."""
        if not self.has_view_permission(request):
            raise PermissionDenied
        try:
            calls = self.get_changelist_instance(request).queryset
        except IncorrectLookupParameters:
            return HttpResponseRedirect(f"{self.page_url('changelist')}?{urlencode({'e': 1})}")
        from mcp_django.console.admin.activity_csv import csv_response  # Few ask for it.

        return csv_response(request, calls)

    # The page of a call.

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Call | None:
        call = super().get_object(request, object_id, from_field)
        if call is not None:
            # Only here are both the call and its viewer known.
            call.links = self._links(request, call)
        return call

    def _links(self, request: HttpRequest, call: Call) -> dict[str, SafeString | str]:
        """What the call names, each with a link to its page if it still exists, and to all calls that name it."""
        site, kind = self.admin_site, Prompt if call.kind == Call.Kind.PROMPT else Tool
        row = kind._default_manager.filter(site=call.site, name=call.name).first() if call.name else None
        named: dict[str, tuple[type[models.Model], Any, str]] = {
            "user": (get_user_model(), call.user_id, call.user_name or call.user_id),
            "token": (AccessToken, call.token_id, _token_label(call)),
            "tool": (kind, "" if row is None else row.pk, call.name),
        }
        filters = {"user": call.user_id, "token": call.token_id, "tool": call.name}
        links: dict[str, SafeString | str] = {
            what: format_html_join(" · ", "{}", [
                (object_link(site, request, model, key, text) or text,),
                (activity_link(site, _("all activity"), **{what: filters[what]}),),
            ])
            for what, (model, key, text) in named.items()
            if text
        }  # fmt: skip
        return links | ({"credential": self._credential_link(call)} if call.user_id else {})

    def _credential_link(self, call: Call) -> SafeString:
        url = self.page_url("credential", call.pk)
        return format_html('<a href="{}">{}</a>', url, _("What it did before and after this"))

    @admin.display(description=_("time"))
    def exact_time(self, call: Call) -> str:
        return call.local_at.isoformat(sep=" ", timespec="milliseconds")

    @admin.display(description=_("explanation"))
    def explanation(self, call: Call) -> str:
        return str(explained(call.reason))

    @admin.display(description=_("this credential"))
    def credential(self, call: Call) -> str | None:
        return _linked(call, "credential")

    @admin.display(description=_("user"))
    def user(self, call: Call) -> str | None:
        return _linked(call, "user")

    @admin.display(description=_("token"))
    def token(self, call: Call) -> str | None:
        return _linked(call, "token")

    @admin.display(description=_("tool or prompt"))
    def tool(self, call: Call) -> str | None:
        return _linked(call, "tool")


def _linked(call: Any, what: str) -> str | None:
    linked: str | None = call.links.get(what)
    return linked


def _token_label(call: Call) -> str:
    if call.token_name or call.token_id is None:
        return call.token_name
    return gettext("token %(id)s") % {"id": call.token_id}
