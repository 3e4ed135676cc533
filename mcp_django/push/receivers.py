"""What changed in a transaction, told once it is committed.

The receivers are connected per exposed model and note the key and nothing else. A change set belongs to one savepoint
branch: it is itself the on_commit callback, and only a weak reference is kept beside it, so that a rollback, which
drops the callback, forgets the set.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any
from weakref import WeakSet, WeakValueDictionary

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.signals import request_started
from django.db import connections, models
from django.db.backends.signals import connection_created
from django.db.models.signals import m2m_changed, post_delete, post_save

from mcp_django.conf import get_conf
from mcp_django.events.bus import get_bus
from mcp_django.events.publisher import publisher

if TYPE_CHECKING:
    from django.db.backends.base.base import BaseDatabaseWrapper

    from mcp_django.sites import MCPSite

logger = logging.getLogger("mcp_django")

Model = type[models.Model]
JSON = dict[str, Any]
#: What the rows of a model are rows of: the label of a watched model, and the attribute that holds the key there. None:
#: the key cannot be told from the row.
Target = tuple[str, str | None]

#: The control that tells of what everybody may do, and the beginning of those that tell of one user, by the key.
ACCESS, ACCESS_OF = "access", "access:"
#: What more users than these may do is told, in one transaction, as what everybody may do.
_MAX_USERS = 100

_CONNECT_SECONDS = 5.0

#: What a relation may do at the delete of the row that it points to, without changing a row that stays.
_SETTING_NOTHING = (models.CASCADE, models.PROTECT, models.RESTRICT, models.DO_NOTHING)


@dataclass(slots=True)
class ModelChange:
    """What happened to the rows of one model, on one database."""

    #: Keys of rows that were written, as text. None: the model changed, and nobody knows where.
    written: set[str] | None = field(default_factory=set)
    deleted: set[str] = field(default_factory=set)

    def merge(self, written: Iterable[str] | None, deleted: Iterable[str]) -> None:
        if written is None or self.written is None:
            self.written = None
        else:
            self.written.update(written)
        self.deleted.update(deleted)
        if self.written is not None and len(self.written) + len(self.deleted) > get_conf().MAX_CHANGED_KEYS:
            self.written = None
        if self.written is None:
            self.deleted.clear()


class Changes(dict[tuple[str, str], ModelChange]):
    """ModelChange by (database alias, label of the concrete model)."""

    def note(self, alias: str, label: str, written: Iterable[str] | None = (), deleted: Iterable[str] = ()) -> None:
        change = self.get((alias, label))
        if change is None:
            change = self[alias, label] = ModelChange()
        change.merge(written, deleted)

    def absorb(self, other: Changes) -> None:
        for (alias, label), change in other.items():
            self.note(alias, label, change.written, change.deleted)

    def as_json(self) -> list[JSON]:
        """The changes as an event carries them."""
        return [
            {
                "alias": alias,
                "label": label,
                "written": None if change.written is None else sorted(change.written),
                "deleted": sorted(change.deleted),
            }
            for (alias, label), change in self.items()
        ]


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


# Which models are watched.


class Watch:
    """The receivers on the exposed models of every site, connected at the first sign of life of the database.

    ``ready()`` is too early: admins may be registered by apps that come later, or in urls.py.
    """

    def __init__(self) -> None:
        self.sites: WeakSet[MCPSite] = WeakSet()
        self._lock = RLock()
        self._connecting = self._connected = False
        self._targets: dict[Model, list[Target]] = {}
        self._throughs: set[Model] = set()
        #: Sender → the labels of models whose rows are changed, without a signal, when one of its rows is deleted.
        self._let_go: dict[Model, set[str]] = {}

    def all_sites(self) -> list[MCPSite]:
        """Every site, also one that is made where the URLconf imports it."""
        import_module(settings.ROOT_URLCONF)
        return list(self.sites)

    def models(self) -> set[Model]:
        """The concrete models that somebody may watch."""
        return {model for site in self.all_sites() for model in _watched(site)}

    def prime(self) -> None:
        """Wait for the first connection, request or save. None of these receivers outlives it."""
        for signal in (connection_created, request_started, post_save):
            signal.connect(self._on_life, dispatch_uid="mcp_django.watch")

    def _on_life(self, sender: Any, **kwargs: Any) -> None:
        # Other threads wait, or what they save meanwhile would not be told: but not for ever, since one of them may be
        # importing the URLconf that is needed here.
        if not apps.ready or not self._lock.acquire(timeout=_CONNECT_SECONDS):
            return
        nested = self._connecting
        try:
            if nested:
                return  # A query of the URLconf itself.
            if not self._connected:
                self._connecting = True
                self._connect()
        except Exception:
            logger.exception("The models to watch cannot be found yet; changes are not told")
            return
        finally:
            self._connecting = nested
            self._lock.release()
        for signal in (connection_created, request_started, post_save):
            signal.disconnect(dispatch_uid="mcp_django.watch")
        if "instance" in kwargs and sender in self._targets:
            self._saved(sender, **kwargs)

    def targets_of(self, model: Model) -> Sequence[Target]:
        """What the model's rows are rows of; nothing where nobody may watch them."""
        if not self._connected:
            self._on_life(model)
        return self._targets.get(model, ())

    def refresh(self) -> None:
        """Watch what is exposed now, after a registration."""
        if self._connected:
            self._disconnect()
            self._connect()

    def _connect(self) -> None:
        self._targets, self._throughs = {}, set()
        for model in self.models():
            for sender, attribute in _family(model):
                targets = self._targets.setdefault(sender, [])
                target = (model._meta.label_lower, attribute)
                if target not in targets:
                    targets.append(target)
            for relation in (*model._meta.many_to_many, *_reverse_many_to_many(model)):
                self._throughs.add(getattr(relation, "through", None) or relation.remote_field.through)
        self._let_go = {sender: self._left_behind(sender) for sender in self._targets}
        for sender in self._targets:
            post_save.connect(self._saved, sender=sender, weak=False)
            post_delete.connect(self._deleted, sender=sender, weak=False)
        for through in self._throughs:
            m2m_changed.connect(self._many_changed, sender=through, weak=False)
        self._connected = True

    def _disconnect(self) -> None:
        for sender in self._targets:
            post_save.disconnect(self._saved, sender=sender)
            post_delete.disconnect(self._deleted, sender=sender)
        for through in self._throughs:
            m2m_changed.disconnect(self._many_changed, sender=through)

    def _saved(self, sender: Model, instance: Any, using: str, **kwargs: Any) -> None:
        for label, attribute in self._targets.get(sender, ()):
            note(using, label, written=None if attribute is None else (key_of(instance, attribute),))

    def _deleted(self, sender: Model, instance: Any, using: str, **kwargs: Any) -> None:
        for label, attribute in self._targets.get(sender, ()):
            if attribute is None:
                note(using, label, written=None)
            else:
                note(using, label, deleted=(key_of(instance, attribute),))
        for label in self._let_go.get(sender, ()):
            note(using, label, written=None)

    def _many_changed(
        self, sender: Model, *, instance: Any, action: str, model: Model, pk_set: Any, using: str, **kwargs: Any
    ) -> None:
        if not action.startswith("post_"):
            return
        self._note_rows(type(instance), {key_of(instance, "pk")}, using)
        # A cleared relation does not say whom it held.
        self._note_rows(model, None if pk_set is None else {str(key) for key in pk_set}, using)

    def _left_behind(self, sender: Model) -> set[str]:
        """The watched models with a relation to the sender that a delete sets to something else: SET_NULL and the like.

        Which of their rows point to a deleted one, only the database could say.
        """
        labels: set[str] = set()
        for relation in sender._meta.get_fields(include_hidden=True):
            if not isinstance(relation, models.ManyToOneRel) or relation.on_delete in _SETTING_NOTHING:
                continue
            # Django sets it by the base manager, which may tell of it with the keys of the rows.
            by_manager = getattr(relation.on_delete, "lazy_sub_objs", False)
            base_manager: Any = relation.related_model._base_manager
            if not (by_manager and getattr(base_manager._queryset_class, "tells_of_updates", False)):
                labels.update(label for label, _ in self._targets.get(relation.related_model, ()))
        return labels

    def _note_rows(self, model: Model, keys: set[str] | None, using: str) -> None:
        for label, _ in self._targets.get(model, ()):
            note(using, label, written=keys)


