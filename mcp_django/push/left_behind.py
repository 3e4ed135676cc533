"""Rows that a delete leaves behind with a changed relation (SET_NULL and the like), for which Django sends no signal.

Django first names all rows that it is about to delete, and then changes and deletes. Before its first statement, those
that point to these rows are looked up, all at once: later nobody can know which they were.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from django.db import connections, models

from mcp_django.core.compat.connections import add_execute_wrapper, remove_execute_wrapper
from mcp_django.core.db.column_paths import is_in
from mcp_django.core.db.locked_rows import locked
from mcp_django.core.events import changed_rows
from mcp_django.core.events.transaction import note

logger = logging.getLogger("mcp_django")

#: A watched model to which the rows of a sender belong: its label, and the attribute of a row that holds the key there.
#: None: a row does not hold that key.
Target = tuple[str, str | None]


class LetGo(NamedTuple):
    """A relation that a delete of the row at its other end changes."""

    field: models.ForeignKey[Any, Any]
    #: What the rows that hold it are watched as.
    targets: tuple[Target, ...]


class Leaving:
    """The rows that are about to be deleted in one connection: an execute wrapper until its next statement."""

    def __init__(self, alias: str) -> None:
        self._alias = alias
        self._values: dict[LetGo, set[Any]] = defaultdict(set)
        self._waits = False

    def add(self, relations: Iterable[LetGo], instance: models.Model) -> None:
        if not self._waits:
            self._waits = True
            add_execute_wrapper(connections[self._alias], self)
        for one in relations:
            self._values[one].add(getattr(instance, one.field.target_field.attname))

    def __call__(
        self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Mapping[str, Any]
    ) -> Any:
        # Another wrapper may have sent a statement of its own in between.
        if self._waits:
            self._waits = False
            remove_execute_wrapper(connections[self._alias], self)
        values, self._values = self._values, defaultdict(set)
        for relation, of_relation in values.items():
            self._note(relation, of_relation - {None})
        return execute(sql, params, many, context)

    def _note(self, relation: LetGo, values: set[Any]) -> None:
        """Note the rows that hold one of the values; the whole model where there are too many of either."""
        attributes = [attribute for _, attribute in relation.targets if attribute is not None]
        found: Sequence[Any] | None = None
        most = changed_rows.MAX_CHANGED_KEYS
        if attributes and len(values) <= most:
            # Django changes them by this manager too.
            rows = relation.field.model._base_manager.using(self._alias).filter(is_in(relation.field, values))
            try:
                found = list(locked(rows).values_list(*attributes)[: most + 1])
            except Exception:
                logger.exception("Rows that a delete leaves behind cannot be read; their model counts as changed")
        for label, attribute in relation.targets:
            if found is None or attribute is None or len(found) > most:
                note(self._alias, label, written=None)
            elif found:
                place = attributes.index(attribute)
                note(self._alias, label, written={str(row[place]) for row in found})


def leaving(alias: str) -> Leaving:
    """The rows that are about to be deleted in the thread's connection."""
    connection: Any = connections[alias]
    if not hasattr(connection, "_mcp_leaving"):
        connection._mcp_leaving = Leaving(alias)
    found: Leaving = connection._mcp_leaving
    return found
