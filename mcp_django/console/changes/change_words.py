"""What changes do, each in one line of a list, as far as whoever looks may read it at this moment.

The words are those of the stored summary, so that no change is proposed anew for them. Rows are named as their policy
for this person has it, each model is asked once for a whole list, and a value is left out where its policy would have
to be asked for each row: one of a foreign key, say.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.http import HttpRequest
from django.utils import timezone
from django.utils.formats import number_format
from django.utils.text import capfirst
from django.utils.translation import gettext, ngettext

from mcp_django.audit.lines import safe_key
from mcp_django.bridge.changes import approvals, change_rows, outcomes, row_names, summaries
from mcp_django.bridge.changes.shown_values import model_field
from mcp_django.bridge.changes.summaries import Line, exact
from mcp_django.bridge.resources.policy.policy import Rights
from mcp_django.bridge.resources.policy.visible_rows import visible_keys
from mcp_django.bridge.resources.uris import LEFT_OUT
from mcp_django.console.changes import deciding
from mcp_django.console.changes.effect_parts import done_to
from mcp_django.exchange.requests import from_view
from mcp_django.models import Change
from mcp_django.protocol.names import client_name, printable

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights

#: Rows that a line names, fields whose values it tells, and the characters of one of them.
_MOST_NAMED, _MOST_FIELDS, _MOST_CHARS = 3, 2, 60
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


@dataclass(frozen=True, slots=True)
class Told:
    """A change in words."""

    text: str
    #: The same without values, which a page that shows them as they are now need not contradict.
    title: str
    #: Equal for changes of one agent which do the same to rows of one model. None where not all of it is told.
    alike: Hashable = None


class ChangeWords:
    """What some changes do, for the person of a request."""

    def __init__(self, request: HttpRequest, changes: Iterable[Change]) -> None:
        self._request = request
        self._changes = [one for one in changes if deciding.may_read(request, one)]
        self._lines = {one.pk: _main_lines(one) for one in self._changes}
        self._rights: dict[str, Rights] = {}
        #: By site, tenant and model.
        self._names: dict[tuple[str, str, str], Mapping[str, str]] = {}
        places = {(one.site, one.tenant, model) for one in self._changes for model in self._models_of(one)}
        for site, tenant, model in places:
            there = [one for one in self._changes if (one.site, one.tenant) == (site, tenant)]
            of_model = [one for one in there if model in self._models_of(one)]
            self._names[site, tenant, model] = self._named(of_model, model, _MOST_NAMED)

    def of(self, change: Change) -> Told:
        """The change in words; by its keys alone for somebody who may not read of it, or of none of its rows."""
        told = self._of(change)
        if change.kind != Change.Kind.UNDO:
            return told
        undo, several = gettext("Undo: %(what)s"), gettext("records of several models")
        text, title = (told.text, told.title) if change.model else (several, several)
        return Told(undo % {"what": text}, undo % {"what": title})

    def _of(self, change: Change) -> Told:
        lines = self._lines.get(change.pk, [])
        rows = _rows_of(line for line in lines if line.model)
        names = [self._name(change, row[0]) for row in rows[:_MOST_NAMED]]
        is_run = bool(lines) and lines[0].change == "run"
        if not (self._is_told(change, rows, names) if rows and change.model else is_run):
            named = by_keys(self._request, change)
            return Told(named, named)
        count = max(len(rows), change.rows if change.kind == Change.Kind.ACTION else len(change_rows.keys_of(change)))
        which = _listed([name for name in names if name], count)
        if is_run:
            title = exact(lines[0].name) + (f": {_counted(change.model, count)}" if rows and change.model else "")
            # What is given to it may name rows that this person does not see.
            names_rows = any(line.change == "on" for line in summaries.read(change.summary))
            told = lines if deciding.is_own(self._request, change) or not names_rows else ()
            values, more = [_in_words(line) for line in told if line.column], 0
        else:
            title = done_to(change.operation, change.model, count)
            values, more = self._values(change, rows, names)
        if count == 1 and change.operation == "update" and which and (values or more):
            # The verb says nothing beside the values.
            title, which = f"{capfirst(_counted(change.model, 1))} {which}", ""
        shown, more = values[:_MOST_FIELDS], more + max(0, len(values) - _MOST_FIELDS)
        if more:
            shown.append(ngettext("%(count)d more", "%(count)d more", more) % {"count": more})
        text = f"{title} ({which})" if which else title
        alike = (change.site, change.line, change.user_id, change.tool, change.model, *values)
        is_whole = bool(change.model) and count == len(rows) == 1 and not more and outcomes.waits(change)
        return Told(": ".join(filter(None, [text, ", ".join(shown)])), text, alike if is_whole else None)

    def _is_told(self, change: Change, rows: Sequence[Sequence[Line]], names: Sequence[str]) -> bool:
        """Whether one of its rows may be seen. Whether a new one would be is not known where others are not."""
        if rows[0][0].key:
            return any(names)
        rights = self._rights_of(change).of_label(change.model)
        return rights is not None and (not rights.scoped or deciding.is_own(self._request, change))

    # Rows.

    def rows_of(self, change: Change) -> list[Line]:
        """The rows of a change, with their names and without values: those that may be seen, and that are gone."""
        found = []
        for model in self._models_of(change) if change.pk in self._lines else ():
            names = self._named([change], model, None)
            keys = _keys_of(change, model, self._lines[change.pk])
            found += [Line("named", model, key, names[key]) for key in keys if key in names]
        return found

    def _models_of(self, change: Change) -> list[str]:
        """The model of its rows, or those of the rows that a function is given."""
        lines = self._lines.get(change.pk, ())
        return [change.model] if change.model else list(dict.fromkeys(line.model for line in lines if line.model))

    def _named(self, changes: Sequence[Change], model: str, most: int | None) -> dict[str, str]:
        """By their keys, the names of the first rows of a tenant's changes of a model, as far as they may be read."""
        rights = self._rights_of(changes[0]).of_label(model)
        if rights is None or not rights.has_rows:
            return {}
        wanted = {one.pk: _keys_of(one, model, self._lines[one.pk])[:most] for one in changes}
        keys = list(dict.fromkeys(key for some in wanted.values() for key in some))
        # In another tenant these keys name other rows. Only the user of its agent reads of a change there.
        is_here = deciding.is_in_its_tenant(self._request, changes[0])
        visible = visible_keys(rights, keys) if is_here else ()
        named = row_names.names_of(rights, [key for key in keys if key in visible])
        found = {key: named.get(key, "") for key in keys if key in visible}
        for one in changes:
            missing = [key for key in wanted[one.pk] if key not in found]
            if missing and self._reads_names_of(one, rights):
                kept = {line.key: line.name for line in self._lines[one.pk] if line.model == model}
                found |= {key: kept.get(key, "") for key in missing}
        return found

    def _reads_names_of(self, change: Change, rights: ModelRights) -> bool:
        """Whether somebody may read what the rows were called that cannot be read any more.

        The user of its agent has read it. Others would have read it if all rows are theirs to see, and as much of each
        as the agent's user reads.
        """
        if deciding.is_own(self._request, change):
            return True
        if change.user is None or rights.scoped:
            return False
        site = deciding.site_of(change)
        of_agent = approvals.rights_of(from_view(self._request), change.user, site).of_label(rights.label)
        return of_agent is not None and row_names.are_told(of_agent, rights)

    def _name(self, change: Change, line: Line) -> str:
        """What a row is called, in a list; empty where it may not be seen. A new one has no name yet."""
        name = self._names[change.site, change.tenant, line.model].get(line.key) if line.key else None
        return "" if name is None else _short(name or line.key)

    # Values.

    def _values(self, change: Change, rows: Sequence[Sequence[Line]], names: Sequence[str]) -> tuple[list[str], int]:
        """What is written, as far as it is the same for all rows, and how many values are not told."""
        rights, is_own = self._rights_of(change).of_label(change.model), deciding.is_own(self._request, change)
        # Values of rows that may be hidden are not held against those of others.
        sees_all = is_own or (rights is not None and not rights.scoped) or (len(rows) <= len(names) and all(names))
        found, untold = list[str](), 0
        for line in rows[0]:
            if not line.column:
                continue
            if rights is None or not _is_readable(rights, line.column):
                untold += 1
                continue
            is_told = sees_all and (is_own or _is_plain(rights, line.column)) and _is_in_all(line, rows)
            found.append(_in_words(line) if is_told else exact(line.column))
        return found, untold

    def _rights_of(self, change: Change) -> Rights:
        if change.site not in self._rights:
            site = deciding.site_of(change)
            self._rights[change.site] = approvals.rights_of(from_view(self._request), self._request.user, site)
        return self._rights[change.site]


