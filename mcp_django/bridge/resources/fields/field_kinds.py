"""The kind of a field: that of the known class that it is made from.

A field of a class that may have a part in its values is hidden until a ModelMCP names it, unless the class is known: an
encrypted field, say, is a CharField whose values come out decrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections, models
from django.utils.module_loading import import_string

from mcp_django.bridge.resources.fields import kinds
from mcp_django.bridge.resources.fields.field_classes import KNOWN, differences, is_named_as_secret, path_of
from mcp_django.bridge.resources.fields.kinds import Kind
from mcp_django.bridge.resources.fields.parsing import column_of, refuse, steps_to_column
from mcp_django.conf import get_conf, kept_with_settings
from mcp_django.core.compat.queries import prepare_lookup
from mcp_django.types import AnyField

#: The kinds that ``FIELD_KINDS`` may name, by their names in describe_models.
NAMED: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        kinds.INTEGER, kinds.BOOLEAN, kinds.TEXT, kinds.ADDRESS, kinds.NUMBER, kinds.DECIMAL, kinds.DATE,
        kinds.DATETIME, kinds.TIME, kinds.DURATION, kinds.UUID, kinds.DATA, kinds.FILE,
    )
}  # fmt: skip
#: What converts a value of an unknown class first, for kinds that would leave it as it is.
_MADE: Mapping[Kind, Callable[[Any], Any]] = {kinds.INTEGER: int, kinds.NUMBER: float}

#: The classes of fields that take their values from other fields.
_RELATIONS = frozenset({models.OneToOneField, models.ForeignKey, models.GeneratedField})


def kind_of(field: AnyField, *, named: bool) -> Kind | None:
    """The kind of a column; None if it is hidden. ``named``: whether a ModelMCP names the field."""
    return look_up(field, named=named)[0]


@kept_with_settings
def look_up(field: AnyField, *, named: bool) -> tuple[Kind | None, str]:
    """The kind of a column, or None and the reason why it is hidden."""
    *relations, column = steps_to_column(field)
    for relation in () if named else relations:
        base = next(cls for cls in type(relation).__mro__ if cls in _RELATIONS)
        for difference in differences(relation, base):
            return None, _strange(relation, difference)
    for cls in type(column).__mro__:
        kind = _kind_of_class(cls, column, named=named)
        if kind is None:
            continue
        if named:
            return converted(kind) if any(differences(column, cls)) else kind, ""
        is_key = bool(relations) or column.primary_key
        if kind.converted and is_key and cls not in _declared():
            # Two keys that are read as the same value would be taken for one row.
            return None, f"is a key, and a {type(column).__name__}, which may read two values as the same one"
        doubt = _doubt(column, cls)
        return None if doubt else kind, doubt
    return None, f"is a {type(column).__name__}, a class that is not known"


def _doubt(field: AnyField, base: type[Any]) -> str:
    """Why a field may hold other values than those of the class ``base`` that it is made from, or secrets."""
    if is_named_as_secret(field, base):
        return f"is a {type(field).__name__}, a class that is named as if its values were secrets"
    return next((_strange(field, difference) for difference in differences(field, base)), "")


def _strange(field: AnyField, difference: str) -> str:
    return f"is a {type(field).__name__}, a class that is not known and has its own {difference}"


def _kind_of_class(cls: type[Any], field: AnyField, *, named: bool) -> Kind | None:
    name = KNOWN.get(path_of(cls))
    kind = kinds.KINDS.get(cls) or _declared().get(cls) or (_of_package(NAMED[name]) if name else None)
    return kind or _kind_on_postgresql(cls, field, named=named)


def _kind_on_postgresql(cls: type[Any], field: AnyField, *, named: bool) -> Kind | None:
    # A class of that module can only be here where its driver is installed.
    if not cls.__module__.startswith("django.contrib.postgres."):
        return None
    from mcp_django.bridge.resources.fields import postgresql

    return postgresql.kind_of(cls, field, named=named)


@cache
def _of_package(kind: Kind) -> Kind:
    """The kind of a class in ``KNOWN``: what it stores is no secret either, so a search may look for parts of it."""
    return replace(converted(kind), searchable=True)


@kept_with_settings
def _declared() -> Mapping[Any, Kind]:
    """What ``FIELD_KINDS`` says. An entry that cannot be used shows nothing: the system checks report it."""
    found = {}
    for path, name in get_conf().FIELD_KINDS.items():
        with suppress(ImportError, KeyError, TypeError):
            found[import_string(path)] = converted(NAMED[name])
    return found


@cache
def converted(kind: Kind) -> Kind:
    """The kind of a field whose class converts its values.

    The database stores other values. So they are compared as a whole, after the class has converted them, or only with
    null if a filter could not write them. A search for parts could reveal what the class hides.
    """
    if kind.converted:
        return kind
    is_compared = "exact" in kind.lookups and NAMED.get(kind.name) is kind
    made = _MADE.get(kind)

    def read(field: AnyField, value: Any) -> Any:
        # The bounds of an integer are those of the column, which the class may have chosen.
        value, column = kind.read(models.BigIntegerField(), value), column_of(field)
        try:
            prepare_lookup(column, "exact", value)
            column.get_db_prep_value(value, connections["default"], prepared=False)
        except Exception:  # noqa: BLE001 - a class may raise anything for a value that it does not take
            raise ValidationError("is no value of this field") from None
        return value

    return replace(
        kind, lookups=("exact", "in", "isnull") if is_compared else ("isnull",), read=read if is_compared else refuse,
        write=kind.write if made is None else lambda value: kind.write(made(value)), orderable=False, readers={},
        converted=True, searchable=False,
    )  # fmt: skip
