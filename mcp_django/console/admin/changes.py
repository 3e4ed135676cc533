"""*Changes by agents* in the admin: those that wait for the click of their user, and all that agents wrote."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.apps import apps
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db.models import BooleanField, ExpressionWrapper, Q, QuerySet
from django.http import (
    Http404,
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseNotAllowed,
    HttpResponseRedirect,
)
from django.urls import URLPattern
from django.utils.html import format_html_join
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.audit.lines import safe_key
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.uris import LEFT_OUT
from mcp_django.bridge.sites import MCPSite, all_sites, site
from mcp_django.bridge.writes import approvals, change_rows, effects, outcomes, summaries
from mcp_django.bridge.writes.approvals import NotApproved
from mcp_django.bridge.writes.change_rows import NotWaiting
from mcp_django.bridge.writes.row_names import NOTHING
from mcp_django.bridge.writes.run import StaleView
from mcp_django.bridge.writes.summaries import exact
from mcp_django.console.admin.base import FilteredAdmin
from mcp_django.console.admin.links import row_link, visible_row
from mcp_django.core.compat.admin import key_in_url
from mcp_django.exchange.requests import from_view
from mcp_django.models import Change, Decision
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import client_name, printable
from mcp_django.types import JSON

#: Keys that a line of the list names.
_NAMED_KEYS = 3
#: Records that the page of a change leads to.
_LINKED_KEYS = 10
_MAX_NOTE = 500
#: What the user of the agent may decide alone.
_OF_USER = ("_apply", "_reject")
_STALE = _("The records have changed since you opened this page. Look at the change again.")


class ChangeAdmin(FilteredAdmin):
    """Whoever may view changes sees those of all users. Everybody sees those of their own agents, and decides them.

    What a change holds, and why it was not made, is shown to its own user, and to people who may approve it, as far as
    they may read it themselves. As in the activity, others see those keys of its records that are integers or UUIDs: a
    text may say whose a row is.
    """

    list_display = ["created_at", "what", "state_now", "by_user", "agent", "why"]
    list_filter = ["state", "operation", "created_at", "model", "user_name", "client_name"]
    search_fields = ["=key", "user_name", "reason"]
    search_help_text = _("The number of a change, as the history of a record names it, a user or a reason.")
    ordering = ["-created_at", "-pk"]
    actions = None
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER
    change_form_template = "admin/mcp_django/change/change_form.html"
    fieldsets = [
        (None, {"fields": ["key", "state_now", "operation", "model", "records", "why", "said"]}),
        (_("Agent"), {"fields": ["by_user", "token", "client"]}),
        (_("Times"), {"fields": ["created_at", "decided_at"]}),
    ]
    readonly_fields = ["state_now", "records", "why", "said", "by_user", "token", "client"]

    # Permissions.

    def has_module_permission(self, request: HttpRequest) -> bool:
        # The index does not show it to people whose agents have written nothing.
        may_see = super().has_view_permission(request) or request.user.has_perm(approvals.PERMISSION)
        return may_see or Change.objects.filter(user=request.user.pk).exists()

    def has_view_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        may_see = obj is None or _is_own(request, obj) or _may_approve(request, obj)
        return may_see or super().has_view_permission(request)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Change | None = None) -> bool:
        return False

    def get_queryset(self, request: HttpRequest) -> QuerySet[Change]:
        # A column of the list does not know its viewer.
        own = ExpressionWrapper(Q(user=request.user.pk, user__isnull=False), output_field=BooleanField())
        queryset: QuerySet[Change] = super().get_queryset(request).annotate(is_own=own)
        if super().has_view_permission(request):
            return queryset
        seen = Q(user=request.user.pk)
        if request.user.has_perm(approvals.PERMISSION):
            seen |= Q(needs__level=Level.APPROVE.name.lower())
        return queryset.filter(seen)

    # The list.

    @admin.display(description=_("what"))
    def what(self, change: Change) -> str:
        keys = _keys_shown(change)
        named = printable(", ".join(keys[:_NAMED_KEYS]))
        if more := len(keys) - _NAMED_KEYS if len(keys) > _NAMED_KEYS else 0:
            named += " " + ngettext("and %(number)d more", "and %(number)d more", more) % {"number": more}
        return f"{change.get_operation_display()} {change.model} {named}".rstrip()

    @admin.display(description=_("state"), ordering="state")
    def state_now(self, change: Change) -> str:
        if outcomes.waits(change):
            return str(_waits_for(change))
        if change.state == Change.State.WRITING and change_rows.lease_is_over(change):
            return gettext("its end is not known")
        return str(Change.State(change_rows.state_of(change)).label)

    @admin.display(description=_("user"), ordering="user_name")
    def by_user(self, change: Change) -> str:
        return printable(change.user_name)

    @admin.display(description=_("agent"))
    def agent(self, change: Change) -> str:
        # An OAuth client chooses what its tokens are named, and a user the names of theirs.
        return printable(change.client_name or client_name(change.token_name))

    @admin.display(description=_("reason"))
    def why(self, change: Change) -> str:
        return printable(change.reason) or "-"

    @admin.display(description=_("note"))
    def said(self, change: Change) -> str:
        return printable(change.note) or "-"

    @admin.display(description=_("token"))
    def token(self, change: Change) -> str:
        return printable(change.token_name) or "-"

    @admin.display(description=_("client, as it calls itself"))
    def client(self, change: Change) -> str:
        return printable(change.client_name) or "-"

    @admin.display(description=_("records"))
    def records(self, change: Any) -> str:
        linked: str = change.linked
        return linked or "-"

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        return super().changelist_view(request, {"title": _("Changes by agents"), **(extra_context or {})})

    # The page of a change, and the click.

    def get_urls(self) -> list[URLPattern]:
        # They work in another thread, so the request must hold no lock.
        return [
            self.page_path("<path:object_id>/decide/", self.decide_view, "decide", atomic=False),
            self.page_path("<path:object_id>/change/", self.change_view, "change", atomic=False),
            *super().get_urls(),
        ]

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        change = self.get_object(request, key_in_url(object_id))
        shown = {} if change is None else _shown(request, change)
        return super().change_view(request, object_id, form_url, {**shown, **(extra_context or {})})

    def get_fieldsets(self, request: HttpRequest, obj: Change | None = None) -> Any:
        if obj is None or _is_own(request, obj):
            return self.fieldsets
        return [
            (title, {"fields": [name for name in options["fields"] if name != "said"]})
            for title, options in self.fieldsets
        ]

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Change | None:
        change = super().get_object(request, object_id, from_field)
        if change is not None:
            # Only here are both the change and its viewer known.
            change.linked = self._linked(request, change)
        return change

    def _linked(self, request: HttpRequest, change: Change) -> str:
        """The records of a change, with links to those that the viewer may see, and their names for whoever may."""
        keys = _keys_shown(change)
        try:
            model = apps.get_model(change.model)
        except LookupError:
            return printable(", ".join(keys))
        names = _names_in(change) if _is_own(request, change) else {}
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
        is_own, needs_others = _is_own(request, change), approvals.level_of(change) is Level.APPROVE
        if not is_own and not _may_approve(request, change):
            raise PermissionDenied
        decision = next((one for one in ("_apply", "_approve", "_reject") if one in request.POST), "")
        if decision not in (("_approve", "_reject") if not is_own else ("_reject",) if needs_others else _OF_USER):
            return HttpResponseBadRequest("Make the change, or reject it.")
        digest, note = request.POST.get("digest", ""), request.POST.get("note", "")[:_MAX_NOTE]
        if decision == "_apply":
            self._apply(request, change, digest)
        elif is_own:
            self._reject(request, change, note or gettext("Its user rejected it."), is_withdrawn=needs_others)
        else:
            self._vote(request, change, digest, note, approves=decision == "_approve")
        return HttpResponseRedirect(self.page_url("change", change.pk))

    def _reject(self, request: HttpRequest, change: Change, note: str, *, is_withdrawn: bool = False) -> None:
        if outcomes.waits(change) and change_rows.reject(change, note, is_withdrawn=is_withdrawn):
            messages.success(request, gettext("The change was rejected. Nothing was changed."))
        else:
            messages.warning(request, gettext("This change does not wait any more."))

    def _vote(self, request: HttpRequest, change: Change, digest: str, note: str, *, approves: bool) -> None:
        """Record the vote of a person who may approve the change, and make it once there are enough."""
        looked = _look(request, change)
        if looked is None:
            messages.warning(request, gettext("This change does not wait any more."))
        elif looked.why_not or (approves and looked.problem):
            messages.error(request, looked.why_not or looked.problem)
        elif approves and looked.digest != digest:
            messages.warning(request, _STALE)
        else:
            verdict = Decision.Verdict.APPROVE if approves else Decision.Verdict.REJECT
            try:
                approvals.vote(change, request.user, verdict, looked.digest, note)
            except NotWaiting:
                messages.warning(request, gettext("This change does not wait any more."))
                return
            if not approves:
                self._reject(request, change, note or gettext("%(user)s rejected it.") % {"user": request.user})
            elif approvals.has_enough(change, digest):
                self._make(request, change, digest)
            else:
                said = gettext("Your approval was recorded. %(progress)s.") % {"progress": approvals.progress(change)}
                messages.success(request, said)

    def _apply(self, request: HttpRequest, change: Change, digest: str) -> None:
        if len(_site_of(change).persons_of(request)) > 1:
            said = gettext("You act as another user, who must agree. Log in as yourself to agree to your own changes.")
            messages.error(request, said)
            return
        self._make(request, change, digest)

    def _make(self, request: HttpRequest, change: Change, digest: str) -> None:
        from mcp_django.server import waiting_changes

        try:
            waiting_changes.apply(change, digest)
        except StaleView:
            messages.warning(request, _STALE)
        except NotApproved:
            messages.warning(request, gettext("Other people must approve this. Not enough of them have."))
        except NotWaiting:
            messages.warning(request, gettext("This change does not wait any more."))
        except waiting_changes.CannotApply as error:
            messages.error(request, str(error))
        else:
            messages.success(request, gettext("The change was made."))


def _is_own(request: HttpRequest, change: Change) -> bool:
    return change.user_id is not None and change.user_id == request.user.pk


def _names_in(change: Change) -> dict[str, str]:
    """What the records were called when the change was proposed."""
    return {line.key: line.name for line in summaries.read(change.summary) if line.model == change.model}


def _site_of(change: Change) -> MCPSite:
    return next((one for one in all_sites() if one.name == change.site), site)


def _keys_shown(change: Any) -> list[str]:
    """The keys of its records, with LEFT_OUT for each that is another user's and may not be shown."""
    keys = change_rows.keys_of(change)
    return keys if change.is_own else [safe_key(key) or LEFT_OUT for key in keys]


