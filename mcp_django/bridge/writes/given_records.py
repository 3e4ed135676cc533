"""The rows that one call writes, and what is given for each: named by ids or a filter, listed, or in a file of CSV."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from django.forms import JSONField
from pydantic_core import from_json

from mcp_django.bridge.resources import rules
from mcp_django.bridge.resources.fields.errors import MAX_MISTAKES, InvalidQuery
from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.resources.reading.keys import no_record
from mcp_django.bridge.resources.reading.rows import of_key
from mcp_django.bridge.tools.action_rows import keys_of_filter
from mcp_django.bridge.uploads.files import NO_UPLOAD, open_upload
from mcp_django.bridge.writes import values
from mcp_django.bridge.writes.opening import GivenRow, open_form
from mcp_django.conf import get_conf
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from django.db import models

    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableField, WritableForm
    from mcp_django.exchange.exchange import Exchange

#: Rows that a call may list. More come by a filter, or in a file.
MOST_LISTED = 100
#: The most rows of any call, whatever the settings say.
_MOST = 1_000
#: The longest file, which is read as a whole.
_MOST_BYTES = 5_000_000
#: JSON types whose values a cell of a table holds as their JSON.
_AS_JSON = {"integer", "number", "boolean", "object", "array"}


def most_rows() -> int:
    """How many rows a call may write."""
    return max(1, min(get_conf().MAX_BULK_ROWS, _MOST))


def rows_of_ids(model: ModelRights, ids: Sequence[str], most: int) -> list[models.Model]:
    """The visible rows of these ids, in the order of their texts. Raises ToolError."""
    unique = list(dict.fromkeys(ids))
    if len(unique) > most:
        raise ToolError("Nothing was changed.", [field_error("ids", f"at most {most:,} at a time.")])
    seen = visible_rows.visible_keys(model, unique)
    found = {str(row.pk): row for row in model.rows().filter(has_key_in(model.model, list(seen)))} if seen else {}
    errors = [field_error("ids", no_record(model, key), key) for key in unique if str(key) not in found]
    if errors:
        why = " ".join(["There is no such record. Nothing was changed.", *rules.of_model(model)])
        raise ToolError(why, errors[:MAX_MISTAKES], reason="NO_RECORD")
    return [found[key] for key in sorted(found)]


def rows_of_filter(model: ModelRights, conditions: JSON, notes: list[str]) -> list[models.Model]:
    """The visible rows that meet a filter, in the order of their keys. Raises ToolError and TooSlow."""
    keys = keys_of_filter(model, conditions, most_rows(), notes)
    if not keys:
        raise ToolError(" ".join(["No row matches the filter. Nothing was changed.", *notes]), reason="NO_RECORD")
    found = {row.pk: row for row in model.rows().filter(has_key_in(model.model, keys))}
    return [found[key] for key in keys if key in found]


def check_one_of(arguments: JSON, *names: str) -> None:
    """Raises InvalidQuery unless the call has one of these arguments."""
    if sum(bool(arguments.get(name)) for name in names) != 1:
        raise InvalidQuery.one(names[0], f"give one of {', '.join(names)}.")


# Updates.


def updates(model: ModelRights, arguments: JSON, notes: list[str]) -> list[GivenRow]:
    """The rows to change, each with its values, in the order of their keys. Raises InvalidQuery and ToolError."""
    check_one_of(arguments, "ids", "filter", "each")
    if each := arguments.get("each"):
        if "values" in arguments:
            raise InvalidQuery.one("values", "does not go with each, which has the values of each row.")
        given = _by_id(each)
        found = rows_of_ids(model, list(given), most_rows())
        return [_given_row(model, row, given[str(row.pk)]) for row in found]
    if not arguments.get("values"):
        raise InvalidQuery.one("values", "is needed: field \u2192 value, the same for all rows.")
    found = (
        rows_of_ids(model, arguments["ids"], most_rows())
        if arguments.get("ids")
        else rows_of_filter(model, arguments["filter"], notes)
    )
    return [_given_row(model, row, arguments["values"]) for row in found]


def _by_id(each: Iterable[JSON]) -> dict[str, JSON]:
    found: dict[str, JSON] = {}
    for number, one in enumerate(each):
        key = one.get("id")
        if not isinstance(key, str | int) or isinstance(key, bool):
            raise InvalidQuery.one(f"each.{number}.id", "is needed: the primary key of the record.")
        if str(key) in found:
            raise InvalidQuery.one(f"each.{number}.id", "stands twice.", key)
        found[str(key)] = {name: value for name, value in one.items() if name != "id"}
    return found


def _given_row(model: ModelRights, row: models.Model, given: JSON) -> GivenRow:
    """What is given for a row, with the rights on it where these differ from row to row."""
    if not model.shows_by_object:
        return GivenRow(model, row.pk, given)
    found = of_key(model, row.pk)
    return GivenRow(model if found is None else found[0], row.pk, given)


# New rows.


def creations(exchange: Exchange, model: ModelRights, arguments: JSON) -> list[GivenRow]:
    """The new rows with their values, in the order in which they come. Raises InvalidQuery and ToolError."""
    check_one_of(arguments, "rows", "file")
    given = arguments.get("rows") or _read_csv(exchange, model, arguments["file"])
    return [GivenRow(model, None, one) for one in given]


def _read_csv(exchange: Exchange, model: ModelRights, uri: str) -> list[JSON]:
    """The rows of a file of CSV, whose first line names the fields as describe_form does.

    An empty cell counts as not named. Numbers, booleans and dates are written as in JSON. Raises InvalidQuery with the
    first errors, each with its line.
    """
    import csv

    try:
        upload = open_upload(exchange, uri)
    except LookupError:
        raise InvalidQuery.one("file", NO_UPLOAD, uri) from None
    if upload.size is not None and upload.size > _MOST_BYTES:
        raise InvalidQuery.one("file", f"is larger than {_MOST_BYTES:,} bytes. Send it in parts.")
    try:
        text = upload.read().decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InvalidQuery.one("file", "is not UTF-8.") from None
    lines = csv.reader(io.StringIO(text, newline=""), strict=True)
    main = open_form(model, None)[1]
    try:
        header = [name.strip() for name in next(lines, [])]
        _check_header(header, main)
        found: list[JSON] = []
        errors: list[FieldError] = []
        for cells in lines:
            if not any(cells):
                continue
            if len(found) >= most_rows():
                raise InvalidQuery.one("file", f"has more than {most_rows():,} rows. Send it in parts.")
            row, wrong = _read_line(header, cells, main, lines.line_num)
            found.append(row)
            errors += wrong
    except csv.Error as error:
        raise InvalidQuery.one("file", f"line {lines.line_num}: {error}.") from None
    if errors:
        raise InvalidQuery(errors[:MAX_MISTAKES])
    if not found:
        raise InvalidQuery.one("file", "has no rows.")
    return found


def _check_header(header: Sequence[str], main: WritableForm) -> None:
    twice = [name for name, count in Counter(header).items() if count > 1]
    unknown = [name for name in header if name not in main.fields and name not in _currencies(main)]
    missing = [
        name
        for name, one in main.fields.items()
        if getattr(one.bound.field, "required", False) and one.bound.initial in (None, "", []) and name not in header
    ]
    for names, what in ((twice, "stands twice"), (unknown, "is no field"), (missing, "is missing and required")):
        if names:
            known = f" Fields: {', '.join(main.fields)}." if names is unknown else ""
            raise InvalidQuery.one("file", f"line 1: {', '.join(name[:50] for name in names[:10])} {what}.{known}")


def _currencies(main: WritableForm) -> list[str]:
    """The names of the currencies beside amounts, which are in the same fields of the form."""
    return list(filter(None, map(main.currency_beside, main.fields)))


def _read_line(
    header: Sequence[str], cells: Sequence[str], main: WritableForm, line: int
) -> tuple[JSON, list[FieldError]]:
    if len(cells) != len(header):
        return {}, [field_error("file", f"line {line}: has {len(cells)} cells, and the first line {len(header)}.")]
    row: JSON = {}
    errors: list[FieldError] = []
    for name, cell in zip(header, cells, strict=True):
        if cell:
            try:
                row[name] = _read_cell(main.fields[name], cell) if name in main.fields else cell
            except ValueError:
                errors.append(field_error("file", f"line {line}: {name} is not written as in JSON.", cell[:100]))
    return row, errors


def _read_cell(one: WritableField, cell: str) -> Any:
    """The value of a cell. Raises ValueError."""
    kind = values.kind_in(one)
    types = {} if kind is None or one.related is not None else kind.schema.get("type", ())
    is_of_json = not _AS_JSON.isdisjoint([types] if isinstance(types, str) else types)
    is_json = one.is_list or is_of_json or isinstance(one.bound.field, JSONField)
    return from_json(cell) if is_json else cell
