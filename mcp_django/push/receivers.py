"""What changed in a transaction, told once it is committed.

The receivers are connected per exposed model and note the key and nothing else. A change set belongs to one savepoint
branch: it is itself the on_commit callback, and only a weak reference is kept beside it, so that a rollback, which
drops the callback, forgets the set.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.core.signals import request_started
from django.db import models
from django.db.backends.signals import connection_created
from django.db.models.signals import m2m_changed, post_delete, post_save

from mcp_django.events.transaction import note
from mcp_django.sites import all_sites

if TYPE_CHECKING:
    from mcp_django.sites import MCPSite

logger = logging.getLogger("mcp_django")

Model = type[models.Model]
#: What the rows of a model are rows of: the label of a watched model, and the attribute that holds the key there. None:
#: the key cannot be told from the row.
Target = tuple[str, str | None]
_CONNECT_SECONDS = 5.0

#: What a relation may do at the delete of the row that it points to, without changing a row that stays.
_SETTING_NOTHING = (models.CASCADE, models.PROTECT, models.RESTRICT, models.DO_NOTHING)


# Which models are watched.


class Watch:
    """The receivers on the exposed models of every site, connected at the first sign of life of the database.

    ``ready()`` is too early: admins may be registered by apps that come later, or in urls.py.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._connecting = self._connected = False
        self._targets: dict[Model, list[Target]] = {}
        self._throughs: set[Model] = set()
        #: Sender → the labels of models whose rows are changed, without a signal, when one of its rows is deleted.
        self._let_go: dict[Model, set[str]] = {}

    def models(self) -> set[Model]:
        """The concrete models that somebody may watch."""
        return {model for site in all_sites() for model in _watched(site)}

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

    def refresh(self, **kwargs: Any) -> None:
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