def _may_approve(request: HttpRequest, change: Change) -> bool:
    """Whether the viewer is among the people who are asked for their approval of such changes at all."""
    return approvals.level_of(change) is Level.APPROVE and request.user.has_perm(approvals.PERMISSION)


def _waits_for(change: Change) -> Any:
    if approvals.level_of(change) is Level.APPROVE:
        return gettext("waits: %(progress)s") % {"progress": approvals.progress(change)}
    return _("waits for its user")


def _shown(request: HttpRequest, change: Change) -> JSON:
    """What the page shows to its viewer: what the change would do now, or what it has done."""
    from mcp_django.server import waiting_changes

    if not _is_own(request, change):
        looked = _look(request, change) if _may_approve(request, change) else None
        return {} if looked is None else looked.context(change)
    if change.state == Change.State.APPLIED:
        return {"effect": _effect(from_json(change.result))} if change.result else {}
    if not outcomes.waits(change):
        return {}
    needs_others = approvals.level_of(change) is Level.APPROVE
    progress = approvals.progress(change) if needs_others else ""
    more = {"waits": True, "progress": progress, "withdraws": needs_others}
    try:
        shown = waiting_changes.shown(change)
    except NotWaiting:
        return {}
    except waiting_changes.CannotApply as error:
        return {"problem": str(error), **more}
    return {"effect": _effect(shown.preview), "digest": shown.digest, "may_apply": not needs_others, **more}


