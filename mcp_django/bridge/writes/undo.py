"""What agents changed, taken back: as a change of its own, through the same forms, with its own preview and consent.

Of each field that has another value by now than the change gave it, nothing is undone: somebody has changed it since.
What was created is deleted, and what was deleted is not brought back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.utils import timezone
from django.utils.dateparse import parse_datetime

from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.changes.applying import decided
from mcp_django.bridge.changes.outcomes import can_be_undone, why_not_undone
from mcp_django.bridge.changes.proposed import LINEAGE, Proposed
from mcp_django.bridge.changes.tenants import tenant_of
from mcp_django.bridge.declared.consent import GROUP, Needs
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes import kept_rows
from mcp_django.bridge.writes.inverse import Inverse
from mcp_django.exceptions import ToolError, field_error
from mcp_django.models import Change, ChangedRow

if TYPE_CHECKING:
    from mcp_django.bridge.changes.effects import Effect
    from mcp_django.bridge.changes.proposed import Kept
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.protocol.types import JSON

#: What a preview names of what is left alone, and of changes that are not undone.
_NAMED = 10
#: Changes that one call undoes.
_MOST_CHANGES = 200


@dataclass
class ProposedUndo(Proposed):
    """The changes that take others back, one for each model."""

    kind = Change.Kind.UNDO

    exchange: Exchange
    arguments: JSON
    #: The keys of the changes that are undone.
    undoes: Sequence[str]
    #: What each of them needed is needed to undo it.
    level: Needs
    parts_of: Sequence[Proposed]
    #: ``{"model", "id", "field", "why"}`` of what is left alone.
    skipped: Sequence[JSON]
    notes: Sequence[str] = ()
    operation: str = ""

    def __post_init__(self) -> None:
        labels = {one.label for one in self.parts_of}
        self.label = labels.pop() if len(labels) == 1 else ""
        self.using = self.parts_of[0].using
        operations = {one.operation for one in self.parts_of}
        self.operation = operations.pop() if len(operations) == 1 else ""
        self.by = "by this person" if LINEAGE in self.arguments else ""

    @property
    def undone(self) -> Sequence[str]:
        return self.undoes

    @property
    def keys(self) -> Sequence[Any]:
        return [key for one in self.parts_of for key in one.keys] if self.label else ()

    @property
    def row_count(self) -> int:
        return sum(one.row_count for one in self.parts_of)

    @cached_property
    def state(self) -> JSON:  # type: ignore[override]
        return {"parts": [one.state for one in self.parts_of]}

    @cached_property
    def declared(self) -> Needs:
        return reduce(or_, (one.needs for one in self.parts_of), self.level)

    def may_be_done_by(self, rights: Rights) -> bool:
        return all(one.may_be_done_by(rights) for one in self.parts_of)

    @property
    def parts(self) -> Sequence[Effect]:
        return list(self._apart(lambda one: one.parts))

    @cached_property
    def effects(self) -> Sequence[Effect]:
        return list(self._apart(lambda one: one.effects))

    def _apart(self, told: Any) -> Iterator[Any]:
        """What each part says, with numbers that tell apart the rows of all of them."""
        first = 0
        for one in self.parts_of:
            found = told(one)
            yield from (replace(each, row=each.row + first) for each in found)
            first += 1 + max((each.row for each in found), default=0)

    def preview(self) -> JSON:
        counted = Counter(one.operation for one in self.parts_of for _ in range(one.row_count))
        found: JSON = {
            "undoes": list(self.undoes),
            "records": {"restored": counted["update"], "deleted": counted["delete"]},
        }
        told = [one.preview() for one in self.parts_of]
        found["changes"] = told[:_NAMED]
        if len(told) > _NAMED:
            found["more_changes"] = len(told) - _NAMED
        for part in found["changes"]:
            part.pop("notes", None)
        return {**found, **self._left_alone(), "notes": [*self.notes, _NOT_UNDONE]}

    def _left_alone(self) -> JSON:
        if not self.skipped:
            return {}
        return {"left_alone": list(self.skipped[:_NAMED]), "left_alone_count": len(self.skipped)}

    def summary(self, *, values: bool) -> Sequence[Line]:
        return list(self._apart(lambda one: one.summary(values=values)))

    def apply(self, by: str) -> JSON:
        told = [one.apply(f"{by}, undoing {', '.join(self.undoes[:_NAMED])}") for one in self.parts_of]
        refused = [one for each in told for one in each.get("invalid", ())]
        found: JSON = {"undoes": list(self.undoes), "count": self.row_count - len(refused), **self._left_alone()}
        return {**found, **({"invalid": refused[:_NAMED]} if refused else {})}

    @property
    def kept(self) -> Sequence[Kept]:
        return [kept for one in self.parts_of for kept in one.kept]


_NOT_UNDONE = "Mail, what triggers did, times that saving sets, and keys of rows that are made again are not undone."


def propose(exchange: Exchange, arguments: JSON) -> ProposedUndo:
    """Read the arguments of a call: ``change`` or ``since``. Raises InvalidQuery and ToolError."""
    changes, notes = _changes(exchange, arguments)
    rights = Rights(exchange.site, exchange.request, from_primary=True)
    rows = ChangedRow.objects.using(change_rows.alias()).filter(change__in=[one.pk for one in changes])
    ordered = rows.order_by("change__decided_at", "change__created_at", "pk")
    inverse = Inverse(exchange, rights, bool(arguments.get(LINEAGE)))
    for one in kept_rows.merged(ordered):
        inverse.add(one)
    parts = inverse.parts()
    if not parts:
        why = "; ".join(dict.fromkeys(one["why"] for one in inverse.skipped)) or "nothing of it is left"
        raise ToolError(f"There is nothing to undo: {why}. Nothing was changed.", reason="CANNOT_UNDO")
    if len({one.using for one in parts}) > 1:
        raise ToolError("The records are in several databases. Undo one change at a time. Nothing was changed.")
    levels = map(_needed, changes)
    asked = reduce(or_, levels, Needs())
    asks = {one: decided(exchange, [f"{one}_record", f"{one}_records"]) for one in {part.operation for part in parts}}
    for part in parts:
        part.least = asks[part.operation]
    return ProposedUndo(
        exchange, arguments, [one.pk for one in changes], asked, parts, inverse.skipped, [*notes, *inverse.notes]
    )


def _needed(change: Change) -> Needs:
    """What a change needed, by the people that its rule names. What a function says of them is asked of the inverse."""
    by = [one for one in change.needs.get("by", ()) if "." in one or one.startswith(GROUP)]
    return Needs(approvals.level_of(change), change.needs.get("count", 0), tuple(by)) if change.needs else Needs()


def _changes(exchange: Exchange, arguments: JSON) -> tuple[list[Change], list[str]]:
    """The changes to undo, the first one first, and notes about others. Raises InvalidQuery and ToolError."""
    if ("change" in arguments) == ("since" in arguments):
        raise InvalidQuery.one("change", "give change, or since.")
    made = Change.objects.using(change_rows.alias()).filter(
        site=exchange.site.name, tenant=tenant_of(exchange.site, exchange.request), state=Change.State.APPLIED
    )
    if not arguments.get(LINEAGE):
        made = made.filter(principal_key=exchange.principal.key, line=exchange.principal.lineage)
    if "change" in arguments:
        found = made.filter(pk=arguments["change"]).first()
        if found is None:
            text = "is not the number of a change that you made here"
            wrong = [field_error("change", text, arguments["change"])]
            raise ToolError("Nothing was changed.", wrong, reason="NO_RECORD")
        if not can_be_undone(found):
            text = f"This change cannot be undone: {why_not_undone(found)}. Nothing was changed."
            raise ToolError(text, reason="CANNOT_UNDO")
        return [found], []
    if arguments.get(LINEAGE):
        made = made.filter(line=arguments[LINEAGE])
    return _since(made, arguments["since"])


def _since(made: Any, since: str) -> tuple[list[Change], list[str]]:
    moment = _moment(since)
    every = list(made.filter(decided_at__gte=moment).order_by("decided_at", "created_at")[: _MOST_CHANGES + 1])
    if len(every) > _MOST_CHANGES:
        raise ToolError(f"More than {_MOST_CHANGES} changes were made since. Name a later moment. Nothing was changed.")
    undone: set[str] = set()
    for one in reversed(every):
        # One that was itself undone undoes nothing, and neither does the one that is being made.
        if one.pk not in undone and one.undo_until is not None:
            undone.update(one.undoes)
    found = [one for one in every if one.kind != Change.Kind.UNDO and one.pk not in undone]
    left = [one for one in found if not can_be_undone(one)]
    notes = [f"{one.pk} ({one}) is not undone: {why_not_undone(one)}." for one in left[:_NAMED]]
    found = [one for one in found if can_be_undone(one)]
    if not found:
        text = " ".join(["No change since can be undone. Nothing was changed.", *notes])
        raise ToolError(text, reason="CANNOT_UNDO")
    return found, notes


def _moment(since: str) -> datetime:
    try:
        moment = parse_datetime(since)
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidQuery.one("since", "must be a date and time, as 2026-01-31T10:00:00+01:00.", since)
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment
