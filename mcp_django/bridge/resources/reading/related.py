"""Related rows of a page: the first ones of each of its rows, read with one query for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber

from mcp_django.bridge.resources.fields.columns import MAX_RELATED, Output, RelatedRows
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.selection import names_of, values_of
from mcp_django.bridge.resources.reading.values import fetch_values, within_bytes, write_rows
from mcp_django.conf import get_conf
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import rows_of_keys
from mcp_django.protocol.errors import TooSlow

#: Related rows of a page in all.
MAX_IN_ALL = 10_000
#: Rows whose related rows are read by a statement each, where one statement for all of them takes too long.
_MAX_SINGLE = 100


def fill(
    rights: ModelRights, outputs: Sequence[Output], rows: list[list[Any]], limit: int, notes: list[str]
) -> list[list[Any]]:
    """Put the related rows, as JSON, into the rows of a page, no value longer than ``limit``.

    The page ends earlier where they are too many, so that what it shows is complete.
    """
    wanted = {index: output for index, output in enumerate(outputs) if isinstance(output, RelatedRows)}
    if not wanted or not rows:
        return rows
    owners = [_owners(rights, output, rows) for output in wanted.values()]
    found = [_fetch(output, of_row, limit) for output, of_row in zip(wanted.values(), owners, strict=True)]
    if sum(map(len, found)) > MAX_IN_ALL:
        rows = rows[: max(1, MAX_IN_ALL // ((MAX_RELATED + 1) * len(wanted)))]
        notes.append(f"The page was cut at {len(rows)} rows, since more have over {MAX_IN_ALL} related rows.")
        return fill(rights, outputs, rows, limit, notes)
    budget = get_conf().page_bytes // 6 // len(wanted)
    for (index, output), of_row, related in zip(wanted.items(), owners, found, strict=True):
        of_owner = _by_owner(output, related, _spellings(rights, output, related, of_row), limit, notes)
        cells = [of_owner.get(of_row.get(row[0]), []) for row in rows]
        for row, cell in zip(rows, _bounded(output, cells, budget, notes), strict=True):
            row[index] = output.cell(cell)
    return rows


def _owners(rights: ModelRights, output: RelatedRows, rows: Sequence[Sequence[Any]]) -> dict[Any, Any]:
    """The value that related rows hold of each row, by its primary key: mostly that key."""
    keys = [row[0] for row in rows if row[0] is not UNREADABLE]
    attname = output.relation.owner_attname
    if attname == rights.primary_key.attname:
        return {key: key for key in keys}
    pairs = rows_of_keys(rights.rows(), keys)
    return {key: owner for key, owner in fetch(pairs.values_list("pk", attname)) if owner is not None}


def _fetch(output: RelatedRows, of_row: Mapping[Any, Any], limit: int) -> list[Any]:
    """The values of the first related rows of each row, and after them the value that leads back to that row.

    Of a text, ``limit`` characters are read, and one more that shows that it is cut.
    """
    owners = list(of_row.values())
    try:
        return _read(output, owners, limit + 1) if owners else []
    except TooSlow:
        # All related rows have to be ranked, while those of one row end where there are enough.
        if len(owners) == 1 or len(owners) > _MAX_SINGLE:
            raise
        return [row for owner in owners for row in _read(output, [owner], limit + 1)]


def _read(output: RelatedRows, owners: Sequence[Any], chars: int) -> list[Any]:
    relation, most = output.relation, MAX_RELATED + 1
    related = relation.rows_of_any(owners)
    if len(owners) > 1:
        # The rank is that of keys alone, so that no other value is read of the rows that are left out.
        rank = Window(RowNumber(), partition_by=F(relation.owner_path), order_by=F(relation.key_path).asc())
        first = related.alias(_mcp_rank=rank).filter(Q(("_mcp_rank__lte", most))).values("pk")
        related, most = rows_of_keys(related, first), MAX_IN_ALL + 1
    columns = [replace(column, via=(*relation.step, *column.via)).beginning(chars) for column in output.columns]
    names = [*names_of(columns), relation.owner_path]
    return fetch_values(values_of(related.order_by(relation.key_path), columns, names)[:most], len(names))


def _spellings(
    rights: ModelRights, output: RelatedRows, related: Sequence[Sequence[Any]], owners: Mapping[Any, Any]
) -> dict[Any, Any]:
    """The values of ``owners``, by what related rows hold of them.

    A database may take different texts for equal: MariaDB finds the airport "JFK" by "jfk".
    """
    relation = output.relation
    found = {relation.held(owner): owner for owner in owners.values()}
    parents = rights.model._base_manager.using(rights.rows().db)
    for held in {row[-1] for row in related} - {*found, UNREADABLE}:
        equal = parents.filter(Q((relation.owner_attname, held))).values_list(relation.owner_attname, flat=True)
        found[held] = next(iter(fetch(equal[:1])), None)
    return found


def _by_owner(
    output: RelatedRows, related: Sequence[Sequence[Any]], owners: Mapping[Any, Any], limit: int, notes: list[str]
) -> Mapping[Any, list[list[Any]]]:
    """The related rows as JSON, by the value of ``owners`` that they belong to."""
    named = [replace(column, name=f"{output.relation.name}__{column.name}") for column in output.columns]
    written, cut = write_rows(output.relation.related, named, related, limit, notes)
    if cut:
        notes.append(f"Values of {', '.join(cut)} ending in … were cut at {limit} characters.")
    found: dict[Any, list[list[Any]]] = defaultdict(list)
    for row, values in zip(related, written, strict=True):
        found[owners.get(row[-1])].append(values)
    return found


def _bounded(
    output: RelatedRows, cells: Sequence[list[list[Any]]], budget: int, notes: list[str]
) -> list[list[list[Any]]]:
    """The cells with no more rows than one may hold."""
    short = [cell[:MAX_RELATED] for cell in cells]
    if any(len(cell) > MAX_RELATED for cell in cells):
        notes.append(f"{output.name} lists at most {MAX_RELATED} rows.{_others(output)}")
    kept = [cell[: within_bytes(cell, budget)] for cell in short]
    if kept != short:
        notes.append(f"{output.name} lists rows of at most {budget} bytes.{_others(output)}")
    return kept


def _others(output: RelatedRows) -> str:
    """How to get the related rows that are left out, if that is possible."""
    related = output.relation.related
    can_ask = related.is_listed and ways.is_open(related, "collection")
    return f" Ask {related.label} itself for the others." if can_ask else ""