@dataclass(frozen=True)
class _Looked:
    """A change that waits, as somebody sees it who may approve it."""

    digest: str = ""
    lines: Sequence[summaries.Line] = ()
    #: Why it cannot be approved by anybody as it is, or by whoever does not see all of it.
    problem: str = ""
    #: Why this person may not decide.
    why_not: str = ""

    def context(self, change: Change) -> JSON:
        may_approve = bool(self.digest) and not self.problem and not self.why_not
        return {
            "effect": _effect_of(self.lines), "digest": self.digest if may_approve else "", "may_approve": may_approve,
            "waits": not self.why_not, "problem": self.why_not or self.problem, "progress": approvals.progress(change),
        }  # fmt: skip


def _look(request: HttpRequest, change: Change) -> _Looked | None:
    """What somebody who may approve the change is shown of it; None where it does not wait."""
    from mcp_django.server import waiting_changes

    if not outcomes.waits(change):
        return None
    own_site, ours = _site_of(change), from_view(request)
    if len(own_site.persons_of(request)) > 1:
        return _Looked(why_not=gettext("You act as another user. Log in as yourself to decide about changes."))
    try:
        shown = waiting_changes.shown(change)
    except NotWaiting:
        return None
    except waiting_changes.CannotApply as error:
        return _Looked(problem=str(error))
    rights = approvals.rights_of(ours, request.user, own_site)
    with own_site.call_context(rights.request):
        why_not = approvals.why_not(ours, request.user, change, shown.needs, own_site)
        seen, hidden = effects.seen_by(rights, shown.effects)
        lines = effects.lines_of(seen)
    problem = ngettext(
        "%(count)d value is hidden from you, so you cannot approve the change.",
        "%(count)d values are hidden from you, so you cannot approve the change.", hidden,
    ) % {"count": hidden}  # fmt: skip
    return _Looked(shown.digest, lines, problem if hidden else "", why_not)


