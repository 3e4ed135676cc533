"""What a transaction changed, told once it is committed.

A change set belongs to one savepoint branch: it is itself the on_commit callback, and only a weak reference is kept
beside it, so that a rollback, which drops the callback, forgets the set.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from django.db import connections

from mcp_django.events.bus import get_bus
from mcp_django.events.changes import Changes
from mcp_django.events.publisher import publisher

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper


#: The control that tells of what everybody may do, and the beginning of those that tell of one user, by the key.
ACCESS, ACCESS_OF = "access", "access:"
#: What more users than these may do is told, in one transaction, as what everybody may do.
_MAX_USERS = 100


class ChangeSet:
    """The changes of one savepoint branch of one connection."""

    __slots__ = ("__weakref__", "changes", "controls", "position", "told")

    def __init__(self) -> None:
        self.changes = Changes()
        self.controls: set[str] = set()
        self.told = False
        #: Where it stood among the connection's on_commit callbacks when it was last looked for.
        self.position = 0

    def __call__(self) -> None:
        # A bus that rides in the transaction has told it already.
        if not self.told:
            self.told = True
            publisher.put(self.changes, self.controls)

    def note_control(self, control: str) -> None:
        if control.startswith(ACCESS_OF):
            if ACCESS in self.controls:
                return
            users = {item for item in self.controls if item.startswith(ACCESS_OF)}
            if len(users) >= _MAX_USERS:
                self.controls -= users
                control = ACCESS
        self.controls.add(control)

    def waits(self, callbacks: list[Any]) -> bool:
        """Whether it is among the callbacks of the present transaction.

        While the callbacks of a commit run, one of them may open a new transaction, whose rollback drops only its own.
        """
        if self.position >= len(callbacks) or callbacks[self.position][1] is not self:
            self.position = next((index for index, item in enumerate(callbacks) if item[1] is self), len(callbacks))
        return not self.told and self.position < len(callbacks)


def current(connection: BaseDatabaseWrapper) -> ChangeSet | None:
    """The change set of the connection's present savepoint branch; None where commits cannot be seen."""
    if not connection.in_atomic_block:
        return ChangeSet() if connection.get_autocommit() else None
    kept: WeakValueDictionary[Any, ChangeSet] | None = getattr(connection, "_mcp_change_sets", None)
    if kept is None:
        kept = WeakValueDictionary()
        connection._mcp_change_sets = kept  # type: ignore[attr-defined]
    branch = tuple(connection.savepoint_ids)
    change_set = kept.get(branch)
    if change_set is None or not change_set.waits(connection.run_on_commit):
        change_set = kept[branch] = ChangeSet()
        change_set.position = len(connection.run_on_commit)
        connection.on_commit(change_set, robust=True)
        _ride_with(connection)
    return change_set


def _ride_with(connection: BaseDatabaseWrapper) -> None:
    """Let the bus tell in the connection's transaction what that changes, if it can."""
    # Settings that name no bus are told of when the change is.
    with contextlib.suppress(Exception):
        get_bus().ride_with(connection)


def untold(connection: BaseDatabaseWrapper) -> list[ChangeSet]:
    """The change sets that are told if the connection's present transaction commits."""
    return [item[1] for item in connection.run_on_commit if isinstance(item[1], ChangeSet) and not item[1].told]


def note(alias: str, label: str, *, written: Iterable[str] | None = (), deleted: Iterable[str] = ()) -> None:
    """Rows of a model were written or deleted; told when the transaction commits."""
    connection = connections[alias]
    change_set = current(connection)
    if change_set is not None:
        change_set.changes.note(alias, label, written, deleted)
        if not connection.in_atomic_block:
            change_set()


def note_control(alias: str, control: str) -> None:
    """Something that every process must know (``access:<user>``, ``tools``, ``session:<key>``), told at the commit."""
    connection = connections[alias]
    change_set = current(connection)
    if change_set is not None:
        change_set.note_control(control)
        if not connection.in_atomic_block:
            change_set()
