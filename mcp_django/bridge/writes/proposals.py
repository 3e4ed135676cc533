"""A change as an agent proposes it: read, allowed, shown, and written once it is confirmed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from django.core.files import File
from django.db import models, router, transaction

from mcp_django.bridge.changes import row_names
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.proposed import Proposed
from mcp_django.bridge.changes.summaries import Line
from mcp_django.bridge.declared.consent import APPROVED, Considered
from mcp_django.bridge.declared.options import Operation
from mcp_django.bridge.declared.secrets import gives_rights
from mcp_django.bridge.resources import rules, uris
from mcp_django.bridge.resources.reading import rows
from mcp_django.bridge.resources.reading.keys import no_record
from mcp_django.bridge.tools.row_texts import names_of
from mcp_django.bridge.uploads.files import StoredUpload
from mcp_django.bridge.writes import access, diffs, filling, guesses, kept_rows, states
from mcp_django.bridge.writes.deletions import Deletion
from mcp_django.bridge.writes.form_errors import said_by
from mcp_django.bridge.writes.kept_rows import Kept
from mcp_django.bridge.writes.opening import GivenRow, Opened, open_and_read
from mcp_django.bridge.writes.sending import RowSender, SentRow, send_opened
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.conf import get_conf
from mcp_django.exceptions import ToolError, field_error
from mcp_django.models import Change
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.access.throttling.throttles import NewValues
    from mcp_django.bridge.declared.consent import Needs
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
    from mcp_django.bridge.writes.fields import WritableInline
    from mcp_django.bridge.writes.filling import Given
    from mcp_django.bridge.writes.states import State, Values
    from mcp_django.exchange.requests import MCPRequest


#: What a diff calls the change of a row → the operation.
_CHANGES: Mapping[str, Operation] = {"add": "create", "update": "update", "delete": "delete"}


@dataclass
class Proposal(Proposed):
    """Values for a new row, or for one that is there."""

    kind = Change.Kind.RECORD

    operation: Operation
    rights: ModelRights
    key: Any
    #: What is proposed, and the form that it is proposed for.
    row: GivenRow
    opened: Opened
    #: The row, its links and the rows of its inlines as they are stored; None for a new one.
    state: JSON | None
    #: What is proposed, as it was read: another spelling of the same values is the same proposal.
    arguments: JSON
    #: ``{"field", "note"}`` of each value that the form reads differently.
    adjusted: list[JSON] = field(default_factory=list)
    #: What came of sending it without writing; None where that was not tried.
    trial: SentRow | None = None

    def __post_init__(self) -> None:
        self.label, self.using = self.rights.label, router.db_for_write(self.rights.model)
        #: What is stored, once it is applied.
        self._after: State | None = None

    @property
    def given(self) -> Given:
        return self.opened.given

    @property
    def inlines(self) -> Mapping[str, WritableInline]:
        return self.opened.inlines

    @property
    def before(self) -> State | None:
        return self.opened.before

    @property
    def request(self) -> MCPRequest:
        return self.rights.rights.request

    @property
    def keys(self) -> list[Any]:
        return [] if self.key is None else [self.key]

    @cached_property
    def declared(self) -> Needs:
        """The stricter of what its own operation and its changes to rows of inlines need."""
        planned: list[State] = []

        def considered(
            rights: ModelRights, operation: Operation, values_in: Callable[[State], Values]
        ) -> Iterator[Considered]:
            # Sending the form takes time, which only a rule is worth.
            if not planned:
                planned.append(self.tried.planned)
            states_of = [self.before, *planned]
            before, after = ({} if one is None else states.readable(rights, values_in(one)) for one in states_of)
            principal = self.request.mcp.principal
            yield Considered(operation, self.row_count, before, after, principal.user, principal.lineage)

        found = access.needs_of(
            self.rights, self.operation, partial(considered, self.rights, self.operation, lambda state: state.values)
        )
        for name, given in self.given.rows.items():
            inline = self.inlines[name]
            for one in given:
                place = states.place_of_given(one)

                def values_in(state: State, name: str = name, place: states.Place = place) -> Values:
                    return state.rows.get(name, {}).get(place, {})

                found |= inline.needs_of(one.operation, partial(considered, inline.rights, one.operation, values_in))
            if gone := [one.form.form.instance for one in given if one.is_deleted]:
                found |= Deletion(inline.rights, gone).needs_of_cascade()
        return found | APPROVED if self._gives_rights else found

    @property
    def _gives_rights(self) -> bool:
        """Whether it writes a column that gives rights to somebody."""
        fields = (one.form.fields[name].field for one in self.given.forms for name in one.values)
        return any(field is not None and gives_rights(field) for field in fields)

    @property
    def row_count(self) -> int:
        return 1 + sum(map(len, self.given.rows.values()))

    def may_be_done_by(self, rights: Rights) -> bool:
        return access.may_do_all(rights, self.label, self.parts)

    def new_values(self) -> Iterable[NewValues]:
        return guesses.new_values(self.given, self.inlines)

    def send(self, run: ViewRun) -> SentRow:
        """Send the form, as the pass says. Raises ToolError with what is wrong."""
        sent = send_opened(self.row, self.opened, run)
        self.adjusted = [*self.opened.filled, *sent.adjusted]
        return sent

    @property
    def tried(self) -> SentRow:
        """What comes of sending the form without writing. Raises ToolError with what is wrong."""
        if self.trial is None:
            self.trial = self.send(ViewRun(writes=False))
        self.adjusted = [*self.opened.filled, *self.trial.adjusted]
        return self.trial

    def preview(self) -> JSON:
        """What would change. Nothing of it is kept. Raises ToolError with what is wrong."""
        return _fitting(self._preview())

    def _preview(self) -> JSON:
        named = self._named(self.key)
        differing = self._saved_and_rolled_back() if self._is_rolled_back else self._differing()
        found = {**named, **differing, "set_when_saved": self.set_when_saved, "adjusted": self.adjusted}
        return {name: value for name, value in found.items() if value or name == "diff"}

    def _differing(self) -> JSON:
        """What the form makes of the values, without saving it."""
        return self._diffs(self.tried.planned)

    @property
    def _is_rolled_back(self) -> bool:
        """Whether its preview saves it and rolls back. Not with files, which a rollback leaves in their storage."""
        has_files = any(isinstance(value, File) for one in self.given.forms for value in one.values.values())
        return not has_files and _is_saved_for_preview(self.rights)

    def _saved_and_rolled_back(self) -> JSON:
        """What a save changes, which is then rolled back: with values that saving makes, and what it does elsewhere."""
        from django.contrib.admin.models import LogEntry

        key, related = self.key, [inline.rights.model for inline in self.inlines.values()]
        try:
            with _taken_back(self.rights.model, LogEntry, *related):
                found = self._diffs(self._save(ViewRun(writes=True))[1])
        finally:
            self.key = key
        for row in found["rows"]:
            if row["change"] == "add":
                row.pop("pk", None)  # It will get another one.
        return found

    def _diffs(self, after: State) -> JSON:
        return {"diff": self.diff(after), "rows": list(self.diff_of_rows(after).values())}

    def _save(self, run: ViewRun) -> tuple[SentRow, State]:
        """Send the form. Returns what came of it, and the state that is stored."""
        sent = self.send(run)
        self.key = sent.key
        return sent, self._as_readable(sent.planned, sent.after())

    def _as_readable(self, planned: State, after: State) -> State:
        """What is stored. What may not be read of a new row, once it is there, is as it was proposed."""
        if self.before is not None or not self.rights.shows_by_object:
            return after
        found = rows.of_key(self.rights, self.key)
        shown = {} if found is None else {**found[0].columns, **found[0].relations}
        hidden = {column.attname for name, column in self.rights.columns.items() if name not in shown}
        values = {name: planned.values[name] if name in hidden else value for name, value in after.values.items()}
        links = {name: keys if name in shown else planned.links.get(name, []) for name, keys in after.links.items()}
        return replace(after, values=values, links=links)

    def summary(self, *, values: bool) -> list[Line]:
        """What the form would change, in words, for the person who is asked. Without ``values``, the rows alone."""
        if values:
            return lines_of((one, self._rights_on(one)) for one in self.effects)
        key = "" if self.key is None else str(self.key)
        name = row_names.names_of(self.rights, self.keys).get(key, "")
        of_rows = [Line(one.change, one.model, one.key) for one in self.parts if one.inline]
        return [Line(self.operation, self.rights.label, key, name), *of_rows]

    @property
    def parts(self) -> list[Effect]:
        """The rows that it writes, without values: the record first."""
        found = [Effect(self.operation, self.rights.label, "" if self.key is None else str(self.key))]
        for name, given in self.given.rows.items():
            for one in given:
                key = "" if one.is_new else str(one.form.form.instance.pk)
                found.append(Effect(one.operation, self.inlines[name].rights.label, key, inline=name))
        return found

    def _rights_on(self, effect: Effect) -> ModelRights:
        return self.inlines[effect.inline].rights if effect.inline else self.rights

    @cached_property
    def effects(self) -> list[Effect]:
        """What the form would change. Deterministic: what the project makes anew each time is left out."""
        key = "" if self.key is None else str(self.key)
        first, second = self.tried.planned, self.send(ViewRun(writes=False)).planned
        diff = _steady(self.diff(first), self.diff(second), self.given.main)
        found = [Effect(self.operation, self.rights.label, key, diff)]
        again = self.diff_of_rows(second)
        given = {(name, states.place_of_given(one)): one for name, rows in self.given.rows.items() for one in rows}
        for number, (place, row) in enumerate(self.diff_of_rows(first).items(), 1):
            diff = _steady(row.get("diff", ()), again.get(place, {}).get("diff", ()), given.get(place))
            change, name = _CHANGES[row["change"]], row["inline"]
            label = self.inlines[name].rights.label
            found.append(Effect(change, label, row.get("pk", ""), diff, row=number, inline=name))
        return [*found, *self._gone_with_rows()]

    def _gone_with_rows(self) -> list[Effect]:
        """How many rows go with those of inlines that are deleted, or lose their link."""
        found = []
        for name, given in self.given.rows.items():
            gone = [one.form.form.instance for one in given if one.is_deleted]
            if gone:
                found += [one for one in Deletion(self.inlines[name].rights, gone).effects if one.count]
        return found

    def apply(self, by: str) -> JSON:
        """Write it. Raises ToolError with what is wrong, and then nothing was written."""
        row, after = self._save(ViewRun(writes=True, by=by))
        self._after = after
        obj = row.sent.run.obj
        found: JSON = {
            **self._named(self.key),
            "diff": diffs.whole_diff_of(self.rights, self.before, after, self.given.main),
            "rows": list(self.diff_of_rows(after).values()),
            "also_changed": [name for name in states.names_in(states.differences(row.planned, after, self.rights))
                             if name not in self.set_when_saved],
            "adjusted": self.adjusted,
            "messages": said_by(row.sent.request, names_of(self.rights.label, [] if obj is None else [obj])),
        }  # fmt: skip
        found = _fitting({name: value for name, value in found.items() if value or name == "diff"})
        if self.key is None:
            return {**found, "notes": [*found.get("notes", ()), "The admin has saved no record of this model."]}
        return {**found, "record": uris.record_uri(self.rights.model, self.key)}

    @property
    def kept(self) -> Sequence[Kept]:
        if self.key is None or self._after is None:
            return ()
        diff = diffs.whole_diff_of(self.rights, self.before, self._after, self.given.main)
        known = {} if self.before is None else self.before.values
        diff = kept_rows.restorable(self.rights, known, self._after.values, diff)
        rows = kept_rows.with_deleted(self.diff_of_rows(self._after).values(), self.before, self.inlines)
        return [Kept(self.label, str(self.key), self.operation, diff, rows, self._stored())]

    def _stored(self) -> str:
        """Names all that is stored of a new record: whoever undoes it finds out whether somebody has changed it."""
        return states.digest_of(self.rights, self.key) if self.operation == "create" else ""

    def _named(self, key: Any) -> JSON:
        return {"model": self.rights.label, **({} if key is None else {"id": str(key)})}

    def diff(self, after: State) -> list[JSON]:
        """The values that would change, or have changed. Values that only saving makes are left out."""
        return diffs.diff_of(self.rights, self.before, after, self.given.main)

    def diff_of_rows(self, after: State) -> dict[tuple[str, states.Place], JSON]:
        return states.differing_rows(self.before, after, self.inlines, self.given.rows)

    @cached_property
    def set_when_saved(self) -> Collection[str]:
        return diffs.made_when_saved(self.rights, self.before, self.given.main)


class _HasNewValues(Exception):
    """Ends the pass of a proposal whose new values are counted first."""


def propose(
    rights: Rights, operation: Operation, arguments: JSON, admit: Callable[[Proposal], object] | None = None
) -> Proposal:
    """Read the arguments of a call. Raises InvalidQuery and ToolError.

    With ``admit``, which counts the new values, the form is sent in the pass that opens it, and nothing is written. A
    proposal with new values waits for its preview, since what is counted within the view is rolled back with it.
    """
    model = access.find(rights, arguments["model"], operation)
    key, of_row, own = None, model, None
    if operation == "update":
        of_row, key = row_of(model, arguments["id"])
        # Before its form is read: a change between the two refuses the confirmation.
        own = states.stored(of_row, [key])
    row = GivenRow(of_row, key, arguments.get("values", {}), arguments.get("rows", {}))
    if admit is None or _is_saved_for_preview(of_row):
        proposed = _proposal(operation, row, own, open_and_read(row))
    else:
        proposed = _tried(operation, row, own)
    if admit is not None:
        admit(proposed)
    return proposed


def _tried(operation: Operation, row: GivenRow, own: Mapping[str, states.Values] | None) -> Proposal:
    """The proposal, with what comes of sending its form, if that tells nothing of rows that are not seen."""
    made: list[Proposal] = []

    def read(opened: Opened) -> None:
        made.append(_proposal(operation, row, own, opened))
        if list(made[-1].new_values()):
            raise _HasNewValues

    try:
        trial = RowSender(row.rights, leaves_out=False).send(row, ViewRun(writes=False), read)
    except _HasNewValues:
        return made[-1]
    made[-1].trial = trial
    return made[-1]


def _proposal(operation: Operation, row: GivenRow, own: Mapping[str, states.Values] | None, opened: Opened) -> Proposal:
    """The proposal, for the row as it is stored and shown. Made before it is sent, since saving a file moves it."""
    before, state = opened.before, None
    if before is not None and own is not None:
        around = states.stored_around(before, opened.inlines)
        state = {"values": states.bound_to(row.rights, own, opened.page.names), **around}
    rights = opened.main.rights
    proposed = {"model": rights.label, "id": str(row.key), **_plain_of(opened.given)}
    return Proposal(operation, rights, row.key, row, opened, state, proposed)


def _is_saved_for_preview(rights: ModelRights) -> bool:
    """Whether a preview of the model is saved and rolled back."""
    return bool(rights.ask_hook("get_preview", "form") == "rollback")


def row_of(model: ModelRights, key: Any) -> tuple[ModelRights, Any]:
    """What may be read of the row with this key, and the key as the database has it. Raises ToolError."""
    found = rows.of_key(model, key)
    keys = [] if found is None else list(found[1].values_list("pk", flat=True)[:1])
    if found is None or not keys:
        why = " ".join(["There is no such record. Nothing was changed.", *rules.of_model(model)])
        raise ToolError(why, [field_error("id", no_record(model, key), key)], reason="NO_RECORD")
    return found[0], keys[0]


@contextmanager
def _taken_back(*written: type[models.Model]) -> Iterator[None]:
    """What the block writes into the databases of these models is rolled back."""
    with ExitStack() as around:
        for alias in {router.db_for_write(model) for model in written}:
            around.enter_context(transaction.atomic(using=alias))
            around.callback(transaction.set_rollback, True, using=alias)
        yield


def _fitting(found: JSON) -> JSON:
    """An answer that a message can hold: long values are cut, and a note says which."""
    whole = get_conf().page_bytes // 3
    if len(encode(found)) <= whole:
        return found
    differing = [*found["diff"], *(one for row in found.get("rows", ()) for one in row.get("diff", ()))]
    cut = states.shortened(differing, max(filling.LEAST_CUT, whole // (4 * max(1, len(differing)))))
    note = f"Values of {', '.join(cut)} ending in … are cut here alone. They are written whole."
    return {**found, "notes": [*found.get("notes", ()), note]} if cut else found


def _plain_of(given: Given) -> JSON:
    rows_given = {name: [_plain(one) for one in found] for name, found in given.rows.items()}
    return {"values": _plain(given.main), "rows": rows_given}


def _plain(one: filling.GivenForm) -> JSON:
    found = {name: _text(value) for name, value in sorted(one.values.items())}
    return {"index": one.index, "delete": one.is_deleted, "values": found}


def _steady(first: Iterable[JSON], second: Iterable[JSON], given: filling.GivenForm | None = None) -> list[JSON]:
    """The differences that the form makes each time. Of a field with another value each time: what was given."""
    again = list(second)
    found = [one for one in first if one in again]
    known = {one["field"] for one in found}
    for one in first:
        if given is not None and one["field"] in given.values and one["field"] not in known:
            value = states.given_value(given.form.fields[one["field"]], given.values[one["field"]])
            found.append({**one, "after": value})
    return found


def _text(value: Any) -> Any:
    if isinstance(value, StoredUpload):
        return [value.name, value.uri]  # Its bytes stay what they are.
    if isinstance(value, File):
        content = value.read()
        value.seek(0)
        return [value.name, hashlib.sha256(content).hexdigest()]
    if isinstance(value, list):
        return [_text(each) for each in value]
    return f"{type(value).__name__} {value!r}"
