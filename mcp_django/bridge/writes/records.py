"""A change of several records of one model: each through its own form, all in one transaction."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from django.db import DataError, IntegrityError, router, transaction
from pydantic_core import from_json

from mcp_django.access.throttling import throttles
from mcp_django.bridge.changes import row_names
from mcp_django.bridge.changes.effects import Effect, lines_of
from mcp_django.bridge.changes.outcomes import text_of
from mcp_django.bridge.changes.proposed import FEW, Proposed
from mcp_django.bridge.changes.shown_values import model_field
from mcp_django.bridge.declared.consent import APPROVED, Considered, Level, Needs
from mcp_django.bridge.declared.secrets import gives_rights
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.writes import access, diffs, given_records, guesses, kept_rows, states
from mcp_django.bridge.writes.kept_rows import Kept
from mcp_django.bridge.writes.sending import RowSender
from mcp_django.bridge.writes.twin import ViewRun
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.models import Change
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.access.throttling.throttles import NewValues
    from mcp_django.bridge.changes.summaries import Line
    from mcp_django.bridge.declared.options import Operation
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.opening import GivenRow, Opened, WhenFilled
    from mcp_django.bridge.writes.sending import SentRow
    from mcp_django.exchange.exchange import Exchange

#: What refuses one row, and leaves the others.
_REFUSALS = (ToolError, InvalidQuery, IntegrityError, DataError)

#: What is done with a row that the form does not accept.
OnError = Literal["stop", "skip"]

#: How long the forms of a preview are tried. The rest is checked when it is written.
_PREVIEW_SECONDS = 20
#: What a preview shows: groups of rows that change alike, names of rows, rows that the form does not accept.
_GROUPS, _NAMES, _REFUSED = 3, 5, 10


class _HasNewValues(Exception):
    """Ends the pass of a row whose new values are counted first."""


@dataclass(frozen=True)
class Tried:
    """What the form would make of one row: a difference, or errors."""

    row: GivenRow
    #: Tells apart new rows.
    number: int
    sent: SentRow | None = None
    errors: Sequence[FieldError] = ()


@dataclass
class ProposedRecords(Proposed):
    """Values for several rows of a model, or for new ones."""

    kind = Change.Kind.RECORDS

    operation: Operation
    exchange: Exchange
    rights: ModelRights
    rows: Sequence[GivenRow]
    arguments: JSON
    on_error: OnError = "stop"
    notes: list[str] = field(default_factory=list)
    #: Whether it is no error that all rows are refused, as where others are written with them.
    leaves_refused: bool = False

    def __post_init__(self) -> None:
        self.label, self.using = self.rights.label, router.db_for_write(self.rights.model)
        self._created: list[Any] = []
        self._new_values: Sequence[NewValues] = ()
        #: Whether any row tells by its values what rows that are not seen hold.
        self._counts_values = False
        #: What was written, with its key.
        self._made: list[tuple[Any, SentRow]] = []

    @property
    def keys(self) -> Sequence[Any]:
        return [row.key for row in self.rows if row.key is not None] or self._created

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @cached_property
    def state(self) -> JSON | None:  # type: ignore[override]
        """The rows, and what is stored of the fields that are named: on a busy table, others may move."""
        keys = [row.key for row in self.rows if row.key is not None]
        if not keys:
            return None
        fields = [one for name in self._names if (one := model_field(self.rights.model, name)) is not None]
        columns = {one.attname for one in fields if one.concrete and not one.many_to_many}
        found = states.stored(self.rights, keys)
        links = {one.name: states.linked(one, keys, self.using) for one in fields if one.many_to_many}
        values = {key: {name: value for name, value in one.items() if name in columns} for key, one in found.items()}
        return {"values": values, "links": links}

    @property
    def _names(self) -> list[str]:
        return list(dict.fromkeys(name for row in self.rows for name in row.values))

    # What it needs.

    @cached_property
    def declared(self) -> Needs:
        found = access.needs_of(self.rights, self.operation, self._considered)
        if self.row_count > FEW:
            found |= Needs(Level.ASK)
        fields = (model_field(self.rights.model, name) for name in self._names)
        return found | APPROVED if any(one is not None and gives_rights(one) for one in fields) else found

    def _considered(self) -> Iterator[Considered]:
        principal = self.exchange.principal
        for tried in self._tried():
            if tried.sent is None:
                # Once the rows before it are written, the form may accept it. A rule that fails needs the approval.
                raise ValueError("the form refuses a row, of which a rule cannot say what it becomes")
            before, planned = tried.sent.before, tried.sent.planned
            was, becomes = (
                {} if one is None else states.readable(tried.row.rights, one.values) for one in (before, planned)
            )
            yield Considered(self.operation, self.row_count, was, becomes, principal.user, principal.lineage)

    def may_be_done_by(self, rights: Rights) -> bool:
        return access.may_do_all(rights, self.label, self.parts)

    # What it does.

    @cached_property
    def _results(self) -> list[Tried]:
        return []

    def _tried(self, seconds: float | None = None, *, counts: bool = False) -> list[Tried]:
        """What the form makes of each row, as far as the time lasts. Nothing is written.

        ``counts``: new values for what must be unique are counted, of each row before its form is validated.
        """
        sender = RowSender(self.rights, leaves_out=True)
        until = None if seconds is None else time.monotonic() + seconds
        for number in range(len(self._results), self.row_count):
            if until is not None and time.monotonic() > until:
                break
            self.exchange.progress(number, self.row_count)
            self._results.append(self._try(sender, number, counts=counts))
        return self._results

    def _try(self, sender: RowSender, number: int, *, counts: bool = False) -> Tried:
        row = self.rows[number]
        try:
            if counts:
                with suppress(_HasNewValues):
                    return Tried(row, number, self._send(sender, row, self._check_new_values))
                # What is counted within the view would be rolled back with it.
                throttles.admit_unique(self.exchange, lambda: self._new_values)
            return Tried(row, number, self._send(sender, row))
        except _REFUSALS as error:
            return Tried(row, number, errors=_errors_of(error))

    def _send(self, sender: RowSender, row: GivenRow, when_filled: WhenFilled = lambda opened: None) -> SentRow:
        with transaction.atomic(using=self.using):
            return sender.send(row, ViewRun(writes=False), when_filled)

    def _check_new_values(self, opened: Opened) -> None:
        self._new_values = guesses.new_values(opened.given, opened.inlines)
        if self._new_values:
            self._counts_values = True
            raise _HasNewValues

    def _diff(self, tried: Tried) -> list[JSON]:
        """The values that would change, without those that the project makes anew each time."""
        sent = tried.sent
        if sent is None:
            return []
        found = diffs.diff_of(sent.opened.main.rights, sent.before, sent.planned, sent.opened.given.main)
        return [one for one in found if one["field"] not in self._unsteady]

    @cached_property
    def _unsteady(self) -> frozenset[str]:
        """The fields that nobody has named, and of which the form makes another value each time."""
        first = next((one for one in self._results if one.sent is not None), None)
        if first is None or first.sent is None:
            return frozenset()
        again = self._try(RowSender(self.rights, leaves_out=True), first.number)
        rights, main = first.sent.opened.main.rights, first.sent.opened.given.main
        one, other = (
            diffs.diff_of(rights, sent.before, sent.planned, main) for sent in (first.sent, again.sent or first.sent)
        )
        return frozenset(diff["field"] for diff in one if diff not in other and diff["field"] not in first.row.values)

    @property
    def parts(self) -> Sequence[Effect]:
        return [
            Effect(self.operation, self.label, "" if row.key is None else str(row.key), row=number)
            for number, row in enumerate(self.rows)
        ]

    @cached_property
    def effects(self) -> Sequence[Effect]:
        found = []
        for tried, part in zip(self._tried(), self.parts, strict=True):
            # A row that the form does not accept now may be one that it accepts later.
            diff = self._diff(tried) or [{"field": name, "after": value} for name, value in tried.row.values.items()]
            found.append(Effect(self.operation, self.label, part.key, diff, row=part.row))
        return found

    def summary(self, *, values: bool) -> Sequence[Line]:
        return lines_of((one, self.rows[one.row].rights) for one in (self.effects if values else self.parts))

    def preview(self) -> JSON:
        """How many rows there are, and how they would change, alike ones together. Raises ToolError."""
        tried = list(self._tried(_PREVIEW_SECONDS, counts=True))
        refused = [one for one in tried if one.errors]
        if refused and not self.leaves_refused and (self.on_error == "stop" or len(refused) == self.row_count):
            raise self._refusal(refused)
        if len(tried) < self.row_count and self._counts_values:
            raise ToolError(
                f"Only {len(tried):,} of {self.row_count:,} rows could be checked in time, and each must be, since "
                "values must be unique. Nothing was changed. Send fewer at a time."
            )
        found: JSON = {"model": self.label, "count": self.row_count, "changes": self._alike(tried)}
        if named := self._named():
            found["sample"] = named
        if refused:
            found["invalid"] = [_refused(one) for one in refused[:_REFUSED]]
            found["invalid_count"] = len(refused)
        notes = [*self.notes]
        if self.row_count > FEW:
            notes.append("What each save sets off, as mail, is not shown.")
        if len(tried) < self.row_count:
            notes.append(f"{self.row_count - len(tried):,} rows are not checked yet: that would take too long.")
        return {**found, "notes": notes}

    def _alike(self, tried: Iterable[Tried]) -> list[JSON]:
        """The differences, each with the number of rows that change so."""
        counted = Counter(encode(self._diff(one)) for one in tried if not one.errors)
        found: list[JSON] = [{"rows": count, "diff": from_json(diff)} for diff, count in counted.most_common(_GROUPS)]
        rest = counted.total() - sum(one["rows"] for one in found)
        return [*found, *([{"rows": rest, "others": len(counted) - len(found)}] if rest else [])]

    def _named(self) -> dict[str, str]:
        keys = [row.key for row in self.rows if row.key is not None]
        named = row_names.names_of(self.rights, keys[:_NAMES])
        return {str(key): named[str(key)] for key in keys[:_NAMES] if str(key) in named}

    def _refusal(self, refused: Sequence[Tried]) -> ToolError:
        errors = [error for one in refused[:_REFUSED] for error in _refused(one)["errors"]]
        rest = ' Correct them, or pass "on_error": "skip" to leave them out.' if len(refused) < self.row_count else ""
        return ToolError(
            f"The form of the admin does not accept {len(refused):,} of {self.row_count:,} rows. Nothing was changed."
            f"{rest}",
            errors,
        )

    # Writing.

    def apply(self, by: str) -> JSON:
        """Write one row after the other. Raises ToolError where a row is refused, unless those are left out."""
        sender = RowSender(self.rights, leaves_out=True)
        made, refused = 0, list[Tried]()
        for number, row in enumerate(self.rows):
            try:
                with transaction.atomic(using=self.using):
                    sent = sender.send(row, ViewRun(writes=True, by=by))
            except _REFUSALS as error:
                refused.append(Tried(row, number, errors=_errors_of(error)))
                if self.on_error == "stop":
                    raise self._refusal(refused) from None
                continue
            made += 1
            self._made.append((sent.key, sent))
            self.exchange.progress(number + 1, self.row_count)
            if row.key is None and sent.key is not None:
                self._created.append(sent.key)
        if not made and not self.leaves_refused:
            raise self._refusal(refused)
        found: JSON = {"model": self.label, "count": made}
        if self.operation == "create":
            found["ids"] = list(map(str, self._created))
        if refused:
            found |= {"invalid": [_refused(one) for one in refused[:_REFUSED]], "invalid_count": len(refused)}
        return found

    @property
    def kept(self) -> Sequence[Kept]:
        """What differs by what is stored now, which is read at once for all rows."""
        keys = [key for key, _ in self._made if key is not None]
        stored = states.read_again(self.rights.model, keys, self.using)
        named = [one for name in self._names if (one := states.many_to_many(self.rights.model, name)) is not None]
        links = {one.name: states.linked(one, keys, self.using) for one in named}
        return [self._kept(str(key), sent, stored[str(key)], links) for key, sent in self._made if str(key) in stored]

    def _kept(self, key: str, sent: SentRow, values: states.Values, links: Mapping[str, Mapping[str, Any]]) -> Kept:
        after = states.State(values, {name: found.get(key, []) for name, found in links.items()})
        main = sent.opened.given.main
        diff = diffs.whole_diff_of(main.form.rights, sent.before, after, main)
        known = {} if sent.before is None else sent.before.values
        told = kept_rows.restorable(main.form.rights, known, values, diff)
        stored = states.digest_of(self.rights, key) if self.operation == "create" else ""
        return Kept(self.label, key, self.operation, told, stored=stored)


def _refused(one: Tried) -> JSON:
    """What the form has against a row, which is named by its key, or by its place among new ones."""
    place = f"row {one.number + 1}" if one.row.key is None else str(one.row.key)
    return {"row": place, "errors": [{**error, "field": f"{place}: {error['field']}"} for error in one.errors]}


def _errors_of(error: Exception) -> Sequence[FieldError]:
    if isinstance(error, ToolError | InvalidQuery) and error.errors:
        return error.errors
    return [field_error("", text_of(error))]


def propose(exchange: Exchange, operation: Operation, arguments: JSON) -> ProposedRecords:
    """Read the arguments of a call. Raises InvalidQuery, ToolError and TooSlow."""
    rights = Rights(exchange.site, exchange.request, from_primary=True)
    model = access.find(rights, arguments["model"], operation)
    notes: list[str] = []
    if operation == "create":
        rows = given_records.creations(exchange, model, arguments)
    else:
        rows = given_records.updates(model, arguments, notes)
    on_error: OnError = "skip" if arguments.get("on_error") == "skip" else "stop"
    about: JSON = {**arguments, "model": model.label, "on_error": on_error}
    if "file" not in arguments and operation == "update" and "filter" not in arguments:
        # In whichever order they come.
        about = {"model": model.label, "on_error": on_error, "rows": [[str(row.key), row.values] for row in rows]}
    return ProposedRecords(operation, exchange, model, rows, about, on_error, notes)
