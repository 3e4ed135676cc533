"""Values of rows as JSON: exact, bounded, and with a note of what was cut."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, Protocol

from django.db import connections, models

from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields import unreadable
from mcp_django.bridge.resources.fields.columns import Column, Output, RelatedRows
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.kinds import DATE, DATETIME, TEXT, TIME, Kind
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE, Unreadable, is_fault_of_value
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.conf import get_conf
from mcp_django.core.compat.connections import always_marking
from mcp_django.core.db.bounds import fetch
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.types import JSON

logger = logging.getLogger("mcp_django")

#: Values with fewer bytes are never cut to make room.
_LONG_BYTES = 1_000


def fetch_values(queryset: models.QuerySet[Any], width: int | None = None) -> list[Any]:
    """All rows of a ``values_list``, with UNREADABLE in the place of a value that cannot be read.

    Raises TooSlow, and InvalidQuery where the rows do not have as many values as were asked for, which is ``width``.
    """
    try:
        with always_marking(connections[queryset.db], UNREADABLE):
            found = fetch(queryset)
    except Exception as error:  # noqa: BLE001 - it is raised again there if no value is at fault
        found = unreadable.fetch_marked(queryset, error)
    if width is not None and any(len(row) != width for row in found):
        raise _misshapen(queryset.model, width)
    return found


def _misshapen(model: type[models.Model], width: int) -> InvalidQuery:
    label = model._meta.label_lower
    logger.error("A queryset of %s gives rows of another length than the %s columns that were asked for", label, width)
    message = f"{label} cannot be read: a package of the project gives other values than those that are asked for."
    return InvalidQuery.one("model", message, label)


class Written(Protocol):
    """A column of a table that a client gets."""

    @property
    def name(self) -> str: ...

    @property
    def kind(self) -> Kind: ...


def write(output: Output, value: Any) -> Any:
    """A value as JSON. Not for a kind whose values are links, which need the key of their row: see ``write_rows``."""
    return None if value is None else output.kind.write(value)


def write_rows(
    rights: ModelRights, outputs: Sequence[Written], rows: Sequence[Sequence[Any]], limit: int, notes: list[str]
) -> tuple[list[list[Any]], list[str]]:
    """The rows as JSON values, and the names of the columns that were cut: no value is longer than ``limit``.

    A row begins with a value for each output; what comes after is left out. Where there are links, the first value is
    the primary key. A value that cannot be read or written is null, with a note.
    """
    columns: list[Sequence[Any]] = []
    cut: list[str] = []
    lost: dict[str, list[int]] = {}
    for output, values in zip(outputs, zip(*rows, strict=True), strict=False):
        if output.kind.linked:
            columns.append([
                uris.file_uri(rights.model, row[0], output.name) if value and value is not UNREADABLE else None
                for row, value in zip(rows, values, strict=True)
            ])  # fmt: skip
            lost[output.name] = [place for place, value in enumerate(values) if value is UNREADABLE]
            continue
        places = lost[output.name] = _places_of_lost(output, values)
        written = _write_column(output.kind, values, places.append)
        if output.kind.long and not _are_short_texts(written, limit):
            whole, written = written, [_shortened(value, limit) for value in written]
            if any(value is not short for value, short in zip(whole, written, strict=True)):
                cut.append(output.name)
        columns.append(written)
    if any(lost.values()):
        keys = columns[0] if _is_key(outputs[0]) else ()
        notes.append(
            unreadable.note(
                {name: [keys[at] for at in places] if keys else () for name, places in lost.items() if places}
            )
        )
    return [list(row) for row in zip(*columns, strict=True)], cut


def _is_key(output: Written) -> bool:
    """Whether a column names its rows, as that of a page does and that of groups does not."""
    return isinstance(output, Column) and output.field.primary_key and not output.via


def _places_of_lost(output: Written, values: Sequence[Any]) -> list[int]:
    """The places of values of which the driver made null, where there is no null: MariaDB's 0000-00-00."""
    is_never_null = isinstance(output, Column) and output.kind in (DATE, DATETIME, TIME) and not output.nullable
    return [place for place, value in enumerate(values) if value is None] if is_never_null and None in values else []


def _write_column(kind: Kind, values: Sequence[Any], lose: Callable[[int], None]) -> Sequence[Any]:
    """The values as JSON; ``lose`` is called with the place of each that cannot be read or written."""
    types = set(map(type, values))
    if kind.is_json(values, types):
        if float in types and not math.isfinite(sum(filter(None, values))):
            return [_finite(value, partial(lose, place)) for place, value in enumerate(values)]
        return values
    if Unreadable not in types:
        with suppress(Exception):
            write = kind.writer()
            written = [None if value is None else write(value) for value in values]
            if float not in types or math.isfinite(sum(filter(None, written))):
                return written
    return [_written(kind, value, partial(lose, place)) for place, value in enumerate(values)]


def _finite(value: float | None, lose: Callable[[], None]) -> float | None:
    """A number, or null for what JSON has no number for."""
    if value is None or math.isfinite(value):
        return value
    lose()
    return None


def _written(kind: Kind, value: Any, lose: Callable[[], None]) -> Any:
    if value is UNREADABLE:
        lose()
        return None
    try:
        written = None if value is None else kind.write(value)
        return _finite(written, lose) if isinstance(written, float) else written
    except Exception as error:
        if not is_fault_of_value(error):
            raise
        lose()
        return None


def _are_short_texts(values: Sequence[Any], limit: int) -> bool:
    """Whether no value of a column needs to be cut, which is seen at once for texts and nulls."""
    return TEXT.json_types.issuperset(map(type, values)) and max(map(len, filter(None, values)), default=0) <= limit


def _shortened(value: Any, limit: int) -> Any:
    """The value, cut if it is longer than ``limit``: a text, or any other value as the text of its JSON."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else encode(value).decode()
    return value if len(text) <= limit else f"{text[:limit]}…"


def cut_record(record: JSON) -> tuple[list[str], int]:
    """Cut the long values of a record that no message can carry. Returns their names, and their new length."""
    page_bytes, sizes = get_conf().page_bytes, {name: len(encode(value)) for name, value in record.items()}
    if sum(sizes.values()) <= page_bytes // 3:
        return [], 0
    long = [name for name, size in sizes.items() if size > _LONG_BYTES]
    limit = page_bytes // 6 // max(1, len(long))
    cut = []
    for name in long:
        value, record[name] = record[name], _shortened(record[name], limit)
        if record[name] is not value:
            cut.append(name)
    return cut, limit


def long_columns(outputs: Sequence[Output]) -> int:
    """The number of columns whose values may be long."""
    inner = (column for output in outputs if isinstance(output, RelatedRows) for column in output.columns)
    return sum(output.kind.long for output in chain(outputs, inner))


def within_bytes(rows: Sequence[list[Any]], budget: int | None = None) -> int:
    """How many of the rows fit into a page, or into ``budget`` bytes: at least one.

    Text and structured content each hold them, and an escape may double them.
    """
    budget = get_conf().page_bytes // 3 if budget is None else budget
    if len(encode(rows)) <= budget:
        return len(rows)
    for count, row in enumerate(rows):
        budget -= len(encode(row))
        if budget < 0:
            return max(count, 1)
    return len(rows)
