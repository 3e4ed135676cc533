"""A change as a person reads of it: what it does to which rows, named and in words. It is asked for, shown and kept.

Nothing of it is hidden from the agent, since the client shows the question, and nothing is cut: what does not fit into
a question is shown on a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import models
from pydantic_core import from_json

from mcp_django.core.types import AnyField
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

#: What is kept of a summary.
_MOST_BYTES = 64_000
#: The label of rows that the agent may not see, of whatever model.
OTHERS = "other records"
_VERBS = {"create": "Create one", "update": "Change", "delete": "Delete"}
_TITLES = {"deleted": "Deleted with them:", "unlinked": "Records that lose their link:"}
#: What is told in numbers.
COUNTED = tuple(_TITLES)


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that a change does: to a column of a row, to a row as a whole, or to a number of others."""

    #: "create", "update" or "delete"; "deleted" or "unlinked" for rows that go with others, or lose their link; "run"
    #: for what is run, and "on" for the rows on which it is.
    change: str
    #: Empty for what is run.
    model: str = ""
    #: Empty for a new row, and for a number of rows.
    key: str = ""
    #: What the row is called beside its key, or what is run.
    name: str = ""
    column: str = ""
    before: str = ""
    after: str = ""
    #: How many rows.
    count: int = 0
    #: Tells apart the rows of inlines, of which new ones have no key.
    row: int = 0


def weight_of(field: AnyField | None) -> int:
    """What is read first: foreign keys to users, then numbers, then the rest."""
    if isinstance(field, models.ForeignKey) and issubclass(field.related_model, get_user_model()):
        return 0
    return 1 if isinstance(field, models.IntegerField | models.DecimalField | models.FloatField) else 2


def question_of(lines: Sequence[Line]) -> str:
    """The text that asks a person. It is equal in each run, and each value shows as what it is."""
    return "\n".join(_texts(lines)).strip()


def _texts(lines: Sequence[Line]) -> Iterator[str]:
    run = [line for line in lines if line.change == "run"]
    if run:
        yield f"{title_of(run[0])}:"
        yield from (f"- {_value(line)}" for line in run if line.column)
        on = [line for line in lines if line.change == "on"]
        for model, of_model in groupby(on, key=lambda line: line.model):
            rows = list(of_model)
            yield from (f"- {len(rows)} {noun(model, len(rows))}:", *(f"  - {who(row)}" for row in rows))
    deleted = [line for line in lines if line.change == "delete"]
    for model, of_model in groupby(deleted, key=lambda line: line.model):
        rows = list(of_model)
        if len(rows) == 1:
            yield f"Delete 1 {noun(model, 1)}: {who(rows[0])}"
        else:
            yield f"Delete {len(rows)} {noun(model, len(rows))}:"
            yield from (f"- {who(row)}" for row in rows)
    for change, title in _TITLES.items():
        counted = [line for line in lines if line.change == change]
        if counted:
            yield from ("", title, *(f"- {line.count} {noun(line.model, line.count)}" for line in counted))
    rest = [line for line in lines if line.change in ("create", "update")]
    for _, of_row in groupby(rest, key=place_of):
        values = list(of_row)
        yield from ("", f"{title_of(values[0])}:")
        yield from (f"- {_value(line)}" for line in values if line.column)


def noun(label: str, count: int) -> str:
    """What so many rows of a model are called."""
    if label == OTHERS:
        return "other record" if count == 1 else OTHERS
    meta = apps.get_model(label)._meta
    return printable(str(meta.verbose_name if count == 1 else meta.verbose_name_plural))


def place_of(line: Line) -> tuple[str, str, str, int]:
    """Names what is done to one row: the lines of its values have it in common."""
    return line.change, line.model, line.key, line.row


def title_of(line: Line) -> str:
    """What is done to a row, without its values."""
    if line.change == "run":
        return f"Run {exact(line.name)}"
    return f"{_VERBS[line.change]} {noun(line.model, 1)}{which(line)}"


def who(line: Line) -> str:
    """A row by its key and its name."""
    key = quoted(line.key, ",")
    return exact(f"{key}, {line.name}" if line.name else key)


def which(line: Line) -> str:
    """A row behind what it is a row of; empty for a new one."""
    return f" {who(line)}" if line.key else ""


def _value(line: Line) -> str:
    was = [line.before] if line.change == "update" else []
    return f"{exact(line.column)}: {' → '.join(map(exact, [*was, line.after]))}"


def exact(text: str) -> str:
    """The text so that no other one looks the same: each character shows, and a backslash is two."""
    shown = printable(text.replace("\\", "\\\\"))
    return encode(shown).decode() if "→" in shown else shown


def quoted(text: str, marks: str = "", *, always: bool = False) -> str:
    """The text in quotes if it has one of the marks, which mean something where it stands, or begins with a quote."""
    is_quoted = always or text.startswith('"') or any(mark in text for mark in marks)
    return encode(text).decode() if is_quoted else text


# Keeping.


def kept(lines: Iterable[Line], *, has_values: bool = True) -> str:
    """The summary as it is stored, as JSON; without values once the change is decided. Names stay."""
    found: list[JSON] = []
    size = 0
    for line in lines:
        one = {name: value for name, value in asdict(line).items() if value}
        if not has_values:
            one = {name: value for name, value in one.items() if name not in ("column", "before", "after")}
        if one in found:
            continue
        size += len(encode(one)) + 1
        if size > _MOST_BYTES:
            break
        found.append(one)
    return encode(found).decode()


def read(stored: str) -> list[Line]:
    found: list[dict[str, Any]] = from_json(stored) if stored else []
    return [Line(**one) for one in found]
