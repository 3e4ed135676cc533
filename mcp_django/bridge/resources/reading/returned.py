"""Rows that a function of the project returns, as pages and records: within the rights of who called it.

A function hands over rows as it found them. They are read anew by their keys from the rows that the principal may see,
so that nothing is shown that the function left on an instance, and a page takes as many statements as any other. A row
that the principal may not see is left out, as if it were not there: no text and no number tells of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.db import models, router
from django.db.models.manager import BaseManager

from mcp_django.access.permissions import check_scopes
from mcp_django.bridge.declared.returned import ReturnedRows, instead_of
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.unreadable import UNREADABLE
from mcp_django.bridge.resources.policy import ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.policy.visible_rows import visible_keys
from mcp_django.bridge.resources.reading import rows, selection
from mcp_django.bridge.resources.reading.selection import names_of, values_of
from mcp_django.bridge.resources.reading.values import fetch_values
from mcp_django.conf import get_conf
from mcp_django.core.compat import queries
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.exceptions import ToolError

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

logger = logging.getLogger("mcp_django")

#: What a function of the project says where it finds nothing, and what is said of a row that is hidden.
NO_OBJECT = "There is no such object."
_HIDDEN = "You may not see what this returns."
#: Rows that are looked at for a page where some may be hidden and no condition can leave these out.
_MAX_LOOKS = 1_000
_QUERIES = (models.QuerySet, models.query.RawQuerySet)


@dataclass(frozen=True, slots=True)
class ReturnedRecord:
    """One row."""

    rights: ModelRights
    #: The primary key, as a text.
    key: str
    record: rows.Record


@dataclass(frozen=True, slots=True)
class ReturnedPage:
    """Many rows."""

    rights: ModelRights
    page: rows.Page
    #: How to get the rows that are left out for want of room; empty where there are none.
    more: str


def rows_in(value: Any, owner: str) -> ReturnedRows | None:
    """The rows that a function without an annotation has returned; None for anything else.

    Raises TypeError for rows that cannot be written, named by the function's ``owner``.
    """
    if isinstance(value, models.Model):
        return ReturnedRows(many=False)
    if isinstance(value, _QUERIES):
        return ReturnedRows(many=True)
    if isinstance(value, BaseManager):
        raise TypeError(f"{owner} returned {type(value).__name__}: return {instead_of(value)}")
    if not isinstance(value, list | tuple | set | frozenset):
        return None
    classes = {type(item) for item in value}
    if not any(issubclass(cls, models.Model) for cls in classes):
        return None
    if len(classes) > 1:
        names = ", ".join(sorted(cls.__name__ for cls in classes))
        row = next(item for item in value if isinstance(item, models.Model))
        raise TypeError(f"{owner} returned {names} in one list: return {instead_of(row)}")
    return ReturnedRows(many=True)


def check(exchange: Exchange, returned: ReturnedRows, owner: str) -> None:
    """Called before the function, which then does nothing in vain.

    Raises ToolError where the principal may see no row of the model that it returns, and InsufficientScope if scopes
    that its client can ask for would help.
    """
    if returned.model is None or _rights_on(exchange, returned.model, owner) is not None:
        return
    check_scopes(exchange.request, lambda: Rights.of(exchange.site, exchange.request).of_model(returned.model))
    raise ToolError(f"{_HIDDEN} Nothing was done.")


def read(exchange: Exchange, returned: ReturnedRows, value: Any, owner: str) -> ReturnedRecord | ReturnedPage | None:
    """The rows of ``value``, which are counted as read. None for a row that the principal may not see.

    None also for a list without a visible row, where no annotation names its model: it must look like an empty list.

    Raises ToolError for a model that the principal may not see, and TypeError for a value that is not as ``returned``
    says.
    """
    if returned.many:
        return _read_page(exchange, returned, value, owner)
    if value is None:
        return None  # As a row that is hidden: the function has found none.
    if not isinstance(value, returned.model or models.Model):
        raise TypeError(f"{owner} returned {type(value).__name__}, which its annotation does not promise")
    _check_saved(value, owner)
    model = returned.model or type(value)
    rights = _rights_on(exchange, model, owner)
    if rights is None:
        return None
    _check_database(rights, [value._state.db], owner)
    key = str(rights.primary_key.kind.write(_key_of(model, value)))
    record = rows.get(rights, key)
    if record is None:
        return None
    exchange.usage.read(rights.label, 1)
    return ReturnedRecord(rights, key, record)


def _read_page(exchange: Exchange, returned: ReturnedRows, value: Any, owner: str) -> ReturnedPage | None:
    is_query = isinstance(value, _QUERIES)
    items: Any = _checked_query(value, owner) if is_query else _listed(value, returned.model, owner)
    given = items.model if is_query else next((type(one) for one in items), returned.model)
    model = returned.model or given
    if model is None or given is None:
        return None
    if not issubclass(given, model):
        raise TypeError(f"{owner} returned rows of {given.__name__}, and its annotation promises {model.__name__}")
    rights = _rights_on(exchange, model, owner)
    looks_empty = returned.model is None and not is_query
    if rights is None:
        if looks_empty:
            return None
        raise ToolError(_HIDDEN)
    keys, is_cut = _keys(rights, items, owner)
    found = page(rights, keys, is_cut=is_cut)
    if looks_empty and not found.page.rows:
        return None
    exchange.usage.read(rights.label, len(found.page.rows))
    return found


def _checked_query(queryset: Any, owner: str) -> Any:
    if isinstance(queryset, models.QuerySet) and not queries.gives_instances(queryset):
        raise TypeError(
            f"{owner} returned a queryset of values(), which no field policy knows: return the queryset itself, or "
            "list() of it to show the values as they are"
        )
    return queryset


def _listed(value: Any, model: type[models.Model] | None, owner: str) -> list[Any]:
    if not isinstance(value, Iterable):
        raise TypeError(f"{owner} returned {type(value).__name__}: return {instead_of(value)}")
    items = list(islice(value, max(_MAX_LOOKS, get_conf().MAX_ROWS) + 1))
    for one in items:
        if not isinstance(one, model or type(items[0])) or not isinstance(one, models.Model):
            raise TypeError(f"{owner} returned {type(one).__name__} in the place of a row")
        _check_saved(one, owner)
    return items


def _check_saved(row: models.Model, owner: str) -> None:
    if row.pk is None or row._state.adding:
        raise TypeError(f"{owner} returned a {type(row).__name__} that is not in the database: return a saved one")


def _key_of(model: type[models.Model], row: models.Model) -> Any:
    """The row's primary key as one of the model, which may be a parent of the row's own."""
    key = model._meta.pk
    return key.to_python(getattr(row, key.attname))


def page(rights: ModelRights, keys: Sequence[Any], *, is_cut: bool) -> ReturnedPage:
    """The page of the rows with these keys that the principal may see, in the order of the keys.

    ``is_cut``: whether more rows than these were returned.
    """
    conf, notes = get_conf(), list[str]()
    outputs = selection.outputs(rights, ())
    if len(keys) > rows.MAX_WHOLE_TEXTS:
        outputs = [one.beginning(conf.MAX_TEXT + 1) if isinstance(one, Column) else one for one in outputs]
    names = names_of(outputs)
    queryset = rights.rows().filter(has_key_in(rights.model, keys))
    read = fetch_values(values_of(queryset, outputs, names), len(names))
    of_key = {str(row[0]): row for row in read if row[0] is not UNREADABLE}
    found = [of_key[key] for key in map(str, keys) if key in of_key]
    written = rows.write_page(rights, outputs, found, notes, rows.page_budget())
    result = rows.Page([one.name for one in outputs], written.rows, None, notes)
    if is_cut or len(written.rows) < len(found):
        return ReturnedPage(rights, result, _more(rights, len(written.rows)))
    return ReturnedPage(rights, rows.without_empty(result, outputs, written), "")


def _more(rights: ModelRights, count: int) -> str:
    can_ask = rights.is_listed and ways.is_open(rights, "collection")
    others = f", or ask find_records for {rights.label}" if can_ask else ""
    return f"These are the first {count} rows, and more follow. Ask for less{others}."


def _keys(rights: ModelRights, items: Any, owner: str) -> tuple[list[Any], bool]:
    """The primary keys of the first of the rows that the principal may see, and whether there are more rows."""
    most, key, limits = rows.most_rows(rights), rights.model._meta.pk, slice(None)
    looks = max(_MAX_LOOKS, most) if rights.scoped else most
    if isinstance(items, models.QuerySet) and not queries.has_been_read(items):
        _check_database(rights, [items.db], owner)
        # A slice of what the principal may see: its length would tell of hidden rows.
        whole, limits = queries.without_slice(items)
        whole = _as_read(rights, whole)
        narrowed = _narrowed(rights, whole)
        if narrowed is not None:
            found = fetch(narrowed[limits].values_list(key.name, flat=True)[: most + 1])
            return list(dict.fromkeys(found[:most])), len(found) > most
        found = fetch(whole.values_list(key.name, flat=True)[: looks + 1])
    else:
        instances = list(islice(items, looks + 1))
        _check_database(rights, {one._state.db for one in instances}, owner)
        found = [_key_of(rights.model, one) for one in instances]
    known = list(dict.fromkeys(found))
    enough = (limits.start or 0) + most + 1
    visible = visible_keys(rights, known[:looks], most=enough) if rights.scoped else set(map(str, known))
    kept = [one for one in known if str(one) in visible]
    if len(found) > looks and (limits.stop is None or len(kept) < limits.stop):
        # The agent is not told: how many rows are hidden is not its to know.
        logger.warning("%s: only the first %d rows were looked at. Return fewer, or a plain queryset", owner, looks)
    return kept[limits][:most], len(kept[limits]) > most


def _as_read(rights: ModelRights, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """The queryset, in an order that tells nothing of hidden columns, unless the function has named its order."""
    queries.unlock(queryset)
    is_own = queryset.model is rights.model and not selection.is_order_hidden(rights)
    if queries.has_default_order(queryset) and not is_own:
        return queryset.order_by(*selection.readable_order(rights))
    return queryset


def _narrowed(rights: ModelRights, queryset: models.QuerySet[Any]) -> models.QuerySet[Any] | None:
    """The rows of the queryset that the principal may see; None where no condition can select them."""
    if not rights.scoped:
        return queryset
    if rights.checks_objects or not queries.has_plain_rows(queryset) or queries.picks_rows(queryset):
        return None
    return queryset.filter(has_key_in(rights.model, rights.rows().using(queryset.db).values("pk")))


def _rights_on(exchange: Exchange, model: type[models.Model], owner: str) -> ModelRights | None:
    """The rights on the model, if its rows may be shown one by one."""
    site, request = exchange.site, exchange.request
    label = Rights.label_of(model)
    declared = site.models.get(label)
    if declared is None or not declared.rows:
        why = "is not exposed: register it" if declared is None else "is shown in groups alone: see rows"
        logger.error("%s returns rows of %s, which nobody sees. The model %s", owner, label, why)
        return None
    rights = Rights.of(site, request)
    if exchange.usage.is_done:
        # What the function may have written is read from where it was written to.
        decided, rights = rights.decided, Rights(site, request, from_primary=True)
        rights.decided_by(decided)
    return rights.of_label(label)


def _check_database(rights: ModelRights, aliases: Iterable[str | None], owner: str) -> None:
    """Raises TypeError for rows of a database in which agents see none: the same key may be another row's there."""
    own = rights.rows().db
    routed = {router.db_for_read(rights.model), router.db_for_write(rights.model)}
    for alias in aliases:
        if alias != own and not {alias, own} <= routed:
            raise TypeError(
                f"{owner} returned rows of {rights.label} in the database {alias!r}, and agents see those in {own!r}"
            )