def by_keys(request: HttpRequest, change: Change) -> str:
    """The change by the keys of its rows, as whoever may know of it sees it."""
    keys = keys_shown(request, change)
    named = printable(", ".join(keys[:_MOST_NAMED]))
    if more := max(0, len(keys) - _MOST_NAMED):
        named += " " + ngettext("and %(number)d more", "and %(number)d more", more) % {"number": more}
    return " ".join(filter(None, [str(change), named]))


def agent_of(change: Change) -> str:
    """The client that proposes it, or its token; empty for a person who undoes something."""
    # An OAuth client chooses what its tokens are named, and a user the names of theirs.
    return printable(change.client_name or client_name(change.token_name))


def time_left(change: Change) -> str:
    """How long it waits yet, in days, hours or minutes, rounded."""
    seconds = max(0, (change.expires_at - timezone.now()).total_seconds())
    days, hours, minutes = round(seconds / _DAY), round(seconds / _HOUR), round(seconds / _MINUTE)
    if seconds >= _DAY:
        return ngettext("%(count)d day left", "%(count)d days left", days) % {"count": days}
    if seconds >= _HOUR:
        return ngettext("%(count)d hour left", "%(count)d hours left", hours) % {"count": hours}
    return ngettext("%(count)d minute left", "%(count)d minutes left", minutes) % {"count": minutes}


