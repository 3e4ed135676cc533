"""The rows that one call of an admin action is for: those of the ids, or those that meet a filter."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.contrib.admin import ModelAdmin
from django.core.exceptions import ValidationError
from django.db import models, router

from mcp_django.bridge.resources import rules
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.field_kinds import kind_of
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE
from mcp_django.bridge.resources.policy import paths, visible_rows, ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading import rows
from mcp_django.bridge.resources.reading.keys import no_record
from mcp_django.bridge.resources.reading.matching import matching_keys
from mcp_django.bridge.resources.reading.selection import names_of, values_of
from mcp_django.bridge.resources.reading.values import fetch_values, write
from mcp_django.core.compat.queries import names_database
from mcp_django.core.db.column_paths import has_key_in, rows_of_keys
from mcp_django.exceptions import FieldError, ToolError, field_error
from mcp_django.protocol.jsonrpc import encode
from mcp_django.protocol.names import printable
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.bridge.resources.fields.columns import Column
    from mcp_django.exchange.requests import MCPRequest

#: Rows of one call. No model writes more keys into a message.
MAX_ACTION_IDS = 1_000
#: What is shown of the rows that a filter finds.
_SHOWN_ROWS, _SHOWN_COLUMNS = 5, 5
#: Columns whose values are counted where nobody said which are changed, and what is said of each.
_COUNTED_COLUMNS, _COUNTED_VALUES, _COUNTED_CHARS = 5, 5, 50
#: Unknown ids that one error names, and those of them that rows are read for to suggest others.
_MAX_UNKNOWN, _MAX_SUGGESTED = 50, 2


@dataclass(frozen=True, slots=True)
class ChosenRows:
    """The rows to act on, each of them once, and their keys."""

    queryset: models.QuerySet[Any]
    keys: list[Any]
    #: What the agent should know about the filter.
    notes: list[str] = field(default_factory=list)

    def stored(self, alias: str) -> models.QuerySet[Any]:
        """Those of the rows that are in the database that is written to, even if the ModelAdmin does not show them.

        ``alias``: that database, unless the queryset names one.
        """
        database = self.queryset.db if names_database(self.queryset) else alias
        rows: models.QuerySet[Any] = self.queryset.model._base_manager.using(database)
        return rows.filter(has_key_in(rows.model, self.keys))


def of_ids(model_mcp: ModelMCP, admin: ModelAdmin[Any], request: MCPRequest, ids: list[Any]) -> ChosenRows:
    """The rows of these ids. Raises ToolError if one of them is not among the rows."""
    primary_key = model_mcp.opts.pk
    kind = kind_of(primary_key, named=True)
    keys: dict[Any, Any] = {}
    wrong: list[int] = []
    for index, received in enumerate(ids):
        try:
            keys[primary_key.to_python(received) if kind is None else kind.read(primary_key, received)] = index
        except ValidationError:
            wrong.append(index)
    queryset = admin.get_queryset(request).filter(has_key_in(admin.model, list(keys)))
    rights = Rights.of(model_mcp.site, request).of_label(model_mcp.label)
    visible = set() if rights is None else visible_rows.visible_keys(rights, list(keys))
    found = [key for key in queryset.order_by().values_list("pk", flat=True) if str(key) in visible]
    there = set(found)
    wrong += [index for key, index in keys.items() if key not in there]
    if wrong:
        errors = _unknown(model_mcp, rights, {index: ids[index] for index in sorted(wrong)[:_MAX_UNKNOWN]})
        limits = [] if rights is None else rules.of_model(rights)
        text = " ".join(["Some ids do not exist. Nothing was changed.", *limits])
        raise ToolError(text, errors, reason="NO_RECORD")
    return ChosenRows(_each_once(queryset, found), list(keys))


def _unknown(model_mcp: ModelMCP, rights: ModelRights | None, ids: Mapping[int, Any]) -> list[FieldError]:
    """An error for each id that no visible row has, with suggestions for the first ones."""
    errors = []
    for place, (index, received) in enumerate(ids.items()):
        message = f"no {model_mcp.label} with the primary key {str(received)[:100]}."
        if rights is not None:
            message = no_record(rights, received, suggests=place < _MAX_SUGGESTED)
        errors.append(field_error(f"ids.{index}", message, received))
    return errors


def _each_once(queryset: models.QuerySet[Any], found: list[Any]) -> models.QuerySet[Any]:
    if len(found) == len(set(found)):
        return queryset
    # A join in get_queryset doubled rows. The action must see each of them once.
    return rows_of_keys(queryset, found)


def of_filter(model_mcp: ModelMCP, admin: ModelAdmin[Any], request: MCPRequest, conditions: JSON) -> ChosenRows:
    """The visible rows that meet the filter, from the database that is written to. Raises ToolError and TooSlow."""
    rights = Rights(model_mcp.site, request, from_primary=True).of_label(model_mcp.label)
    if rights is None:
        raise ToolError("You may not do this. Nothing was changed.", reason="NO_PERMISSION")
    notes: list[str] = []
    keys = keys_of_filter(rights, conditions, MAX_ACTION_IDS, notes)
    queryset = admin.get_queryset(request)
    if not names_database(queryset):
        queryset = queryset.using(router.db_for_write(model_mcp.model))
    found = list(queryset.filter(has_key_in(queryset.model, keys)).order_by().values_list("pk", flat=True))
    among = set(found)
    chosen = [key for key in keys if key in among]
    return ChosenRows(_each_once(queryset.filter(has_key_in(queryset.model, chosen)), found), chosen, notes)


def finds_rows(rights: ModelRights) -> bool:
    """Whether the rows to act on may be found by a filter, which shows some of them.

    Where only groups are shown, the number of rows that meet a condition would reveal what single rows hold.
    """
    return rights.smallest_group <= 1 and ways.is_open(rights, "collection")


def keys_of_filter(rights: ModelRights, conditions: JSON, most: int, notes: list[str]) -> list[Any]:
    """The keys of the visible rows that meet the filter, in their order. Raises ToolError and TooSlow.

    ``notes``: what the agent should know about the filter is added to them.
    """
    if not finds_rows(rights):
        raise _refused(f"single rows of {rights.label} are not shown, so none is found by a filter: give ids.")
    try:
        keys = matching_keys(rights, conditions, most, notes)
    except InvalidQuery as error:
        raise ToolError("Invalid filter. Nothing was changed.", error.errors) from None
    if paths.smallest_group(rights, paths.of_filter(conditions)) > 1:
        raise _refused("the filter leads to rows that are shown only in groups. Leave them out, or give ids.")
    if keys is None:
        raise _refused(f"more than {most:,} rows match. Narrow the filter, and act on the rest afterwards.")
    return keys


def _refused(message: str) -> ToolError:
    return ToolError("Nothing was changed.", [field_error("filter", message)])


def preview(
    model_mcp: ModelMCP, request: MCPRequest, conditions: JSON, chosen: ChosenRows, changes: Sequence[str]
) -> list[str]:
    """How many rows there are, the first columns of some of them, and what is there now, in lines. Raises TooSlow.

    ``conditions``: the filter that has found them; empty where they were named by ids. ``changes``: the columns that
    will be changed, if known.
    """
    rights, keys = Rights(model_mcp.site, request, from_primary=True).of_label(model_mcp.label), chosen.keys
    rows_ = f"{len(keys):,} row{'' if len(keys) == 1 else 's'} of {model_mcp.label}"
    matching = f" match{'es' if len(keys) == 1 else ''} the filter" if conditions else ""
    lines = [f"{rows_}{matching}. Nothing was changed.", *chosen.notes]
    if rights is None or not finds_rows(rights):
        return lines
    lines += rules.of_filter(rights, conditions)
    if keys:
        some = keys[:_SHOWN_ROWS]
        fields = list(dict.fromkeys([*_known(rights, changes), *rights.columns]))[:_SHOWN_COLUMNS]
        page = rows.find(rights, rows.RecordQuery(filter={"pk__in": list(map(str, some))}, fields=fields))
        named = "These are" if len(some) == len(keys) else f"{len(some)} of them are"
        lines.append(f"{named}: {encode({'columns': page.columns, 'rows': page.rows}).decode()}")
        lines += _now(rights, keys, changes)
    return lines


def _known(rights: ModelRights, names: Sequence[str]) -> list[str]:
    return [name for name in names if name in rights.columns]


def _now(rights: ModelRights, keys: Sequence[Any], changes: Sequence[str]) -> list[str]:
    """What the rows hold in the columns that will be changed, or else in the first ones of few values."""
    known = _known(rights, changes)
    columns = [rights.columns[name] for name in known or rights.columns if not rights.columns[name].field.primary_key]
    columns = [column for column in columns if column.kind.orderable][: None if known else _COUNTED_COLUMNS]
    names = names_of(columns)
    held = fetch_values(values_of(rights.rows().filter(has_key_in(rights.model, keys)), columns, names), len(names))
    found = []
    for column, values in zip(columns, zip(*held, strict=True), strict=False):
        counted = Counter("unreadable" if one is UNREADABLE else _text(column, one) for one in values)
        if known or len(counted) <= _COUNTED_VALUES:
            parts = [f"{count:,} {text}" for text, count in counted.most_common(_COUNTED_VALUES)]
            more = len(counted) - len(parts)
            found.append(f"{column.name}: {', '.join([*parts, *([f'{more:,} other values'] if more else [])])}")
    return [f"Now: {'; '.join(found)}."] if found else []


def _text(column: Column, value: Any) -> str:
    written = write(column, value)
    text = written if isinstance(written, str) else encode(written).decode()
    return printable(text[:_COUNTED_CHARS]) or '""'
