"""Counts the new values of a proposal that tell what hidden rows hold: those of fields that must be unique.

A form has to say that a value is taken, as the page of the admin does. Whoever gives many values finds out hidden ones
by that, so they have a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mcp_django.access.throttling.throttles import NewValues
from mcp_django.core.db.uniqueness import Unique, unique_fields

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.fields import WritableInline
    from mcp_django.bridge.writes.filling import Given, GivenForm


def new_values(given: Given, inlines: Mapping[str, WritableInline]) -> list[NewValues]:
    """For each table how many new values are given for what must be unique in it and is not all seen."""
    numbers: Counter[str] = Counter()
    models: dict[str, str] = {}
    for one, names in _new_names(given, inlines):
        rights = one.form.rights
        for unique in unique_fields(rights.model):
            if names & unique.names and not _is_seen(rights, unique):
                table = unique.owner._meta.label_lower
                numbers[table] += 1
                models.setdefault(table, rights.label)
    return [NewValues(table, models[table], number) for table, number in numbers.items()]


def _new_names(given: Given, inlines: Mapping[str, WritableInline]) -> Iterator[tuple[GivenForm, set[str]]]:
    """Each form with the names of its new values. A value that is given back as it is was left out when it was read."""
    yield given.main, set(given.main.values)
    for name, forms in given.rows.items():
        for one in forms:
            # A new row tells whether its parent has one already.
            links = inlines[name].links if one.is_new and not given.main.is_new else ()
            yield one, {*one.values, *links}


def _is_seen(rights: ModelRights, unique: Unique) -> bool:
    """Whether the agent reads these fields of every row of the table, so that it finds out nothing by trying."""
    known = [rights.rights.of_model(unique.owner)]
    if rights.model._meta.concrete_model is unique.owner:
        known.append(rights)
    return any(one is not None and _shows_all(one, unique) for one in known)


def _shows_all(rights: ModelRights, unique: Unique) -> bool:
    return (
        rights.has_rows
        and not rights.scoped
        and not rights.shows_by_object
        and all(rights.own_column(name) is not None for name in unique.names)
    )
