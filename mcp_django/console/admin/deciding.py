"""What a person is shown of a change that waits, what that person may decide, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.access.trail import acting
from mcp_django.bridge.changes import approvals, outcomes, summaries
from mcp_django.bridge.changes.approvals import NotApproved
from mcp_django.bridge.changes.change_rows import NotWaiting
from mcp_django.bridge.changes.row_names import NOTHING
from mcp_django.bridge.changes.run import StaleView
from mcp_django.bridge.changes.summaries import exact
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.sites import MCPSite, all_sites, site
from mcp_django.core.hooks import call_hook
from mcp_django.exchange.requests import from_view
from mcp_django.models import Change, Decision
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable
from mcp_django.types import JSON

if TYPE_CHECKING:
    from mcp_django.server import waiting_changes

#: To make one's own change, to approve that of another user's agent, or to reject either.
Choice = Literal["apply", "approve", "reject"]

_MAX_NOTE = 500
#: Changes that wait for one person, as far as they are counted.
_MOST_COUNTED = 100
NEEDS_OTHERS = Q(needs__level=Level.APPROVE.name.lower())
_STALE = _("The records have changed since you opened this page. Look at the change again.")
_REJECTED = _("The change was rejected. Nothing was changed.")
_ELSEWHERE = _("Open this page at the host at which the agent works.")
_OVER = _("This change does not wait any more.")


def is_own(request: HttpRequest, change: Change) -> bool:
    return change.user_id is not None and change.user_id == request.user.pk


def may_approve(request: HttpRequest, change: Change) -> bool:
    """Whether the viewer is among the people who are asked for their approval of such changes at all."""
    return approvals.level_of(change) is Level.APPROVE and request.user.has_perm(approvals.PERMISSION)


def offered(request: HttpRequest, change: Change) -> Sequence[Choice]:
    """What the person may decide about a change at all."""
    if is_own(request, change):
        return ("reject",) if approvals.level_of(change) is Level.APPROVE else ("apply", "reject")
    return ("approve", "reject") if may_approve(request, change) else ()


def _site_of(change: Change) -> MCPSite:
    return next((one for one in all_sites() if one.name == change.site), site)


# What is shown.


def shown(request: HttpRequest, change: Change) -> JSON:
    """What the page shows to its viewer: what the change would do now, or what it has done."""
    from mcp_django.server import waiting_changes

    if not is_own(request, change):
        looked = _look(request, change) if may_approve(request, change) else None
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
    return {"effect": _effect_of(shown.lines), "digest": shown.digest, "may_apply": not needs_others, **more}


@dataclass(frozen=True)
class _Looked:
    """A change that waits, as somebody sees it who may approve it."""

    digest: str = ""
    lines: Sequence[summaries.Line] = ()
    #: Why it cannot be approved by whoever does not see all of it.
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
    own_site = _site_of(change)
    if len(own_site.persons_of(request)) > 1:
        return _Looked(why_not=gettext("You act as another user. Log in as yourself to decide about changes."))
    key = _remember_key(own_site, request)
    if key is None and not _is_at_host(request, change):
        # Something may choose a tenant by the host.
        return _Looked(why_not=str(_ELSEWHERE))
    try:
        shown = waiting_changes.shown(change, request.user)
    except NotWaiting:
        return None
    except waiting_changes.CannotApply as error:
        # Who may decide is not known then either. Its user may withdraw it.
        return _Looked(why_not=_why(error))
    if shown.seen is None:
        return None
    if key != shown.remember_key:
        return _Looked(why_not=str(_ELSEWHERE))
    hidden = shown.seen.hidden
    problem = ngettext(
        "%(count)d value is hidden from you, so you cannot approve the change.",
        "%(count)d values are hidden from you, so you cannot approve the change.", hidden,
    ) % {"count": hidden}  # fmt: skip
    return _Looked(shown.digest, shown.seen.lines, problem if hidden else "", shown.seen.why_not)


def _remember_key(own_site: MCPSite, request: HttpRequest) -> Hashable | None:
    """What a person's permissions depend on beside the user, such as the tenant at which the page is open."""
    ours = from_view(request)

    def ask() -> Hashable | None:
        with own_site.in_context(ours):
            return own_site.remember_key(ours)

    return call_hook(ask, None, "remember_key")


def _is_at_host(request: HttpRequest, change: Change) -> bool:
    """Whether a person's request came to the same host as the agent's."""
    meta = from_json(change.origin)["meta"]
    return all(request.META.get(name) == meta.get(name) for name in ("HTTP_HOST", "HTTP_X_FORWARDED_HOST"))


def _effect_of(lines: Iterable[summaries.Line]) -> JSON:
    """What a change does, in words, as the parts that a template shows. Rows that change alike stand together."""
    found: JSON = {"diffs": [], "rows": [], "on": [], "notes": [], "deleted": [], "unlinked": []}
    alike: dict[Any, list[summaries.Line]] = {}
    for (change, *_rest), group in groupby(lines, key=summaries.place_of):
        of_row = list(group)
        if of_row[0].count:
            found[change] += [(one.model, one.count) for one in of_row]
        elif change in ("delete", "on"):
            found["rows" if change == "delete" else "on"].append(summaries.who(of_row[0]))
        else:
            diff = tuple((one.column, exact(one.before), exact(one.after)) for one in of_row if one.column)
            alike.setdefault((change, of_row[0].model, diff), []).append(of_row[0])
    for (_change, _model, diff), rows in alike.items():
        values = [{"field": column, "before": before, "after": after} for column, before, after in diff]
        several = [summaries.who(row) for row in rows] if len(rows) > 1 and rows[0].key else []
        found["diffs"].append({"title": summaries.title_of(rows[0], len(rows)), "diff": values, "rows": several})
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


