"""What agents changed, taken back: as a change of its own, through the same forms, with its own preview and consent.

Of each field that has another value by now than the change gave it, nothing is undone: somebody has changed it since.
What was created is deleted, and what was deleted is not brought back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property, reduce
from operator import or_
from typing import TYPE_CHECKING, Any

from django.db import router
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from mcp_django.bridge.changes import approvals, change_rows
from mcp_django.bridge.changes.outcomes import text_of
from mcp_django.bridge.changes.proposed import Proposed
from mcp_django.bridge.changes.shown_values import shown
from mcp_django.bridge.declared.consent import APPROVED, GROUP, Level, Needs
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.policy.visible_rows import visible_keys
from mcp_django.bridge.resources.reading.rows import of_key
from mcp_django.bridge.writes import access, kept_rows, proposals, states
from mcp_django.bridge.writes.deletions import Deletion
from mcp_django.bridge.writes.given_records import rows_of_ids
from mcp_django.bridge.writes.kept_rows import Merged, differing
from mcp_django.bridge.writes.opening import GivenRow, open_form
from mcp_django.bridge.writes.records import ProposedRecords
from mcp_django.exceptions import ToolError, field_error
from mcp_django.models import Change, ChangedRow, Tool

if TYPE_CHECKING:
    from mcp_django.bridge.changes.effects import Effect
    from mcp_django.bridge.changes.proposed import Kept
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableForm
    from mcp_django.bridge.writes.kept_rows import Pair
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.types import JSON

#: Stands for the value of a link to a row that is not seen: it equals nothing.
_HIDDEN = object()
#: What a preview names of what is left alone, and of rows that change alike.
_NAMED = 10
#: Changes that one call undoes.
_MOST_CHANGES = 200
_SINCE, _GONE, _NO_FIELD = "changed since", "there is no such record", "the form has no such field"


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
        self.by = "by this person" if BY_PERSON in self.arguments else ""

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
            "changes": [one.preview() for one in self.parts_of],
        }
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


_NOT_UNDONE = "Mail, what triggers did, and keys of rows that are made again are not undone."


def propose(exchange: Exchange, arguments: JSON) -> ProposedUndo:
    """Read the arguments of a call: ``change`` or ``since``. Raises InvalidQuery and ToolError."""
    changes, notes = _changes(exchange, arguments)
    rights = Rights(exchange.site, exchange.request, from_primary=True)
    rows = ChangedRow.objects.using(change_rows.alias()).filter(change__in=[one.pk for one in changes])
    ordered = rows.order_by("change__decided_at", "change__created_at", "pk")
    restoring = _Restoring(exchange, rights, bool(arguments.get(BY_PERSON)))
    for one in kept_rows.merged(ordered):
        restoring.add(one)
    parts = restoring.parts()
    if not parts:
        why = "; ".join(dict.fromkeys(one["why"] for one in restoring.skipped)) or "nothing of it is left"
        raise ToolError(f"There is nothing to undo: {why}. Nothing was changed.")
    if len({one.using for one in parts}) > 1:
        raise ToolError("The records are in several databases. Undo one change at a time. Nothing was changed.")
    levels = map(_needed, changes)
    asked = reduce(or_, levels, Needs())
    for part in parts:
        part.least = _asked(exchange, part.operation)
    return ProposedUndo(
        exchange, arguments, [one.pk for one in changes], asked, parts, restoring.skipped, [*notes, *restoring.notes]
    )


def _asked(exchange: Exchange, operation: str) -> Needs:
    """What administrators decided that the tools need which do the same."""
    names = [f"{operation}_record", f"{operation}_records"]
    rows = Tool.objects.filter(site=exchange.site.name, name__in=names).exclude(asks="")
    level = max(map(Level.named, rows.values_list("asks", flat=True)), default=Level.PREVIEW)
    return APPROVED if level is Level.APPROVE else Needs(level)


def _needed(change: Change) -> Needs:
    """What a change needed, by the people that its rule names. What a function says of them is asked of the inverse."""
    by = [one for one in change.needs.get("by", ()) if "." in one or one.startswith(GROUP)]
    return Needs(approvals.level_of(change), change.needs.get("count", 0), tuple(by)) if change.needs else Needs()


def _changes(exchange: Exchange, arguments: JSON) -> tuple[list[Change], list[str]]:
    """The changes to undo, the first one first, and notes about others. Raises InvalidQuery and ToolError."""
    if ("change" in arguments) == ("since" in arguments):
        raise InvalidQuery.one("change", "give change, or since.")
    made = Change.objects.using(change_rows.alias()).filter(site=exchange.site.name, state=Change.State.APPLIED)
    if not arguments.get(BY_PERSON):
        made = made.filter(principal_key=exchange.principal.key, line=exchange.principal.lineage)
    if "change" in arguments:
        found = made.filter(pk=arguments["change"]).first()
        if found is None:
            text = "is not the number of a change that you made"
            raise ToolError("Nothing was changed.", [field_error("change", text, arguments["change"])])
        if not _can_be_undone(found):
            raise ToolError(f"This change cannot be undone: {why_not(found)}. Nothing was changed.")
        return [found], []
    if arguments.get(BY_PERSON):
        made = made.filter(line=arguments[BY_PERSON])
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
    left = [one for one in found if not _can_be_undone(one)]
    notes = [f"{one.pk} ({one}) is not undone: {why_not(one)}." for one in left[:_NAMED]]
    found = [one for one in found if _can_be_undone(one)]
    if not found:
        raise ToolError(" ".join(["No change since can be undone. Nothing was changed.", *notes]))
    return found, notes


def _moment(since: str) -> datetime:
    try:
        moment = parse_datetime(since)
    except ValueError:
        moment = None
    if moment is None:
        raise InvalidQuery.one("since", "must be a date and time, as 2026-01-31T10:00:00+01:00.", since)
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def _can_be_undone(change: Change) -> bool:
    return change.undo_until is not None and change.undo_until > timezone.now()


def why_not(change: Change) -> str:
    """Why a change cannot be undone; empty where it can."""
    if _can_be_undone(change):
        return ""
    if change.undo_until is not None:
        return "its time is over"
    if change.operation == "delete":
        return "what was deleted is not brought back"
    if change.kind in (Change.Kind.ACTION, Change.Kind.CALL):
        return "nobody knows all that it did"
    return "nothing was kept of it"


#: In the arguments of a person who undoes what an agent did: the lineage of the agent. No agent can give it.
BY_PERSON = "_lineage"


# What is to be restored.


@dataclass
class _Restoring:
    """Collects the changes that restore records, and what is left alone."""

    exchange: Exchange
    rights: Rights
    is_by_person: bool
    skipped: list[JSON] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        #: By model: the records whose own fields alone are restored, and those that are deleted.
        self._plain: dict[str, list[GivenRow]] = {}
        self._new: dict[str, list[str]] = {}
        #: Those with rows of inlines, each by itself.
        self._whole: list[Proposed] = []
        self._names: dict[str, frozenset[str]] = {}

    def add(self, one: Merged) -> None:
        operation: Any = "delete" if one.is_new else "update"
        model = self.rights.of_label(one.model)
        found = None if model is None or not access.may_write(model, operation) else of_key(model, one.key)
        row = None if found is None else found[1].first()
        if found is None or row is None:
            self._skip(one, "", _GONE)
            return
        of_row = found[0]
        if one.is_new:
            self._add_new(one, of_row, row)
        elif one.rows:
            self._add_whole(one, of_row, row)
        elif values := self._values(one, of_row, row):
            self._plain.setdefault(one.model, []).append(GivenRow(of_row, row.pk, values))

    def _skip(self, one: Merged, name: str, why: str) -> None:
        # A person may not know of a row that only the agent sees.
        is_named = why != _GONE or not self.is_by_person
        about = {"model": one.model, **({"id": one.key} if is_named else {}), **({"field": name} if name else {})}
        self.skipped.append({**about, "why": why})

    def _key_of(self, label: str) -> str:
        model = self.rights.of_label(label)
        return "" if model is None else model.model._meta.pk.name

    def _add_new(self, one: Merged, of_row: ModelRights, row: Any) -> None:
        now = _now(of_row, row)
        moved = [name for name, value in now.items() if _is_moved(one.values, name, value, self._key_of(one.model))]
        if moved or (one.stored and one.stored != states.digest_of(of_row, row.pk)):
            self._skip(one, moved[0] if moved else "", _SINCE)
        else:
            self._new.setdefault(one.model, []).append(str(row.pk))

    def _values(self, one: Merged, of_row: ModelRights, row: Any) -> JSON:
        """The values to give back, without those that were changed since or that the form does not have."""
        if one.model not in self._names:
            self._names[one.model] = _names_in(open_form(of_row, row.pk)[1])
        return self._restored(one, one.differing(), _now(of_row, row), self._names[one.model], "")

    def _restored(self, one: Merged, differs: Mapping[str, Pair], now: JSON, names: frozenset[str], place: str) -> JSON:
        found: JSON = {}
        for name, (before, after) in differs.items():
            if name not in now or name not in names:
                self._skip(one, place + name if name in now else "", _NO_FIELD)
            elif not _same(now[name], after):
                self._skip(one, place + name, _SINCE)
            else:
                found[name] = before
        return found

    def _add_whole(self, one: Merged, of_row: ModelRights, row: Any) -> None:
        page, main, inlines = open_form(of_row, row.pk)
        state = states.of_page(page, inlines)
        values = self._restored(one, one.differing(), _now(of_row, row), _names_in(main), "")
        rows: dict[str, list[JSON]] = {}
        for (name, key), (change, of_inline) in one.rows.items():
            inline = inlines.get(name)
            stored = None if inline is None else state.rows.get(name, {}).get(key)
            if inline is None or (stored is None) != (change == "delete"):
                self._skip(one, f"{name} {key}", _SINCE if inline is not None else _NO_FIELD)
                continue
            fields = frozenset(inline.empty_form.fields)
            if change == "delete":
                given = {each: value for each, (value, _gone) in of_inline.items() if each in fields}
                rows.setdefault(name, []).append({each: value for each, value in given.items() if value is not None})
                continue
            now = _shown(inline.rights, stored or {})
            if change == "update":
                given = self._restored(one, differing(of_inline), now, fields, f"{name} {key} ")
                rows.setdefault(name, []).extend([{"pk": key, **given}] if given else [])
            elif any(each in now and not _same(now[each], after) for each, (_none, after) in of_inline.items()):
                self._skip(one, f"{name} {key}", _SINCE)
            else:
                rows.setdefault(name, []).append({"pk": key, "delete": True})
        rows = {name: given for name, given in rows.items() if given}
        if values or rows:
            asked: JSON = {"model": one.model, "id": one.key, "values": values, "rows": rows}
            try:
                proposed = proposals.propose(self.rights, "update", asked)
                proposed.preview()
            except (ToolError, InvalidQuery) as error:
                self._skip(one, "", f"the form refuses it: {text_of(error)}")
            else:
                self._whole.append(proposed)

    def parts(self) -> list[Proposed]:
        """The changes, those that restore before those that delete."""
        found: list[Proposed] = []
        for label, rows in self._plain.items():
            model = access.find(self.rights, label, "update")
            # What the form refuses by now is left alone, and told.
            found.append(
                ProposedRecords("update", self.exchange, model, rows, {"model": label}, "skip", leaves_refused=True)
            )
        found += self._whole
        for label, ids in self._new.items():
            model = access.find(self.rights, label, "delete")
            found.append(Deletion(model, rows_of_ids(model, ids, len(ids))))
        return found


def _names_in(form: WritableForm) -> frozenset[str]:
    """The names of the fields of a form, with the currencies that stand beside amounts."""
    return frozenset([*form.fields, *filter(None, map(form.currency_beside, form.fields))])


def _is_moved(values: Mapping[str, Pair], name: str, value: Any, key: str) -> bool:
    """Whether somebody has given a new record another value since; also one where its agent gave none."""
    if name in values:
        return not _same(value, values[name][1])
    return name != key and value not in (None, "", [], {})


def _now(rights: ModelRights, row: Any) -> JSON:
    """The values of a record as JSON, with the keys of linked rows."""
    found = _shown(rights, states.values_of(row))
    using = router.db_for_write(rights.model)
    for name in rights.relations:
        one = states.many_to_many(rights.model, name)
        if one is not None:
            keys = states.linked(one, [row.pk], using).get(str(row.pk), [])
            seen = visible_keys(rights.relations[name].related, keys)
            found[name] = [key for key in keys if key in seen]
    return found


def _shown(rights: ModelRights, values: Mapping[str, Any]) -> JSON:
    columns = rights.columns.items()
    found: JSON = {name: shown(one, values[one.attname]) for name, one in columns if one.attname in values}
    # A link to a row that is not seen is read as none, and is not.
    hidden = [name for name, one in columns if found.get(name) is None and values.get(one.attname) is not None]
    found |= dict.fromkeys(hidden, _HIDDEN)
    return found | {name: keys for name, keys in values.items() if isinstance(keys, list) and name in rights.relations}


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        one, other = sorted(map(str, one)), sorted(map(str, other))
    return states.is_same_json(one, other)
