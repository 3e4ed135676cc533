"""*Changes by agents* in the admin: those that wait for the click of their user, and all that agents wrote."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.contrib.admin import AdminSite
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.http.response import HttpResponseBase
from django.urls import URLPattern
from django.utils.html import format_html_join
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.changes import approvals, change_rows, outcomes, summaries
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.uris import LEFT_OUT
from mcp_django.console.admin import inbox, undoing
from mcp_django.console.admin.base import FilteredAdmin
from mcp_django.console.admin.links import row_link, visible_row
from mcp_django.console.changes import deciding, waiting
from mcp_django.console.changes.change_words import ChangeWords, agent_of, keys_shown, time_left
from mcp_django.console.changes.deciding import decide, is_own, may_approve
from mcp_django.console.changes.effect_parts import ROWS_OF_PAGE, page_in, parts_of
from mcp_django.core.compat.admin import key_in_url
from mcp_django.exchange.audience import own_page_path
from mcp_django.models import Change
from mcp_django.protocol.names import printable

#: Changes that are decided by one click, at most.
_SEVERAL = 20
#: Records that the page of a change leads to.
_LINKED_KEYS = 10


class ChangeAdmin(FilteredAdmin):
    """Whoever may view changes sees those of all users. Everybody sees those of their own agents, and decides them.

    What a change holds, and why it was not made, is shown to its own user, and to people who may approve it, as far as
    they may read it themselves. As in the activity, others see those keys of its records that are integers or UUIDs: a
    text may say whose a row is.
    """

    list_display = ["what", "state_now", "agent", "created_at", "together"]
    list_filter = [
        inbox.ShownFilter, inbox.AlikeFilter, "state", "operation", "created_at", "model",
        ("user_name", inbox.NamesFilter), ("client_name", inbox.NamesFilter),
    ]  # fmt: skip
    search_fields = ["^key", "user_name", "token_name", "reason"]
    search_help_text = _("The beginning of the number of a change; or a user, a token or a reason.")
    ordering = ["-created_at", "-pk"]
    actions = ["approve_several", "reject_several"]
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_form_template = "admin/mcp_django/change/change_form.html"
    fieldsets = [
        (None, {"fields": ["key", "state_now", "operation", "model", "records", "why", "said"]}),
        (_("Agent"), {"fields": ["by_user", "token", "client"]}),
        (_("Times"), {"fields": ["created_at", "decided_at", "decided_by"]}),
    ]
    readonly_fields = ["state_now", "records", "why", "said", "by_user", "token", "client", "decided_by"]

    # Permissions.

    def has_module_permission(self, request: HttpRequest) -> bool:
        # The index does not show it to people whose agents have written nothing.
        may_see = super().has_view_permission(request) or request.user.has_perm(approvals.PERMISSION)
        return may_see or Change.objects.filter(user=request.user.pk).exists()

    def has_view_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        may_see = obj is None or is_own(request, obj) or may_approve(request, obj)
        return may_see or super().has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Change]:
        queryset: QuerySet[Change] = super().get_queryset(request)
        seen = Q(user=request.user.pk)
        if super().has_view_permission(request):
            # Those of another tenant, where that is known, are nobody's here.
            return queryset.filter(seen | deciding.in_tenant(request) | deciding.UNKNOWN)
        if request.user.has_perm(approvals.PERMISSION):
            seen |= waiting.NEEDS_OTHERS & deciding.in_tenant(request)
        return queryset.filter(seen)

    # The list.

    def get_search_fields(self, request: HttpRequest) -> Any:
        # Whoever may approve changes sees those of others, and not each of their reasons.
        sees_reasons = super().has_view_permission(request) or not request.user.has_perm(approvals.PERMISSION)
        return [name for name in self.search_fields if sees_reasons or name != "reason"]

    def get_changelist_instance(self, request: HttpRequest) -> Any:
        # A column of the list does not know its viewer, and asks for one change after the other.
        changes = super().get_changelist_instance(request)
        shown: list[Any] = list(changes.result_list)
        words, votes, groups = ChangeWords(request, shown), approvals.votes_by_change(shown), waiting.groups(request)
        mine = {one.pk: one for one in waiting.waiting_for(request)}
        agents = Counter(map(_agent_of, mine.values()))
        for change in shown:
            change.told, change.votes = words.of(change).text, votes[change.pk]
            change.alike = groups.get(change.pk, ())
            change.is_one_of_several = agents[_agent_of(change)] > 1 and change.pk in mine
            change.is_own = is_own(request, change)
        changes.result_list = shown
        return changes

    @admin.display(description=_("what"))
    def what(self, change: Any) -> str:
        told: str = change.told
        return told

    @admin.display(description=_("state"), ordering="state")
    def state_now(self, change: Change) -> str:
        if outcomes.waits(change):
            return f"{_waits_for(change)} · {time_left(change)}"
        if change.state == Change.State.WRITING and change_rows.lease_is_over(change):
            return gettext("it is not known how it ended")
        return str(Change.State(change_rows.state_of(change)).label)

    @admin.display(description=_("user"), ordering="user_name")
    def by_user(self, change: Change) -> str:
        return printable(change.user_name)

    @admin.display(description=_("agent"), ordering="user_name")
    def agent(self, change: Change) -> str:
        named = agent_of(change)
        if not named:
            # A person who undoes something.
            return printable(change.user_name)
        return gettext("%(agent)s of %(user)s") % {"agent": named, "user": printable(change.user_name)}

    @admin.display(description=_("together"))
    def together(self, change: Any) -> str:
        """Links to the changes that are alike, and to what rejects all of the same agent."""
        links = []
        if len(change.alike) > 1:
            alike = ngettext("%(count)d alike", "%(count)d alike", len(change.alike)) % {"count": len(change.alike)}
            links.append((f"?{inbox.ALIKE}={change.pk}", f"{alike} ▸"))
        if change.is_one_of_several:
            links.append((self.page_url("reject_all", change.pk), gettext("Reject all of this agent…")))
        return format_html_join(" · ", '<a href="{}">{}</a>', links) or "-"

    @admin.display(description=_("reason"))
    def why(self, change: Change) -> str:
        return printable(change.reason) or "-"

    @admin.display(description=_("note"))
    def said(self, change: Any) -> str:
        return printable(change.note_shown) or "-"

    @admin.display(description=_("token"))
    def token(self, change: Change) -> str:
        return printable(change.token_name) or "-"

    @admin.display(description=_("client, as it calls itself"))
    def client(self, change: Change) -> str:
        return printable(change.client_name) or "-"

    @admin.display(description=_("decided by"))
    def decided_by(self, change: Change) -> str:
        """The other people who approved or rejected it; their comments may tell what not everybody here may read."""
        return printable(", ".join(map(str, change.decisions.using(change_rows.alias())))) or "-"

    @admin.display(description=_("records"))
    def records(self, change: Any) -> str:
        linked: str = change.linked
        return linked or "-"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        count = len(waiting.waiting_for(request))
        title = ngettext(
            "Changes by agents · %(count)d waits for you", "Changes by agents · %(count)d wait for you", count
        )
        shown = title % {"count": count} if count else _("Changes by agents")
        if request.method == "GET" and (elsewhere := waiting.number_elsewhere(request)):
            told = ngettext(
                "%(count)d change waits at another host. Open this page at the host at which its agent works.",
                "%(count)d changes wait at other hosts. Open this page at the hosts at which their agents work.",
                elsewhere,
            )  # fmt: skip
            messages.info(request, told % {"count": elsewhere})
        return super().changelist_view(request, {"title": shown, **(extra_context or {})})

    def list_links(self, request: HttpRequest) -> list[tuple[str, Any]]:
        found = super().list_links(request)
        if count := len(waiting.waiting_for(request)):
            text = ngettext("%(count)d waits for you", "%(count)d wait for you", count) % {"count": count}
            found.insert(0, (f"?{inbox.SHOWS}={inbox.MINE}", text))
        return found

    # Several at once: each is shown, and decided by itself.

    @admin.action(description=_("Agree to the selected changes…"))
    def approve_several(self, request: HttpRequest, queryset: QuerySet[Change]) -> HttpResponse | None:
        return self._several(request, queryset, "approve_several", ("apply", "approve"))

    @admin.action(description=_("Reject the selected changes…"))
    def reject_several(self, request: HttpRequest, queryset: QuerySet[Change]) -> HttpResponse | None:
        return self._several(request, queryset, "reject_several", ("reject",))

    def _several(
        self, request: HttpRequest, queryset: QuerySet[Change], action: str, choices: Collection[str]
    ) -> HttpResponse | None:
        """A page that shows the changes, and with its click what comes of each."""
        found = list(queryset.order_by("created_at", "pk")[:_SEVERAL])
        if "_decided" in request.POST:
            told, note = [], request.POST.get("note", "")
            for change in found:
                choice = next((one for one in deciding.offered(request, change) if one in choices), None)
                digest = request.POST.get(f"digest-{change.pk}", "")
                if choice is not None and (digest or choice == "reject"):
                    told.append(decide(request, change, choice, digest, note))
            deciding.tell(request, told)
            return None
        words = ChangeWords(request, found)
        shown = [
            {"change": one, "what": words.of(one).title, "agent": self.agent(one),
             **_whole(deciding.shown(request, one))}
            for one in found
        ]  # fmt: skip
        return self.page(
            request, "change/several", title=_("Several changes by agents"), shown=shown, action=action,
            more=max(0, queryset.count() - _SEVERAL), rejects="reject" in choices,
            may=any(one.get("waits") and (one.get("digest") or "reject" in choices) for one in shown),
        )  # fmt: skip

    # The page of a change, and the click.

    def guarded(self, view: Callable[..., HttpResponseBase]) -> Callable[..., HttpResponseBase]:
        """People who are not staff decide about the changes of their own agents on *My agent*, and are led there."""
        found = super().guarded(view)

        @wraps(found)
        def view_or_own_page(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
            # Staff of whom the AdminSite asks more, such as a code, are led to its login.
            may_enter = self.admin_site.has_permission(request) or AdminSite.has_permission(self.admin_site, request)
            if may_enter or not request.user.is_authenticated or request.method != "GET":
                return found(request, *args, **kwargs)
            own = own_page_path(None, key_in_url(kwargs.get("object_id", "")))
            return found(request, *args, **kwargs) if own is None else HttpResponseRedirect(own)

        return view_or_own_page

    def get_urls(self) -> list[URLPattern]:
        # They work in another thread, so the request must hold no lock.
        return [
            self.page_path("<path:object_id>/decide/", self.decide_view, "decide", atomic=False),
            self.page_path("<path:object_id>/reject-all/", self.reject_all_view, "reject_all", atomic=False),
            self.page_path("<path:object_id>/undo/", self.undo_view, "undo", atomic=False),
            self.page_path("<path:object_id>/change/", self.change_view, "change", atomic=False),
            self.page_path("", self.changelist_view, "changelist", atomic=False),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        change = self.get_object(request, key_in_url(object_id))
        shown = {} if change is None else self._shown(request, change, page_in(request))
        return super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})})

    def _shown(self, request: HttpRequest, change: Change, page: int) -> dict[str, Any]:
        """What the page of a change says beside its fields."""
        words = ChangeWords(request, [change])
        shown = {"title": _("Change by an agent"), "subtitle": words.of(change).title}
        shown |= deciding.shown(request, change, page)
        shown["can_undo"], shown["is_open"] = undoing.can_be_undone(change), outcomes.waits(change)
        if shown.get("waits"):
            shown |= {"votes": _marked(change, shown), "left": time_left(change)}
            shown["rules"] = printable(", ".join(change.needs.get("rules", ())))
            shown |= {"alike": len(waiting.of_agent(request, change)) - 1}
        elif not outcomes.waits(change):
            rows = words.rows_of(change)
            if len(rows) > (_LINKED_KEYS if "effect" in shown else 0):
                shown["records"] = parts_of(rows, page)
        return shown

    def undo_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """What undoing a change would do, and with a click it is undone: in the name of the person."""
        from mcp_django.server.waiting_changes import CannotApply

        change = self.get_object(request, key_in_url(object_id))
        if change is None or not self.has_view_permission(request, change) or not undoing.can_be_undone(change):
            raise Http404
        # Of somebody else's agent, only those who see all changes see what else it did.
        may_see_all = is_own(request, change) or super().has_view_permission(request)
        since = "since" in request.GET and may_see_all
        about: dict[str, Any] = {
            "title": _("Undo a change"),
            "about": ChangeWords(request, [change]).of(change).title,
            "object": change,
            "since": since,
            "offers_all": may_see_all,
        }
        try:
            found = undoing.begun(request, change, since=since)
        except CannotApply as error:
            return self.page(request, "change/undo", problem=str(error), **about)
        if request.method != "POST":
            shown = undoing.context(found, page_in(request))
            return self.page(request, "change/undo", **about, **shown)
        deciding.tell(request, [undoing.make(found, request.POST.get("digest", ""))])
        # One that waits for others is found by its page alone.
        waits = Change.objects.filter(pk=found.change.pk, state=Change.State.WAITING).exists()
        return HttpResponseRedirect(self.page_url("change", found.change.pk if waits else change.pk))

    def get_fieldsets(self, request: HttpRequest, obj: Change | None = None) -> Any:
        is_others = obj is not None and not is_own(request, obj)
        left_out = {"said"} if is_others and not getattr(obj, "note_shown", "") else set()
        if is_others and not super().has_view_permission(request):
            # It may name what is hidden from this person. While the change waits, it stands beside all of it.
            left_out.add("why")
        # While it waits, who has agreed stands beside how many must agree.
        if obj is None or outcomes.waits(obj) or approvals.level_of(obj) is not Level.APPROVE:
            left_out.add("decided_by")
        return [
            (title, {"fields": [name for name in options["fields"] if name not in left_out]})
            for title, options in self.fieldsets
        ]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Change | None:
        change = super().get_object(request, object_id, from_field)
        if change is not None:
            # Only here are both the change and its viewer known.
            change.linked = self._linked(request, change)
            # What others have said, and why it failed, may name what is hidden from this person.
            mine = change.decisions.filter(user=request.user.pk).values_list("comment", flat=True)
            change.note_shown = change.note if is_own(request, change) else mine.first() or ""
        return change

    def _linked(self, request: HttpRequest, change: Change) -> str:
        """The records of a change, with links to those that the viewer may see, and their names for whoever may."""
        if not change.model:
            return ""
        keys = keys_shown(request, change)
        try:
            # In another tenant the keys name other records.
            model = apps.get_model(change.model) if deciding.is_in_its_tenant(request, change) else None
        except LookupError:
            model = None
        if model is None:
            return printable(", ".join(keys))
        names = _names_in(change) if is_own(request, change) else {}
        linked = [(self._record(request, model, key, names.get(key, "")),) for key in keys[:_LINKED_KEYS]]
        more = [("…",)] if len(keys) > _LINKED_KEYS else []
        return format_html_join(", ", "{}", [*linked, *more])

    def _record(self, request: HttpRequest, model: Any, key: str, name: str) -> str:
        """A record by its key, and for a person who may open it, as the admin calls it."""
        row = None if key == LEFT_OUT else visible_row(self.admin_site, request, model, key)
        if row is None:
            return printable(f"{key} ({name})" if name else key)
        return row_link(self.admin_site, row, printable(f"{key} ({row})"))

    def decide_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Make the change or reject it, as its user or another person clicked who may approve it."""
        if request.method != "POST":
            return HttpResponseNotAllowed(["POST"])
        change = self.get_object(request, key_in_url(object_id))
        if change is None:
            raise Http404
        offered = deciding.offered(request, change)
        if not offered:
            raise PermissionDenied
        decision = next((one for one in offered if f"_{one}" in request.POST), None)
        if decision is None:
            return HttpResponseBadRequest(gettext("Make the change, or reject it."))
        told = decide(request, change, decision, request.POST.get("digest", ""), request.POST.get("note", ""))
        deciding.tell(request, [told])
        return HttpResponseRedirect(self.page_url("change", change.pk))

    def reject_all_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Reject what waits of the agent of a change, as far as this person may reject it. Asks once."""
        change = self.get_object(request, key_in_url(object_id))
        if change is None:
            raise Http404
        found = waiting.of_agent(request, change)
        if request.method != "POST":
            words = ChangeWords(request, found)
            return self.page(
                request, "change/reject_all", title=_("Reject all changes of an agent"), change=change,
                about=self.agent(change), agent=self.agent(change), shown=[(one, words.of(one).text) for one in found],
            )  # fmt: skip
        # What the agent has proposed since the page was opened was not seen.
        seen = request.POST.getlist("change")
        deciding.tell(
            request,
            [decide(request, one, "reject", "", request.POST.get("note", "")) for one in found if one.pk in seen],
        )
        return HttpResponseRedirect(self.page_url("changelist"))


def _marked(change: Change, shown: dict[str, Any]) -> list[Any]:
    """The votes for a change. Those for what is no more do not count, as far as the page knows what is now."""
    votes: list[Any] = list(approvals.votes_by_change([change])[change.pk])
    for vote in votes:
        vote.is_old = bool(shown.get("digest")) and "may_approve" in shown and vote.digest != shown["digest"]
    return votes


def _names_in(change: Change) -> dict[str, str]:
    """What the records were called when the change was proposed."""
    return {line.key: line.name for line in summaries.read(change.summary) if line.model == change.model}


def _agent_of(change: Change) -> tuple[str, ...]:
    return change.site, change.principal_key, change.line


def _whole(shown: dict[str, Any]) -> dict[str, Any]:
    """What a page of several shows of a change: one of more rows than a page names is decided on its own page."""
    if shown.get("waits") and len(shown["effect"]["pages"] if shown.get("effect") else ()) > 1:
        more = {"is_long": True, "count": shown["effect"]["count"], "most": ROWS_OF_PAGE}
        return {**shown, "effect": None, "digest": "", **more}
    return shown


def _waits_for(change: Any) -> Any:
    if approvals.level_of(change) is Level.APPROVE:
        votes = getattr(change, "votes", None)
        return gettext("waits: %(progress)s") % {"progress": approvals.progress(change, votes)}
    return _("waits for you") if getattr(change, "is_own", False) else _("waits for its user")
