"""Which changes wait for a person, and which of them are alike."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.declared.consent import Level
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes import access
from mcp_django.console.changes import deciding
from mcp_django.console.changes.change_words import ChangeWords
from mcp_django.exchange.requests import from_view
from mcp_django.models import Change

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import Operation

#: Changes that wait for one person, as far as they are counted.
MOST_COUNTED = 100
NEEDS_OTHERS = Q(needs__level=Level.APPROVE.name.lower())


def waiting_for(request: HttpRequest) -> list[Change]:
    """The changes that wait for this person, the oldest first.

    Of those of others, the ones that this person may make in general, and has not approved as they are shown now.
    Whether each may be approved is asked on its page.
    """
    kept: list[Change] | None = getattr(request, "_mcp_waiting", None)
    if kept is not None:
        return kept
    user = request.user
    mine = Q(user=user.pk)
    if user.has_perm(approvals.PERMISSION):
        mine |= NEEDS_OTHERS & deciding.in_tenant(request)
    found = _waiting().filter(mine).order_by("created_at", "pk")[:MOST_COUNTED]
    waiting = [one for one in found if _waits_for(user, one)]
    if any(map(_is_others, waiting)):
        is_for = _Deciding(request, waiting).is_for
        waiting = [one for one in waiting if not _is_others(one) or is_for(one)]
    # The list of apps and the page itself both say how many.
    request._mcp_waiting = waiting  # type: ignore[attr-defined]
    return waiting


def own_waiting(request: HttpRequest) -> list[Change]:
    """The changes of this person's agents that wait, for the person or for others, the oldest first."""
    # Their summaries are put into words.
    found = _waiting().filter(user=request.user.pk).defer(None).defer("arguments", "origin", "result")
    return list(found.order_by("created_at", "pk")[:MOST_COUNTED])


def _waiting() -> QuerySet[Change]:
    waiting = Change.objects.filter(change_rows.is_waiting())
    # Each page of the admin counts them.
    return waiting.defer("arguments", "origin", "result", "summary")


def _is_others(change: Change) -> bool:
    """Whether other people than its user decide about it."""
    return approvals.level_of(change) is Level.APPROVE


def _waits_for(user: Any, change: Change) -> bool:
    if not _is_others(change):
        return bool(change.user_id == user.pk)
    return change.user_id != user.pk and str(user.pk) not in change.persons.get("keys", ())


class _Deciding:
    """What one person may do in general, whatever the records of a change are."""

    def __init__(self, request: HttpRequest, changes: Sequence[Change]) -> None:
        self._request = request
        self._votes = approvals.votes_by_change(changes)
        self._rights: dict[str, Rights] = {}
        self._named: dict[tuple[str, ...], bool] = {}
        self._may_write: dict[tuple[str, str, str], bool] = {}

    def is_for(self, change: Change) -> bool:
        """Whether a change of somebody else's agent waits for the person."""
        votes = self._votes[change.pk]
        mine = [one.digest for one in votes if one.user_id == self._request.user.pk]
        # Another digest than that of the last vote was for other records.
        has_voted = bool(mine) and mine[-1] == votes[-1].digest
        return not has_voted and self._is_named(change) and self._may_make(change)

    def _is_named(self, change: Change) -> bool:
        by = tuple(change.needs.get("by", ()))
        if by not in self._named:
            self._named[by] = approvals.is_named(self._request.user, change)
        return self._named[by]

    def _may_make(self, change: Change) -> bool:
        key = change.site, change.model, change.operation
        if not (change.model and change.operation):
            return True
        if key not in self._may_write:
            if change.site not in self._rights:
                site = deciding.site_of(change)
                self._rights[change.site] = approvals.rights_of(from_view(self._request), self._request.user, site)
            model, operation = self._rights[change.site].of_label(change.model), cast("Operation", change.operation)
            self._may_write[key] = model is not None and access.may_write(model, operation)
        return self._may_write[key]


def number_elsewhere(request: HttpRequest) -> int:
    """How many changes wait for approval at hosts of which nobody knows whether they are other tenants."""
    if not request.user.has_perm(approvals.PERMISSION):
        return 0
    found = _waiting().filter(NEEDS_OTHERS, deciding.UNKNOWN).exclude(deciding.in_tenant(request))
    return found.exclude(user=request.user.pk).count()


def of_agent(request: HttpRequest, change: Change) -> list[Change]:
    """The changes of the same agent that wait, and which this person may reject: as many as may wait of one agent."""
    found = _waiting().filter(site=change.site, principal_key=change.principal_key, line=change.line)
    if not deciding.is_own(request, change):
        found = found.filter(deciding.in_tenant(request))
    return [
        one
        for one in found.order_by("created_at", "pk")
        if "reject" in deciding.offered(request, one)
        and (deciding.is_own(request, one) or _waits_for(request.user, one))
    ]


# Alike ones.


def groups(request: HttpRequest) -> dict[str, list[Change]]:
    """The changes that wait for this person, by the number of the first of those that are alike."""
    kept: dict[str, list[Change]] | None = getattr(request, "_mcp_groups", None)
    if kept is None:
        waiting = waiting_for(request)
        kept = _grouped(waiting, ChangeWords(request, waiting))
        request._mcp_groups = kept  # type: ignore[attr-defined]
    return kept


def _grouped(changes: Iterable[Change], words: ChangeWords) -> dict[str, list[Change]]:
    first: dict[Hashable, str] = {}
    found: dict[str, list[Change]] = {}
    for change in changes:
        alike = words.of(change).alike
        leader = change.pk if alike is None else first.setdefault(alike, change.pk)
        found.setdefault(leader, []).append(change)
    return found
