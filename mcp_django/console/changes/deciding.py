"""What a person is shown of a change that waits, what that person may decide, and what comes of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Any, Literal

from django.contrib import messages
from django.db.models import Q
from django.http import HttpRequest
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _
from pydantic_core import from_json

from mcp_django.access.trail import acting
from mcp_django.bridge.changes import approvals, outcomes, summaries
from mcp_django.bridge.changes.approvals import NotApproved
from mcp_django.bridge.changes.change_rows import NotWaiting
from mcp_django.bridge.changes.run import StaleView
from mcp_django.bridge.changes.tenants import BY_HOST, tenant_of
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.sites import MCPSite, all_sites, site
from mcp_django.console.changes.effect_parts import parts_of, parts_of_answer
from mcp_django.core.hooks import call_hook
from mcp_django.exchange.requests import from_view
from mcp_django.models import Change, Decision
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.server import waiting_changes

#: To make one's own change, to approve that of another user's agent, or to reject either.
Choice = Literal["apply", "approve", "reject"]

_MAX_NOTE = 500
#: The tenant of a page that is in none.
_NOWHERE = "nowhere"


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


def site_of(change: Change) -> MCPSite:
    return next((one for one in all_sites() if one.name == change.site), site)


# What is shown.


def shown(request: HttpRequest, change: Change, page: int = 1) -> JSON:
    """What a page shows to its viewer: what the change would do now, or what it has done."""
    from mcp_django.server import waiting_changes

    if not is_own(request, change):
        looked = _look(request, change) if may_approve(request, change) else None
        return {} if looked is None else looked.context(change, page)
    if change.state == Change.State.APPLIED:
        return {"effect": parts_of_answer(from_json(change.result))} if change.result else {}
    if not outcomes.waits(change):
        return {}
    needs_others = approvals.level_of(change) is Level.APPROVE
    progress = approvals.progress(change) if needs_others else ""
    more = {"waits": True, "progress": progress, "withdraws": needs_others, "reads_all": True,
            "why": printable(change.reason)}  # fmt: skip
    try:
        shown = waiting_changes.shown(change)
    except NotWaiting:
        return {}
    except waiting_changes.CannotApply as error:
        return {"problem": str(error), **more}
    effect, closed = parts_of(shown.lines, page), str(waiting_changes.why_closed(change))
    digest = "" if closed else shown.digest
    return {"effect": effect, "digest": digest, "may_apply": not needs_others, "problem": closed, **more}


@dataclass(frozen=True)
class _Looked:
    """A change that waits, as somebody sees it who may approve it."""

    digest: str = ""
    lines: Sequence[summaries.Line] = ()
    #: Why it cannot be approved by whoever does not see all of it.
    problem: str = ""
    #: Why this person may not decide.
    why_not: str = ""
    #: Why nobody can approve it now, although each may reject it.
    closed: str = ""

    def context(self, change: Change, page: int) -> JSON:
        may_approve = bool(self.digest) and not (self.problem or self.why_not or self.closed)
        # What is hidden from this person may stand in the words of the agent and of others.
        reads_all = not self.problem and not self.why_not
        return {
            "reads_all": reads_all, "why": printable(change.reason) if reads_all else "",
            "effect": parts_of(self.lines, page) if self.lines else None,
            "digest": self.digest if may_approve else "", "may_approve": may_approve,
            "waits": not self.why_not, "problem": self.why_not or self.closed or self.problem,
            "progress": approvals.progress(change), "needed": approvals.who(change),
        }  # fmt: skip


def _look(request: HttpRequest, change: Change) -> _Looked | None:
    """What somebody who may approve the change is shown of it; None where it does not wait."""
    from mcp_django.server import waiting_changes

    if not outcomes.waits(change):
        return None
    if why := _why_unseen(request, change):
        return _Looked(why_not=why)
    try:
        shown = waiting_changes.shown(change, request.user)
    except NotWaiting:
        return None
    except waiting_changes.CannotApply as error:
        # Who may decide is not known then either. Its user may withdraw it.
        return _Looked(why_not=_why(error))
    if shown.seen is None:
        return None
    hidden = shown.seen.hidden
    problem = ngettext(
        "%(count)d value is hidden from you, so you cannot approve the change.",
        "%(count)d values are hidden from you, so you cannot approve the change.", hidden,
    ) % {"count": hidden}  # fmt: skip
    closed = str(waiting_changes.why_closed(change))
    return _Looked(shown.digest, shown.seen.lines, problem if hidden else "", shown.seen.why_not, closed)


def _why_unseen(request: HttpRequest, change: Change) -> str:
    """Why somebody who may approve such changes reads nothing of this one here; empty if nothing speaks against it."""
    if len(site_of(change).persons_of(request)) > 1:
        return gettext("You act as another user. Log in as yourself to decide about changes.")
    return "" if is_in_its_tenant(request, change) else str(_ELSEWHERE)


def may_read(request: HttpRequest, change: Change) -> bool:
    """Whether the viewer may read what the change does at all, as far as the viewer's own policy goes."""
    return is_own(request, change) or (may_approve(request, change) and not _why_unseen(request, change))