def key_of(instance: models.Model, attribute: str) -> str:
    """The key as the database spells it: it may have been assigned as other text, a UUID without hyphens, say."""
    return spelled_key(instance._meta.pk, getattr(instance, attribute))


def spelled_key(field: models.Field[Any, Any], value: Any) -> str:
    """The text of a key of this primary key."""
    try:
        return str(field.to_python(value))
    except ValidationError:
        return str(value)


def _watched(site: MCPSite) -> Iterator[Model]:
    for model_mcp in site.models.values():
        if model_mcp.watch:
            yield model_mcp.model._meta.concrete_model or model_mcp.model


def _family(model: Model) -> Iterator[tuple[Model, str | None]]:
    """The senders whose signals speak of the model's rows, each with the attribute that holds the row's key.

    A receiver on a model hears neither its proxies nor the children that multi-table inheritance gives it.
    """
    key = model._meta.pk.attname
    for candidate in apps.get_models(include_auto_created=True):
        concrete = candidate._meta.concrete_model
        if concrete is None:
            continue
        if issubclass(concrete, model):
            yield candidate, key
        elif issubclass(model, concrete):
            root = model._meta.pk
            points_there = isinstance(root, models.OneToOneField) and root.related_model is concrete
            yield candidate, concrete._meta.pk.attname if points_there else None


def _reverse_many_to_many(model: Model) -> list[Any]:
    return [relation for relation in model._meta.related_objects if relation.many_to_many]


watch = Watch()
