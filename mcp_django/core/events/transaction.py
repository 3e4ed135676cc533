"""Change sets: the changes of a transaction, which are published once it is committed.

A change set belongs to one savepoint branch. The set itself is the on_commit callback, and everything else holds only a
weak reference to it: a rollback drops the callback, and with it the set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from django.db import connections

from mcp_django.core.compat.connections import on_commit_count, on_commit_functions, on_commit_place, savepoint_branch
from mcp_django.core.events.bus import get_bus
from mcp_django.core.events.changed_rows import Changes
from mcp_django.core.events.controls import Control, ControlKind, ControlSet
from mcp_django.core.events.publisher import publisher

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


class ChangeSet:
    """The changes of one savepoint branch of one connection."""

    __slots__ = ("__weakref__", "changes", "controls", "position", "published")

    def __init__(self) -> None:
        self.changes = Changes()
        self.controls = ControlSet()
        self.published = False
        #: Its index among the connection's on_commit callbacks when it was last looked up.
        self.position = 0

    def __call__(self) -> None:
        # A bus that publishes with the commit has sent it already.
        if not self.published:
            self.published = True
            publisher.put(self.changes, self.controls)

    def waits(self, connection: BaseDatabaseWrapper) -> bool:
        """Whether it is among the callbacks of the present transaction.

        While the callbacks of a commit run, one may open a new transaction. Its rollback drops only its own callbacks.
        """
        place = on_commit_place(connection, self, self.position)
        if place is None:
            return False
        self.position = place
        return not self.published


def current(connection: BaseDatabaseWrapper) -> ChangeSet | None:
    """The change set of the connection's present savepoint branch; None where commits cannot be seen."""
    if not connection.in_atomic_block:
        return ChangeSet() if connection.get_autocommit() else None
    kept: WeakValueDictionary[Any, ChangeSet] | None = getattr(connection, "_mcp_change_sets", None)
    if kept is None:
        kept = WeakValueDictionary()
        connection._mcp_change_sets = kept  # type: ignore[attr-defined]
    branch = savepoint_branch(connection)
    change_set = kept.get(branch)
    if change_set is None or not change_set.waits(connection):
        change_set = kept[branch] = ChangeSet()
        change_set.position = on_commit_count(connection)
        connection.on_commit(change_set, robust=True)
        _publish_with_commit(connection)
    return change_set


def _publish_with_commit(connection: BaseDatabaseWrapper) -> None:
    """Let the bus publish with the connection's commits, if it can."""
    # The error of settings that name no bus is logged when the change is published.
    with contextlib.suppress(Exception):
        get_bus().publish_with_commit(connection)


def unpublished(connection: BaseDatabaseWrapper) -> list[ChangeSet]:
    """The change sets that are published if the connection's present transaction commits."""
    return [item for item in on_commit_functions(connection) if isinstance(item, ChangeSet) and not item.published]


def note(alias: str, label: str, *, written: Iterable[str] | None = (), deleted: Iterable[str] = ()) -> None:
    """Note that rows of a model were written or deleted. It is published when the transaction commits."""
    connection = connections[alias]
    if not connection.in_atomic_block:
        # The usual save: it is committed already, and needs no set.
        if connection.get_autocommit():
            changes = Changes()
            changes.note(alias, label, written, deleted)
            publisher.put(changes, ControlSet())
        return
    change_set = current(connection)
    if change_set is not None:
        change_set.changes.note(alias, label, written, deleted)


def note_control(alias: str, kind: ControlKind, key: str = "") -> None:
    """Let every process know of something beside changed rows, once the transaction commits: see ``ControlKind``."""
    connection = connections[alias]
    change_set = current(connection)
    if change_set is not None:
        change_set.controls.note(Control(kind, key))
        if not connection.in_atomic_block:
            change_set()
