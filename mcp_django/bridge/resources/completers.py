"""Suggestions for variables of resource templates and arguments of tools: what the principal may read, and no more."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.db import connections, models
from django.db.models import Q

from mcp_django.bridge.completion import (
    MAX_VALUES,
    NOTHING,
    Completer,
    Completion,
    among,
    of_last,
    suggest_nothing,
    suggested_by,
)
from mcp_django.bridge.resources import catalog, uris
from mcp_django.bridge.resources.aggregates import groups, measures
from mcp_django.bridge.resources.fields.choices import choices_of
from mcp_django.bridge.resources.fields.columns import Column
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.fields.kinds import BOOLEAN, INTEGER, TEXT, UUID, Kind
from mcp_django.bridge.resources.fields.parsing import column_of
from mcp_django.bridge.resources.function_templates import FunctionTemplate
from mcp_django.bridge.resources.policy import visible_rows, ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.policy.searching import search_condition
from mcp_django.bridge.resources.reading import templates, values
from mcp_django.core.compat.connections import has_uuid_type, integer_range
from mcp_django.core.db.bounds import fetch

if TYPE_CHECKING:
    from mcp_django.exchange.exchange import Exchange

#: An integer as it is written: no plus, no zeros in front.
_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,18})")
_HEX = re.compile(r"[0-9a-f]{0,32}")
_MAX_INTEGER = 2**63 - 1

#: The number of batches of rows that are checked, where the permission is checked for each row.
_MAX_LOOKS = 5


def completers(exchange: Exchange, uri: str) -> Mapping[str, Completer] | None:
    """A completer for each variable of a listed resource or template; None if there is no such resource or template."""
    rights = Rights.of(exchange.site, exchange.request)
    if uri == templates.SCHEMA and ways.models(rights, "schema"):
        return {"app_label": partial(_app_labels, rights), "model": partial(_model_names, rights)}
    if (found := templates.parse(rights, uri)) is not None:
        model = found.model
        if found.key:
            return _by_either_spelling({found.key: partial(_keys, model)})
        if not found.is_aggregate:
            parameters = templates.parameters(model).items()
            return _by_either_spelling({name: _of_parameter(model, name, column) for name, column in parameters})
        return _by_either_spelling({
            name: partial(_AGGREGATED[name], model) if name in _AGGREGATED else _of_parameter(model, name, column)
            for name, column in templates.aggregate_parameters(model).items()
        })  # fmt: skip
    if "{" not in uri and (target := uris.parse(uri)) is not None:
        return None if ways.reach(rights, target) is None else {}
    declared = next((item for item in catalog.available(exchange.site, exchange.request) if item.uri == uri), None)
    if isinstance(declared, FunctionTemplate):
        return {name: _of_variable(exchange, declared, name) for name in declared.variables}
    return None if declared is None else {}


def _by_either_spelling(completers: Mapping[str, Completer]) -> Mapping[str, Completer]:
    """The completers by the names of the variables, and by those names as the template spells them, in ASCII."""
    return {**completers, **{uris.quote_name(name): completer for name, completer in completers.items()}}


def _of_variable(exchange: Exchange, template: FunctionTemplate, name: str) -> Completer:
    function = template.complete.get(name)
    if function is None:
        return suggest_nothing
    what = f"{name} of {template.uri}"
    return lambda typed, arguments: suggested_by(function, exchange.request, typed, arguments, what)


def _of_parameter(model: ModelRights, name: str, column: Column | None) -> Completer:
    if column is not None:
        return lambda typed, _: complete_value(model, column, typed)
    return partial(_orders, model) if name == "order_by" else suggest_nothing


def _keys(model: ModelRights, typed: str, arguments: Mapping[str, str]) -> Completion:
    """Keys of records, without UNSAFE_KEYS: these stand in the query of a URI, which the template does not have."""
    found = complete_key(model, typed)
    named = [key for key in found.values if key not in uris.UNSAFE_KEYS]
    return found if len(named) == len(found.values) else Completion(named, None, found.has_more)


def _app_labels(rights: Rights, typed: str, arguments: Mapping[str, str]) -> Completion:
    return among((model.model._meta.app_label for model in rights.models()), typed)


def _model_names(rights: Rights, typed: str, arguments: Mapping[str, str]) -> Completion:
    """Names of models: only those of the app, if the client has given one."""
    app = arguments.get("app_label", "").lower()
    known = [model.label.partition(".") for model in rights.models()]
    return among((name for label, _, name in known if app in ("", label)), typed)


def _orders(model: ModelRights, typed: str, arguments: Mapping[str, str]) -> Completion:
    """Names to order by, for the last of the names that were typed."""
    return _last_of_names((sign + name for name in model.orderable for sign in ("", "-")), typed)


def _fields(model: ModelRights, typed: str, arguments: Mapping[str, str]) -> Completion:
    return _last_of_names([*model.columns], typed)


def _groups(model: ModelRights, typed: str, arguments: Mapping[str, str]) -> Completion:
    return _last_of_names(groups.group_names(model), typed)


def _measures(model: ModelRights, typed: str, arguments: Mapping[str, str]) -> Completion:
    return _last_of_names(measures.measure_names(model), typed)


def _orders_of_groups(model: ModelRights, typed: str, arguments: Mapping[str, str]) -> Completion:
    """The columns of the table, as far as they are known."""
    columns = [
        name.strip() for part in ("group_by", "measures") for name in arguments.get(part, "").split(",") if name.strip()
    ]
    return _last_of_names((sign + name for name in columns or ["count"] for sign in ("", "-")), typed)


#: Parameters of an aggregate that a query of rows does not have, or that mean something else there.
_AGGREGATED = {"group_by": _groups, "measures": _measures, "order_by": _orders_of_groups}


def _last_of_names(names: Iterable[str], typed: str) -> Completion:
    """Suggestions for the last of the names that were typed."""
    return of_last(partial(among, names), typed)


#: Arguments that may hold several names, of the tools that read rows.
_OF_ROWS = {"fields": _fields, "order_by": _orders}


def complete_argument(
    models: Iterable[ModelRights], name: str, arguments: Mapping[str, str], *, in_groups: bool = False
) -> Completion:
    """Suggestions for an argument of a tool over several models: their labels, keys of rows, and names of fields.

    ``arguments`` are all of them, as they were typed. ``in_groups``: the tool computes over groups of rows.
    """
    by_label, typed = {model.label: model for model in models}, arguments.get(name, "")
    if name == "model":
        return among([*by_label], typed)
    model = by_label.get(arguments.get("model", "").lower())
    if model is None:
        return NOTHING
    if name == "id":
        return complete_key(model, typed, search=True)
    if name == "ids":
        return of_last(lambda last: complete_key(model, last, search=True), typed)
    complete = (_AGGREGATED if in_groups else _OF_ROWS).get(name)
    return NOTHING if complete is None else complete(model, typed, arguments)


def complete_value(model: ModelRights, column: Column, typed: str) -> Completion:
    """Values of a field: its choices, true and false, keys of the rows that it points to, or its own if it is a key."""
    if choices := choices_of(column):
        # An empty value needs no completion.
        return among({value: label for value, label in choices.items() if value}, typed)
    if column.types is not None:
        return among(column.types.labels(), typed)
    if column.kind is BOOLEAN:
        return among(("true", "false"), typed)
    if column.related is not None and isinstance(column.field, models.ForeignKey):
        target = column.related.columns[column.field.target_field.name]
        return complete_key(column.related, typed, column=target, search=True)
    return complete_key(model, typed) if column.name == model.primary_key.name else NOTHING


def complete_key(model: ModelRights, typed: str, *, column: Column | None = None, search: bool = False) -> Completion:
    """Keys of visible rows that begin with what was typed; with ``search`` also of rows that a search for it finds.

    Each condition is one that an index on the key answers: integers are asked for as ranges, since those that begin
    with 21 are 21, 210 to 219, 2100 to 2199 and so on.
    """
    if not ways.is_open(model, "collection"):
        return NOTHING
    column = column or model.primary_key
    conditions = list(_beginnings(model, column, typed))
    if search and typed.strip() and model.can_search:
        with suppress(InvalidQuery):  # It is too long to be one.
            conditions.append(search_condition(model, typed, []))
    found: dict[str, None] = {}
    complete = True
    for condition in conditions:
        if len(found) > MAX_VALUES and not model.checks_objects:
            complete = False
            break
        keys, all_seen = _visible(model, column, condition)
        found.update(dict.fromkeys(keys))
        complete = complete and all_seen
    return Completion.of(list(found), complete=complete)


def _visible(model: ModelRights, column: Column, condition: Q) -> tuple[list[str], bool]:
    """The first keys of visible rows that meet the condition, in their order, and whether these are all.

    Where the permission is checked for each row, the number of statements does not depend on which are visible.
    """
    wanted = MAX_VALUES + 1
    queryset = model.rows().filter(condition).order_by(column.attname).values_list("pk", column.attname)
    found: list[str] = []
    for look in range(_MAX_LOOKS if model.checks_objects else 1):
        batch = fetch(queryset[look * wanted : (look + 1) * wanted])
        seen = {str(key) for key, _ in batch}
        if model.checks_objects:
            seen = visible_rows.visible_keys(model, [key for key, _ in batch], most=wanted - len(found))
        found += [str(values.write(column, value)) for key, value in batch if str(key) in seen]
        if len(batch) < wanted:
            return found, True
    return found, False


def _beginnings(model: ModelRights, column: Column, typed: str) -> Iterator[Q]:
    """Conditions that together hold for the keys which begin with what was typed, in the order to ask them."""
    if not typed:
        yield Q()
        return
    read = _BEGINNINGS.get(column.kind)
    if read is not None:
        yield from read(model, column, typed)
        return
    try:
        yield column.condition("exact", column.kind.read(column.field, typed))
    except ValidationError:
        return


def _integers(model: ModelRights, column: Column, typed: str) -> Iterator[Q]:
    sign, digits = (-1, typed[1:]) if typed.startswith("-") else (1, typed)
    connection = connections[model.rows().db]
    bounds = integer_range(connection, column_of(column.field).get_internal_type())
    lowest, highest = (bounds[0] or 0, bounds[1] or 0) if any(bounds) else (-_MAX_INTEGER, _MAX_INTEGER)
    limit = highest if sign > 0 else -lowest
    if typed == "-":
        if limit > 0:
            yield column.condition("lt", 0)
        return
    if typed == "-0" or not _INTEGER.fullmatch(typed):
        return
    low = high = int(digits)
    while low <= limit:
        first, last = sorted((sign * low, sign * min(high, limit)))
        yield column.condition("range", (first, last))
        if low == 0:
            return
        low, high = low * 10, high * 10 + 9


def _uuids(model: ModelRights, column: Column, typed: str) -> Iterator[Q]:
    digits = typed.strip().lower().replace("-", "")
    if not _HEX.fullmatch(digits):
        return
    connection = connections[model.rows().db]
    if connection.vendor == "mysql" and has_uuid_type(connection):
        # MariaDB does not sort UUIDs by their first bytes.
        text = str(uuid.UUID(digits.ljust(32, "0")))
        yield column.condition("startswith", text[: len(digits) + sum(len(digits) > at for at in (8, 12, 16, 20))])
        return
    yield column.condition("range", (uuid.UUID(digits.ljust(32, "0")), uuid.UUID(digits.ljust(32, "f"))))


def _texts(model: ModelRights, column: Column, typed: str) -> Iterator[Q]:
    """As it was typed, in capitals and in small letters: a comparison without regard to case could use no index."""
    try:
        spellings = {column.kind.read(column.field, text) for text in (typed, typed.upper(), typed.lower())}
    except ValidationError:
        return
    condition = Q()
    for spelling in sorted(spellings):
        condition |= column.condition("startswith", spelling)
    yield condition


_BEGINNINGS: Mapping[Kind, Callable[[ModelRights, Column, str], Iterator[Q]]] = {
    INTEGER: _integers,
    UUID: _uuids,
    TEXT: _texts,
}
