"""Where the ``source`` of a serializer's field leads, step by step through the rights.

What Django itself defines of a row (``delete``, ``get_session_auth_hash``), and names that begin with an underscore
(``__dict__``, ``_state``), are no part of a record: they give the whole row, or change it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models

from mcp_django.bridge.resources.fields.columns import Column, Relation
from mcp_django.bridge.resources.policy.policy import ModelRights

_DISPLAY = re.compile(r"get_(\w+)_display")


@dataclass(frozen=True, slots=True)
class Lead:
    """Where the ``source`` of a field leads to."""

    #: The rights on the row, or on each of the rows, that it ends in.
    rights: ModelRights | None = None
    #: The column that it ends in.
    column: Column | None = None
    #: The column holds a key, and it is the key that is read.
    is_key: bool = False
    many: bool = False
    #: The relation, if it leads to many rows.
    relation: Relation | None = None
    nullable: bool = False
    #: Whether the models declare every step. What a property or an annotation gives is not known beforehand.
    known: bool = True


def follow(rights: ModelRights | None, names: Iterable[str]) -> Lead | None:
    """Where attributes lead from a row; None if the principal may not read one of them."""
    lead = Lead(rights, known=rights is not None)
    for name in names:
        if why_refused(_model_of(lead.rights), name):
            return None
        if lead.is_key:
            return None  # The row behind the key is not shown.
        if lead.many:
            return None  # An attribute of many rows, as ``flights.count``, would reveal hidden rows.
        found = Lead(known=False, nullable=True) if lead.rights is None else _step(lead.rights, name)
        if found is None:
            return None
        lead = dataclasses.replace(found, nullable=lead.nullable or found.nullable)
    return lead


def why_source_refused(rights: ModelRights | None, names: Sequence[str]) -> str:
    """Why no serializer may read these attributes for any principal, in words for administrators; else empty."""
    for place, name in enumerate(names):
        lead = follow(rights, names[:place])
        if lead is None:
            return ""
        if why := why_refused(_model_of(lead.rights), name):
            return f"its source {'.'.join(names)} reads {name}, which {why}"
    return ""


def why_refused(cls: Any, name: str) -> str:
    """Why no serializer may read the attribute of an object of a class, which may be unknown; else empty."""
    if name.startswith("_"):
        return "is private: it begins with an underscore"
    if cls is None or not _is_of_django(cls, name):
        return ""
    return "Django itself defines: it is no field of the row"


def _model_of(rights: ModelRights | None) -> type[models.Model] | None:
    return None if rights is None else rights.model


@lru_cache(maxsize=4_096)
def _is_of_django(cls: Any, name: str) -> bool:
    """Whether Django defines the attribute: on a model, any that is no field; on another class, a method."""
    is_model = issubclass(cls, models.Model)
    if is_model and _field_behind(cls, name) is not None:
        return False
    for home in cls.__mro__:
        if name in vars(home):
            found = vars(home)[name]
            return (is_model or callable(found)) and "django" in (_package(home), _package(_function_of(found)))
    return False


def _function_of(found: Any) -> Any:
    """What a property, a cached property or a partial method calls."""
    return getattr(found, "fget", None) or getattr(found, "func", None) or found


def _package(found: Any) -> str:
    """The package that defines a class, a function or another descriptor; empty for any other value."""
    is_code = hasattr(type(found), "__get__") or isinstance(found, type)
    return str(getattr(found, "__module__", "")).partition(".")[0] if is_code else ""


def _step(rights: ModelRights, name: str) -> Lead | None:
    field = _field_behind(rights.model, name)
    if field is None:
        return Lead(known=False, nullable=True)
    relation = _relation(rights, name)
    if relation is not None:
        one = relation.field.one_to_one
        return Lead(relation.related, many=not one, relation=relation, nullable=one)
    column = rights.columns.get(field.name) if isinstance(field, models.Field) else None
    if column is None or column.types is not None:
        # The row and the key of a content type would reveal models that the principal may not view.
        return None
    if not isinstance(field, models.ForeignKey) or name != field.name:
        is_key = isinstance(field, models.ForeignKey)
        return Lead(column=column, is_key=is_key, nullable=column.nullable)
    if column.related is None:
        return None
    if not column.related.has_rows:
        # Its key is a value of this row, and the other row is not shown.
        return Lead(column=column, is_key=True, nullable=column.nullable)
    return Lead(column.related, column, nullable=column.nullable)


def _field_behind(model: type[models.Model], name: str) -> Any:
    """The field that an attribute of a row reads, also a reverse relation; None if it is no field."""
    if name == "pk":
        return model._meta.pk
    for candidate in (name, *_DISPLAY.findall(name)):
        try:
            found = model._meta.get_field(candidate)
        except FieldDoesNotExist:
            continue
        if not found.auto_created or found.concrete:
            return found
    return next((item for item in _reverse(model) if item.get_accessor_name() == name), None)


def _reverse(model: type[models.Model]) -> list[Any]:
    return [item for item in model._meta.get_fields(include_hidden=True) if item.auto_created and not item.concrete]


def _relation(rights: ModelRights, name: str) -> Relation | None:
    """The relation that an attribute of a row gives. A filter may know it by another name."""
    if name in rights.relations and rights.relations[name].forward:
        return rights.relations[name]
    names = {item.get_accessor_name(): item.name for item in _reverse(rights.model)}
    return rights.relations.get(names.get(name, ""))
