"""What is kept of a record that a change has written, so that it can be undone, and how several changes become one.

It is what differs, as JSON in the agent's own encoding, so it holds nothing that the agent may not read. Changes of one
record are merged first: undone one by one, rows of inlines that are made again would have other keys than those that
the change before them knows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db import models
from pydantic_core import from_json

from mcp_django.bridge.changes.shown_values import shown
from mcp_django.bridge.writes.diffs import is_set_by_itself
from mcp_django.bridge.writes.states import is_same_json, values_of
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableInline
    from mcp_django.bridge.writes.states import State, Values
    from mcp_django.models import ChangedRow

#: What becomes of the value of a field: before, and after.
Pair = tuple[Any, Any]


@dataclass(frozen=True)
class Kept:
    """What a change has done to one record."""

    model: str
    key: str
    #: "create" or "update". What is deleted is not kept.
    operation: str
    diff: Iterable[JSON]
    #: As in the answer of a change, and of a row that was deleted its values.
    rows: Iterable[JSON] = ()
    #: Names all that is stored of a new record, also what the agent does not read.
    stored: str = ""

    @property
    def text(self) -> str:
        values = {one["field"]: [one.get("before"), one["after"]] for one in self.diff if "before" in one}
        rows = [_kept_row(one) for one in self.rows if "pk" in one]
        more = {name: value for name, value in (("rows", rows), ("stored", self.stored)) if value}
        return encode({"values": values, **more}).decode()


def restorable(rights: ModelRights, before: Values, after: Values, diff: Iterable[JSON]) -> list[JSON]:
    """Those of the differences that can be taken back as the agent reads them.

    Not a file, whose name is all that is left; not a link from or to a row that the agent does not see, which it reads
    as none; and no JSON that is written otherwise for an agent.
    """
    return [one for one in diff if _is_restorable(rights, before, after, one)]


def _is_restorable(rights: ModelRights, before: Values, after: Values, one: JSON) -> bool:
    column = rights.columns.get(one["field"])
    if column is None:
        return True
    if isinstance(column.field, models.FileField):
        return False
    pairs = [(before.get(column.attname), one.get("before")), (after.get(column.attname), one["after"])]
    if isinstance(column.field, models.JSONField):
        return all(is_same_json(raw, said) for raw, said in pairs)
    return all(raw is None or said is not None for raw, said in pairs)


def _kept_row(row: JSON) -> JSON:
    values = {one["field"]: [one.get("before"), one["after"]] for one in row.get("diff", ()) if "before" in one}
    found = {"inline": row["inline"], "pk": row["pk"], "change": row["change"]}
    found |= {"lost": True} if row.get("lost") else {}
    return {**found, "values": {name: [value, None] for name, value in row.get("values", {}).items()} or values}


def with_deleted(rows: Iterable[JSON], before: State | None, inlines: Mapping[str, WritableInline]) -> list[JSON]:
    """The rows of an answer, where those that were deleted have their values, and whether others cannot come back."""
    found = []
    for row in rows:
        values: JSON = {}
        lost = False
        if row["change"] == "delete" and before is not None:
            inline = inlines[row["inline"]]
            stored = before.rows.get(row["inline"], {}).get(row["pk"], {})
            readable, fields = _readable(inline.rights, stored, inline.links), inline.empty_form.fields
            values = {name: value for name, value in readable.items() if name in fields}
            lost = _loses(inline.rights, stored, {*values, *inline.links})
        found.append({**row, "values": values, "lost": lost})
    return found


def _loses(rights: ModelRights, stored: Values, kept: Collection[str]) -> bool:
    """Whether a row may have values that a new one has not, and that are not kept. What agents do not read counts."""
    new = values_of(rights.model())
    return any(
        one.name not in rights.columns or stored[one.attname] != new[one.attname]
        for one in rights.model._meta.concrete_fields
        if not (one.primary_key or one.name in kept or one.attname not in stored or is_set_by_itself(one))
    )


def _readable(rights: ModelRights, values: Values, links: Iterable[str]) -> JSON:
    """The values of a row, as the agent would give them for a new one."""
    left_out = {*links, rights.model._meta.pk.name}
    return {
        name: shown(column, values[column.attname])
        for name, column in rights.columns.items()
        if column.attname in values and column.field.name not in left_out
    } | {name: keys for name, keys in values.items() if isinstance(keys, list) and name in rights.relations}


# Several changes as one.


@dataclass
class Merged:
    """What changes have done to one record together, from the first to the last."""

    model: str
    key: str
    is_new: bool = False
    #: As that of Kept, if it has not been changed since it was created.
    stored: str = ""
    values: dict[str, Pair] = field(default_factory=dict)
    #: By inline and key: what was done to the row, and its values.
    rows: dict[tuple[str, str], tuple[str, dict[str, Pair]]] = field(default_factory=dict)
    #: The deleted rows of which not all is kept.
    lost: set[tuple[str, str]] = field(default_factory=set)

    def add(self, operation: str, kept: str) -> None:
        """Add what a later change did."""
        found = from_json(kept)
        self.is_new |= operation == "create"
        self.stored = found.get("stored", "")
        _add(self.values, found.get("values", {}))
        for row in found.get("rows", ()):
            place = row["inline"], row["pk"]
            change, values = self.rows.pop(place, ("", {}))
            _add(values, row["values"])
            if row.get("lost"):
                self.lost.add(place)
            became = _becomes(change, row["change"])
            if became:
                self.rows[place] = became, values

    def differing(self) -> dict[str, Pair]:
        return _differing(self.values)


def _add(values: dict[str, Pair], later: Mapping[str, Any]) -> None:
    for name, (before, after) in later.items():
        is_joined = name in values and is_same_json(values[name][1], before)
        # What somebody else wrote between the two is what comes back.
        values[name] = (values[name][0] if is_joined else before, after)


def _becomes(first: str, second: str) -> str:
    """What two changes of a row are together; empty if they are nothing."""
    if first == "add":
        return "" if second == "delete" else "add"
    return second if not first or second == "delete" else first


def _differing(values: Mapping[str, Pair]) -> dict[str, Pair]:
    return {name: pair for name, pair in values.items() if not is_same_json(*pair)}


def differing(values: Mapping[str, Pair]) -> dict[str, Pair]:
    """The values that are other ones in the end than at the beginning."""
    return _differing(values)


def merged(rows: Iterable[ChangedRow]) -> list[Merged]:
    """What changes did to each record, in the order of their first change. ``rows``: in the order of the changes."""
    found: dict[tuple[str, str], Merged] = {}
    for row in rows:
        one = found.setdefault((row.model, row.key), Merged(row.model, row.key))
        one.add(row.operation, row.kept)
    return list(found.values())
