"""Where the ``source`` of a serializer's field leads, step by step through the rights."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import FieldDoesNotExist
from django.db import models

from mcp_django.resources.columns import Column, Relation
from mcp_django.resources.policy import ModelRights

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
    #: Whether the models declare every step. Nobody can know before what a property or an annotation gives.
    known: bool = True


def follow(rights: ModelRights | None, names: Iterable[str]) -> Lead | None:
    """Where attributes lead from a row; None if the principal may not read one of them."""
    lead = Lead(rights, known=rights is not None)
    for name in names:
        if lead.many:
            return None  # An attribute of many rows, as ``flights.count``, would reveal hidden rows.
        found = Lead(known=False, nullable=True) if lead.rights is None else _step(lead.rights, name)
        if found is None:
            return None
        lead = dataclasses.replace(found, nullable=lead.nullable or found.nullable)
    return lead


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
        # Of a content type, the row and the key would tell of models that the principal may not view.
        return None
    if not isinstance(field, models.ForeignKey) or name != field.name:
        is_key = isinstance(field, models.ForeignKey)
        return Lead(column=column, is_key=is_key, nullable=column.nullable)
    return None if column.related is None else Lead(column.related, column, nullable=column.nullable)


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