def is_in_its_tenant(request: HttpRequest, change: Change) -> bool:
    """Whether a page is open in the tenant in which the change was proposed: elsewhere keys name other rows."""
    return change.tenant == _tenant_here(request, site_of(change))


def in_tenant(request: HttpRequest) -> Q:
    """The changes of the tenant in which a page is open."""
    return reduce(or_, (Q(site=one.name, tenant=_tenant_here(request, one)) for one in all_sites()))


#: The changes of which nobody knows the tenant: they have none, or it goes by the host.
UNKNOWN = Q(tenant="") | Q(tenant__startswith=BY_HOST)


def _tenant_here(request: Any, own_site: MCPSite) -> str:
    # A list asks for each of its changes.
    known: dict[str, str] = request.__dict__.setdefault("_mcp_tenants", {})
    if own_site.name not in known:
        ours = from_view(request)

        def ask() -> str:
            # Each page of the admin asks. By itself the key needs no context of a call.
            with own_site.in_context(ours) if own_site.has_remember_key else nullcontext():
                return tenant_of(own_site, ours)

        known[own_site.name] = call_hook(ask, _NOWHERE, "call_context")
    return known[own_site.name]


# What comes of it.


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a decision, for whoever has made it."""

    level: int
    text: Any


_ELSEWHERE = _("Open this page at the host at which the agent works.")
_OVER = Outcome(messages.WARNING, _("This change does not wait any more."))
STALE = Outcome(messages.WARNING, _("The records have changed since you opened this page. Look at the change again."))
_WITHDRAWN = Outcome(messages.SUCCESS, _("The change was withdrawn. Nothing was changed."))
_REJECTED = Outcome(messages.SUCCESS, _("The change was rejected. Nothing was changed."))


def decide(request: HttpRequest, change: Change, choice: Choice, digest: str, note: str) -> Outcome:
    """Do what the person has chosen, one of what is ``offered``."""
    note = note[:_MAX_NOTE]
    if choice == "apply":
        return _apply(request, change, digest)
    if is_own(request, change):
        return _give_up(request, change, note or gettext("Its user rejected it."))
    return _vote(request, change, digest, note, approves=choice == "approve")


def tell(request: HttpRequest, of: Iterable[Outcome]) -> None:
    """Say what came of decisions: what came of several alike is said once."""
    for (level, text), count in Counter((one.level, str(one.text)) for one in of).items():
        several = ngettext("%(count)d change: %(text)s", "%(count)d changes: %(text)s", count)
        said = several % {"count": count, "text": text} if count > 1 else text
        # Outside of the admin there may be no messages, and the page of the change says what became of it.
        messages.add_message(request, level, said, fail_silently=True)


def _give_up(request: HttpRequest, change: Change, note: str) -> Outcome:
    with acting(request):
        is_given_up = outcomes.waits(change) and approvals.give_up(change, note)
    if not is_given_up:
        return _OVER
    return _WITHDRAWN if approvals.level_of(change) is Level.APPROVE else _REJECTED


def _vote(request: HttpRequest, change: Change, digest: str, note: str, *, approves: bool) -> Outcome:
    """Record the vote of a person who may approve the change, and make it once there are enough."""
    from mcp_django.server import waiting_changes

    looked = _look(request, change)
    if looked is None:
        return _OVER
    if looked.why_not or (approves and looked.problem):
        return Outcome(messages.ERROR, looked.why_not or looked.problem)
    if approves and looked.digest != digest:
        return STALE
    if approves:
        try:
            waiting_changes.check_may_be_made(change)
        except waiting_changes.CannotApply as error:
            return Outcome(messages.ERROR, _why(error))
    verdict = Decision.Verdict.APPROVE if approves else Decision.Verdict.REJECT
    if not approves:
        note = note or gettext("%(user)s rejected it.") % {"user": request.user}
    try:
        with acting(request):
            approvals.vote(change, request.user, verdict, looked.digest, note)
    except NotWaiting:
        return _OVER
    if not approves:
        return _REJECTED
    if approvals.has_enough(change, digest):
        return _make(request, change, digest)
    said = gettext("Your approval was recorded. %(progress)s.") % {"progress": approvals.progress(change)}
    return Outcome(messages.SUCCESS, said)


def _apply(request: HttpRequest, change: Change, digest: str) -> Outcome:
    if len(site_of(change).persons_of(request)) > 1:
        said = gettext("You act as another user, who must agree. Log in as yourself to agree to your own changes.")
        return Outcome(messages.ERROR, said)
    return _make(request, change, digest)


def _make(request: HttpRequest, change: Change, digest: str) -> Outcome:
    from mcp_django.server import waiting_changes

    try:
        waiting_changes.apply(change, digest)
    except StaleView:
        return STALE
    except NotApproved:
        return Outcome(messages.WARNING, gettext("Other people must approve this. Not enough of them have."))
    except NotWaiting:
        return _OVER
    except waiting_changes.CannotApply as error:
        return Outcome(messages.ERROR, str(error) if is_own(request, change) else _why(error))
    return Outcome(messages.SUCCESS, gettext("The change was made."))


def _why(error: waiting_changes.CannotApply) -> str:
    """Why a change cannot be made, for somebody else than its user."""
    if error.may_tell_values:
        return gettext("The change cannot be made as the records are now. Its user's page says why.")
    return str(error)
