"""What takes changes back: for each record the values that it had before, as changes of its form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from django.db import router

from mcp_django.bridge.changes.outcomes import text_of
from mcp_django.bridge.changes.shown_values import shown
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.visible_rows import visible_keys
from mcp_django.bridge.resources.reading.rows import of_key
from mcp_django.bridge.writes import access, deletions, proposals, states
from mcp_django.bridge.writes.given_records import rows_of_ids
from mcp_django.bridge.writes.kept_rows import differing
from mcp_django.bridge.writes.opening import GivenRow, open_form
from mcp_django.bridge.writes.records import ProposedRecords
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from django.db.models import Model

    from mcp_django.bridge.changes.proposed import Proposed
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
    from mcp_django.bridge.writes.deletions import Deletion
    from mcp_django.bridge.writes.fields import WritableForm
    from mcp_django.bridge.writes.kept_rows import Merged, Pair
    from mcp_django.exchange.exchange import Exchange
    from mcp_django.protocol.types import JSON

#: Stands for the value of a link to a row that is not seen: it equals nothing.
_HIDDEN = object()
_SINCE, _GONE, _NO_FIELD = "changed since", "there is no such record", "the form has no such field"


@dataclass
class Inverse:
    """Collects the changes that restore records, and what is left alone."""

    exchange: Exchange
    rights: Rights
    is_by_person: bool
    skipped: list[JSON] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        #: By model: the records whose own fields alone are restored.
        self._plain: dict[str, list[GivenRow]] = {}
        self._restoring: list[Model] = []
        #: The model and key of those that are deleted.
        self._new: list[tuple[str, str]] = []
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
            return
        self._restoring.append(row)
        if one.rows:
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
        is_as_stored = one.stored == states.digest_of(of_row, row.pk)
        if is_as_stored:
            # A column that its agent did not read may have been set as the row was made. Links are not in the digest.
            moved = [name for name in moved if name in of_row.relations]
        if moved or (one.stored and not is_as_stored):
            self._skip(one, moved[0] if moved else "", _SINCE)
        else:
            self._new.append((one.model, str(row.pk)))

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
                had = {each: value for each, (value, _gone) in of_inline.items() if value is not None}
                rows.setdefault(name, []).append({each: value for each, value in had.items() if each in fields})
                if (name, key) in one.lost or had.keys() - fields:
                    self.notes.append(f"{name} {key} comes back without what its form does not have.")
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
        return [*found, *self._deletions()]

    def _deletions(self) -> list[Deletion]:
        """What deletes the new records, the last one first: an earlier one may be held by a later one."""
        found: list[Deletion] = []
        for label, run in groupby(reversed(self._new), key=itemgetter(0)):
            model, ids = access.find(self.rights, label, "delete"), [key for _, key in run]
            rows = {str(one.pk): one for one in rows_of_ids(model, ids, len(ids))}
            before = [*self._restoring, *(row for one in found for row in one.deleted)]
            found += deletions.in_order(model, [rows[key] for key in ids], before)
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