# What comes of it.


def decide(request: HttpRequest, change: Change, choice: Choice, digest: str, note: str) -> None:
    """Do what the person has chosen, one of what is ``offered``, and say what came of it in a message."""
    note = note[:_MAX_NOTE]
    if choice == "apply":
        _apply(request, change, digest)
    elif is_own(request, change):
        _give_up(request, change, note or gettext("Its user rejected it."))
    else:
        _vote(request, change, digest, note, approves=choice == "approve")


def _give_up(request: HttpRequest, change: Change, note: str) -> None:
    with acting(request):
        is_given_up = outcomes.waits(change) and approvals.give_up(change, note)
    if is_given_up:
        messages.success(request, _REJECTED)
    else:
        messages.warning(request, _OVER)


def _vote(request: HttpRequest, change: Change, digest: str, note: str, *, approves: bool) -> None:
    """Record the vote of a person who may approve the change, and make it once there are enough."""
    looked = _look(request, change)
    if looked is None:
        messages.warning(request, _OVER)
    elif looked.why_not or (approves and looked.problem):
        messages.error(request, looked.why_not or looked.problem)
    elif approves and looked.digest != digest:
        messages.warning(request, _STALE)
    else:
        verdict = Decision.Verdict.APPROVE if approves else Decision.Verdict.REJECT
        if not approves:
            note = note or gettext("%(user)s rejected it.") % {"user": request.user}
        try:
            with acting(request):
                approvals.vote(change, request.user, verdict, looked.digest, note)
        except NotWaiting:
            messages.warning(request, _OVER)
            return
        if not approves:
            messages.success(request, _REJECTED)
        elif approvals.has_enough(change, digest):
            _make(request, change, digest)
        else:
            said = gettext("Your approval was recorded. %(progress)s.") % {"progress": approvals.progress(change)}
            messages.success(request, said)


def _apply(request: HttpRequest, change: Change, digest: str) -> None:
    if len(_site_of(change).persons_of(request)) > 1:
        said = gettext("You act as another user, who must agree. Log in as yourself to agree to your own changes.")
        messages.error(request, said)
        return
    _make(request, change, digest)


def _make(request: HttpRequest, change: Change, digest: str) -> None:
    from mcp_django.server import waiting_changes

    try:
        waiting_changes.apply(change, digest)
    except StaleView:
        messages.warning(request, _STALE)
    except NotApproved:
        messages.warning(request, gettext("Other people must approve this. Not enough of them have."))
    except NotWaiting:
        messages.warning(request, _OVER)
    except waiting_changes.CannotApply as error:
        messages.error(request, str(error) if is_own(request, change) else _why(error))
    else:
        messages.success(request, gettext("The change was made."))


def _why(error: waiting_changes.CannotApply) -> str:
    """Why a change cannot be made, for somebody else than its user."""
    if error.may_tell_values:
        return gettext("The change cannot be made as the records are now. Its user's page says why.")
    return str(error)


# Several, and how many there are.


def waiting_for(request: HttpRequest) -> list[Change]:
    """The changes that wait for this person, the oldest first. Whether each may be approved is asked on its page."""
    kept: list[Change] | None = getattr(request, "_mcp_waiting", None)
    if kept is not None:
        return kept
    user = request.user
    known = Change.objects.filter(state=Change.State.WAITING, expires_at__gt=timezone.now())
    others = NEEDS_OTHERS if user.has_perm(approvals.PERMISSION) else Q()
    found = known.filter(Q(user=user.pk) | others).order_by("created_at", "pk")[:_MOST_COUNTED]
    waiting = [one for one in found if _waits_for(user, one)]
    # The list of apps and the page itself both say how many.
    request._mcp_waiting = waiting  # type: ignore[attr-defined]
    return waiting


def _waits_for(user: Any, change: Change) -> bool:
    if approvals.level_of(change) is not Level.APPROVE:
        return bool(change.user_id == user.pk)
    return change.user_id != user.pk and str(user.pk) not in change.persons.get("keys", ())


def with_number(get_app_list: Callable[..., Any], request: HttpRequest, app_label: str | None = None) -> Any:
    """The list of apps of an AdminSite, where ours says how many changes wait for this person."""
    # A project may have overridden it without the label, which Django gives it for the page of one app alone.
    found = get_app_list(request) if app_label is None else get_app_list(request, app_label)
    if not request.user.is_authenticated:
        return found
    for model in (one for app in found for one in app.get("models", ()) if one.get("model") is Change):
        count = len(waiting_for(request))
        if count:
            shown = f"{count}+" if count >= _MOST_COUNTED else count
            model["name"] = f"{model['name']} ({shown})"
    return found