def _effect_of(lines: Iterable[summaries.Line]) -> JSON:
    """What a change does, in words, as the parts that a template shows."""
    found: JSON = {"diffs": [], "rows": [], "notes": [], "deleted": [], "unlinked": []}
    for (change, *_place), group in groupby(lines, key=lambda one: (one.change, one.model, one.key, one.row)):
        of_row = list(group)
        first = of_row[0]
        if first.count:
            found[change] += [(one.model, one.count) for one in of_row]
            continue
        values = [{"field": one.column, "before": exact(one.before), "after": exact(one.after)} for one in of_row]
        diff = [one for one in values if one["field"]]
        title = exact(" ".join(filter(None, [first.change, first.model, first.key, first.name])))
        if diff:
            found["diffs"].append({"title": title, "diff": diff})
        else:
            found["rows" if change == "delete" else "diffs"].append(title if change == "delete" else {"title": title})
    return found


def _effect(result: JSON) -> JSON:
    """The parts of an answer to an agent that a template shows."""
    rows = sorted(result.get("rows", ()), key=lambda row: row["change"] != "delete")
    parts = [
        {
            "title": " ".join(filter(None, [row["change"], row["inline"], row.get("pk"), row.get("name")])),
            "diff": row.get("diff", ()),
        }
        for row in rows
    ]
    deletes = [one for one in parts if not one["diff"]]
    diffs = [*deletes, {"title": "", "diff": result.get("diff", ())}, *(one for one in parts if one["diff"])]
    return {
        "diffs": [
            {
                "title": exact(one["title"]),
                "diff": [{name: _text(value) for name, value in each.items()} for each in one["diff"]],
            }
            for one in diffs
            if one["diff"] or one["title"]
        ],
        "rows": [exact(", ".join(filter(None, row))) for row in result.get("deleted_rows", ())],
        "notes": [printable(note) for note in result.get("notes", ())],
        "deleted": list(result.get("deleted", {}).items()),
        "unlinked": list(result.get("unlinked", {}).items()),
    }


def _text(value: Any) -> str:
    """A value of a diff, each character of which shows as what it is."""
    if value is None:
        return NOTHING
    return exact(value if isinstance(value, str) else encode(value).decode())
