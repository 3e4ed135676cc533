"""What a change does, as the parts that ``change/effect.html`` shows: rows that change alike together, in pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from django.http import HttpRequest
from django.utils.formats import number_format
from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.changes import summaries
from mcp_django.bridge.changes.row_names import NOTHING
from mcp_django.bridge.changes.summaries import Line, exact
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

#: Rows that a page names, each with all its values.
ROWS_OF_PAGE = 100
_MOST_DIGITS = 9
#: What is told of rows as a whole: "named" stands for rows of which nothing more is said.
_WHOLE = ("delete", "on", "named")

#: The lines of what is done to one row.
_Row = Sequence[Line]


@dataclass(frozen=True, slots=True)
class _Group:
    """Rows that stand together, and how the template shows some of them."""

    rows: Sequence[_Row]
    #: Is given those that a page shows, how many come before them, and how many there are.
    part: Callable[[Sequence[_Row], int, int], JSON]


def page_in(request: HttpRequest) -> int:
    """The page of rows that the URL names, the first one where it names none."""
    named = request.GET.get("rows", "")
    return int(named) if named.isdecimal() and len(named) <= _MOST_DIGITS else 1


def parts_of(lines: Iterable[Line], page: int = 1) -> JSON:
    """One page of what a change does. Each row is on one of the ``pages``, and each group has the number of its rows.

    What is told in numbers is on all of them.
    """
    found: JSON = {"groups": [], "notes": [], "deleted": [], "unlinked": []}
    of_rows: list[_Row] = []
    for (change, *_rest), group in groupby(lines, key=summaries.place_of):
        row = list(group)
        if change in summaries.COUNTED:
            found[change] += [(_label(one.model), one.count) for one in row]
        else:
            of_rows.append(row)
    pages = max(1, -(-len(of_rows) // ROWS_OF_PAGE))
    page = min(max(page, 1), pages)
    first, place = (page - 1) * ROWS_OF_PAGE, 0
    for one in _groups(of_rows):
        begin = max(0, first - place)
        if shown := one.rows[begin : max(0, first + ROWS_OF_PAGE - place)]:
            part = one.part(shown, begin, len(one.rows))
            if len(shown) < len(one.rows):
                part["cut"] = {"first": begin + 1, "last": begin + len(shown), "of": len(one.rows)}
            found["groups"].append(part)
        place += len(one.rows)
    return {**found, "page": page, "pages": range(1, pages + 1), "count": len(of_rows)}


def _label(model: str) -> str:
    return ngettext("other record", "other records", 2) if model == summaries.OTHERS else model


def _groups(rows: Iterable[_Row]) -> list[_Group]:
    """What is run comes first, then what is deleted, then rows of equal values, then those of the same fields."""
    alike: dict[Any, list[_Row]] = {}
    for row in rows:
        alike.setdefault(_place_of(row), []).append(row)
    found: list[_Group] = []
    of_fields: dict[Any, list[_Row]] = {}
    for place, some in alike.items():
        if place[0] in _WHOLE:
            found.append(_Group(some, _named))
        elif len(some) > 1 or place[0] == "run":
            found.append(_Group(some, _equal))
        else:
            of_fields.setdefault((*place[:2], tuple(line.column for line in some[0])), []).append(some[0])
    return [*found, *(_Group(some, _table if len(some) > 1 else _equal) for some in of_fields.values())]


def _place_of(row: _Row) -> tuple[Any, ...]:
    """Equal for rows to which the same is done."""
    one = row[0]
    if one.change in _WHOLE:
        return one.change, one.model
    return one.change, one.model, tuple((line.column, line.before, line.after) for line in row)


def _named(rows: Sequence[_Row], _begin: int, _count: int) -> JSON:
    """Rows of which nothing but themselves is told."""
    return {"is_of": rows[0][0].change, "rows": [summaries.who(row[0]) for row in rows]}


def _equal(rows: Sequence[_Row], _begin: int, count: int) -> JSON:
    """Rows that change alike: their values once, and their names."""
    first = rows[0]
    diff = [{"field": exact(one.column), **_values(one)} for one in first if one.column]
    names = [summaries.who(row[0]) for row in rows] if count > 1 and first[0].key else []
    return {"title": _title(first[0], count), "diff": diff, "rows": names}


def _table(rows: Sequence[_Row], begin: int, count: int) -> JSON:
    """Rows of the same fields with different values: a line for each. A new one has no key, and has its number."""
    lines = [
        {
            "name": summaries.who(row[0]) if row[0].key else str(number),
            "cells": [{"changes": row[0].change == "update", **_values(one)} for one in row if one.column],
        }
        for number, row in enumerate(rows, begin + 1)
    ]
    columns = [exact(one.column) for one in rows[0] if one.column]
    return {"title": _title(rows[0][0], count), "columns": columns, "lines": lines}


def _title(line: Line, count: int) -> str:
    """What is done to so many rows, in the words of a page."""
    if line.change == "run":
        return gettext("Run %(name)s") % {"name": exact(line.name)}
    return done_to(line.change, line.model, count, summaries.who(line) if count == 1 and line.key else "")


def done_to(change: str, model: str, count: int, name: str = "") -> str:
    """What is done to so many rows of a model; ``name``: to the one of that name."""
    if name:
        text = gettext("Delete %(model)s %(name)s") if change == "delete" else gettext("Change %(model)s %(name)s")
    elif change == "create":
        text = ngettext("Create one %(model)s", "Create %(count)s %(model)s", count)
    elif change == "delete":
        text = ngettext("Delete %(model)s", "Delete %(count)s %(model)s", count)
    else:
        text = ngettext("Change %(model)s", "Change %(count)s %(model)s", count)
    others = model == summaries.OTHERS
    noun = ngettext("other record", "other records", count) if others else summaries.noun(model, count)
    return text % {"count": number_format(count, force_grouping=True), "model": noun, "name": name}


def _values(line: Line) -> JSON:
    return {"before": exact(line.before), "after": exact(line.after)}


# The answer to an agent.

_DONE: Mapping[str, Any] = {"add": _("add %(what)s"), "change": _("change %(what)s"), "delete": _("delete %(what)s")}


def parts_of_answer(result: JSON) -> JSON:
    """The parts of what an agent was answered."""
    rows = sorted(result.get("rows", ()), key=lambda row: row["change"] != "delete")
    parts = [
        {
            "title": _done(row["change"], " ".join(filter(None, [row["inline"], row.get("pk"), row.get("name")]))),
            "diff": row.get("diff", ()),
        }
        for row in rows
    ]
    deletes = [one for one in parts if not one["diff"]]
    diffs = [*deletes, {"title": "", "diff": result.get("diff", ())}, *(one for one in parts if one["diff"])]
    groups: list[JSON] = [
        {
            "title": exact(one["title"]),
            "diff": [{name: _text(value) for name, value in each.items()} for each in one["diff"]],
        }
        for one in diffs
        if one["diff"] or one["title"]
    ]
    if deleted := [exact(", ".join(filter(None, row))) for row in result.get("deleted_rows", ())]:
        groups.insert(0, {"is_of": "delete", "rows": deleted})
    return {
        "groups": groups,
        "notes": [printable(note) for note in result.get("notes", ())],
        "deleted": list(result.get("deleted", {}).items()),
        "unlinked": list(result.get("unlinked", {}).items()),
    }


def _done(change: str, row: str) -> str:
    """What was done to a row of an inline."""
    return (str(_DONE.get(change, f"{change} %(what)s")) % {"what": row}).strip()


def _text(value: Any) -> str:
    """A value of a diff, each character of which shows as what it is."""
    if value is None:
        return NOTHING
    return exact(value if isinstance(value, str) else encode(value).decode())