def keys_shown(request: HttpRequest, change: Change) -> list[str]:
    """The keys of its records, with LEFT_OUT for each that is another user's and may not be shown."""
    keys = change_rows.keys_of(change)
    return keys if deciding.is_own(request, change) else [safe_key(key) or LEFT_OUT for key in keys]


def _main_lines(change: Change) -> list[Line]:
    """The lines about what is run and its own rows, and not those of inlines and of what is deleted with them."""
    lines, keys = summaries.read(change.summary), set(change_rows.keys_of(change))
    if not change.model:
        return [line for line in lines if not line.count]
    return [
        line
        for line in lines
        if line.change == "run" or (line.model == change.model and not line.count and (line.key in keys or not keys))
    ]


def _keys_of(change: Change, model: str, lines: Iterable[Line]) -> list[str]:
    """The keys of its rows of a model, in the order in which they are told."""
    told = [line.key for line in lines if line.key and line.model == model]
    return list(dict.fromkeys([*told, *(change_rows.keys_of(change) if model == change.model else ())]))


def _rows_of(lines: Iterable[Line]) -> list[list[Line]]:
    found: dict[Any, list[Line]] = {}
    for line in lines:
        found.setdefault(summaries.place_of(line), []).append(line)
    return list(found.values())


def _is_readable(rights: ModelRights, name: str) -> bool:
    """Whether values of a field may be read. One of the form alone is what the agent has given."""
    return name in rights.columns or name in rights.relations or model_field(rights.model, name) is None


def _is_plain(rights: ModelRights, name: str) -> bool:
    """Whether each value of the field may be read, without a look at the row that it names."""
    column = rights.columns.get(name)
    return name not in rights.relations if column is None else column.related is None and not column.masked


def _is_in_all(line: Line, rows: Sequence[Sequence[Line]]) -> bool:
    """Whether all rows change so."""
    what = (line.column, line.before, line.after)
    return all(any((one.column, one.before, one.after) == what for one in row) for row in rows)


def _in_words(line: Line) -> str:
    if line.change != "update":
        return f"{exact(line.column)} {_short(line.after)}"
    return f"{exact(line.column)} {_short(line.before)} → {_short(line.after)}"


def _counted(label: str, count: int) -> str:
    meta = apps.get_model(label)._meta
    if count == 1:
        return printable(str(meta.verbose_name))
    number = number_format(count, force_grouping=True)
    text = ngettext("%(count)s %(model)s", "%(count)s %(model)s", count)
    return printable(text % {"count": number, "model": meta.verbose_name_plural})


def _listed(names: Sequence[str], count: int) -> str:
    return ", ".join([*names, *(["…"] if names and count > len(names) else [])])


def _short(text: str) -> str:
    return exact(text if len(text) <= _MOST_CHARS else f"{text[: _MOST_CHARS - 1]}…")
