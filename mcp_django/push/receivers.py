"""Signal receivers on the watched models: they note the keys of changed rows in the transaction's change set.

They are connected for each exposed model, and note the key and nothing else.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from threading import RLock
from typing import TYPE_CHECKING, Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_delete

from mcp_django.bridge.site_signals import registry_changed
from mcp_django.bridge.sites import all_sites
from mcp_django.core.compat.models import base_queryset_class, sets_by_base_manager
from mcp_django.core.events.transaction import note
from mcp_django.push import first_sign
from mcp_django.push.left_behind import LetGo, Target, leaving

if TYPE_CHECKING:
    from mcp_django.exchange.site import Site

logger = logging.getLogger("mcp_django")

Model = type[models.Model]
_CONNECT_SECONDS = 5.0

_NOT_NOTED = "A changed row of %s could not be noted; its model counts as changed"

#: Values of on_delete that change no remaining row.
_SETTING_NOTHING = (models.CASCADE, models.PROTECT, models.RESTRICT, models.DO_NOTHING)


class Watch:
    """The receivers on the exposed models of every site, connected at the first sign of life of the database."""

    def __init__(self) -> None:
        self._lock = RLock()
        self._connecting = self._connected = False
        self._watched: set[Model] = set()
        self._targets: dict[Model, list[Target]] = {}
        self._throughs: set[Model] = set()
        #: Sender → the relations that are changed, without a signal, when one of its rows is deleted.
        self._let_go: dict[Model, list[LetGo]] = {}

    def models(self) -> set[Model]:
        """The concrete models that clients may watch."""
        return {model for site in all_sites() for model in _watched(site)}

    def begin(self, sender: Any, **kwargs: Any) -> None:
        """Connect the receivers. ``kwargs``: those of the signal; a save that is the first sign counts."""
        # Other threads wait, or their saves meanwhile would not be reported. They do not wait for ever, since one of
        # them may be importing the URLconf that is needed here.
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
            logger.exception(first_sign.NOT_YET)
            return
        finally:
            self._connecting = nested
            self._lock.release()
        first_sign.stop_waiting()
        if "instance" in kwargs and sender in self._targets:
            self._saved(sender, **kwargs)

    def targets_of(self, model: Model) -> Sequence[Target]:
        """The watched models to which the model's rows belong; empty where clients may watch none."""
        if not self._connected:
            self.begin(model)
        return self._targets.get(model, ())

    def refresh(self, **kwargs: Any) -> None:
        """Watch the models that are exposed now, where a registration has changed which those are."""
        if self._connected and self.models() != self._watched:
            self._disconnect()
            self._connect()

    def _connect(self) -> None:
        self._watched, self._targets, self._throughs = self.models(), {}, set()
        for model in self._watched:
            for sender, attribute in _family(model):
                targets = self._targets.setdefault(sender, [])
                target = (model._meta.label_lower, attribute)
                if target not in targets:
                    targets.append(target)
            for relation in (*model._meta.many_to_many, *_reverse_many_to_many(model)):
                self._throughs.add(getattr(relation, "through", None) or relation.remote_field.through)
        self._let_go = {sender: found for sender in self._targets if (found := list(self._left_behind(sender)))}
        for sender in self._let_go:
            pre_delete.connect(self._deleting, sender=sender, weak=False)
        for sender in self._targets:
            post_save.connect(self._saved, sender=sender, weak=False)
            post_delete.connect(self._deleted, sender=sender, weak=False)
        for through in self._throughs:
            m2m_changed.connect(self._many_changed, sender=through, weak=False)
        self._connected = True

    def _disconnect(self) -> None:
        for sender in self._let_go:
            pre_delete.disconnect(self._deleting, sender=sender)
        for sender in self._targets:
            post_save.disconnect(self._saved, sender=sender)
            post_delete.disconnect(self._deleted, sender=sender)
        for through in self._throughs:
            m2m_changed.disconnect(self._many_changed, sender=through)

    # None of the four may raise into the project's ``save``.

    def _saved(self, sender: Model, instance: Any, using: str, **kwargs: Any) -> None:
        try:
            for label, attribute in self._targets.get(sender, ()):
                note(using, label, written=None if attribute is None else (key_of(instance, attribute),))
        except Exception:
            logger.exception(_NOT_NOTED, sender._meta.label)
            self._note_models(using, sender)

    def _deleted(self, sender: Model, instance: Any, using: str, **kwargs: Any) -> None:
        try:
            for label, attribute in self._targets.get(sender, ()):
                if attribute is None:
                    note(using, label, written=None)
                else:
                    note(using, label, deleted=(key_of(instance, attribute),))
        except Exception:
            logger.exception(_NOT_NOTED, sender._meta.label)
            self._note_models(using, sender)

    def _deleting(self, sender: Model, instance: Any, using: str, **kwargs: Any) -> None:
        try:
            leaving(using).add(self._let_go[sender], instance)
        except Exception:
            logger.exception(_NOT_NOTED, sender._meta.label)
            self._note_models(using, sender)

    def _many_changed(
        self, sender: Model, *, instance: Any, action: str, model: Model, pk_set: Any, using: str, **kwargs: Any
    ) -> None:
        if not action.startswith("post_"):
            return
        try:
            self._note_rows(type(instance), {key_of(instance, "pk")}, using)
            # The signal of a cleared relation does not name the rows that it held.
            self._note_rows(model, None if pk_set is None else {str(key) for key in pk_set}, using)
        except Exception:
            logger.exception(_NOT_NOTED, sender._meta.label)
            self._note_models(using, type(instance), model)

    def _left_behind(self, sender: Model) -> Iterator[LetGo]:
        """The relations of watched models to the sender that a delete changes: SET_NULL and the like."""
        for relation in sender._meta.get_fields(include_hidden=True):
            if not isinstance(relation, models.ManyToOneRel) or relation.on_delete in _SETTING_NOTHING:
                continue
            # Django makes this change by the base manager, which may report it with the keys of the rows.
            by_manager = sets_by_base_manager(relation.on_delete)
            queryset_class = base_queryset_class(relation.related_model._base_manager)
            is_reported = by_manager and getattr(queryset_class, "reports_updates", False)
            if not is_reported and (targets := self._targets.get(relation.related_model)):
                yield LetGo(relation.field, tuple(targets))

    def _note_models(self, using: str, *senders: Model) -> None:
        """Note a change of the whole models, where the change of a row could not be noted."""
        try:
            for sender in senders:
                left = [target for one in self._let_go.get(sender, ()) for target in one.targets]
                for label in {label for label, _ in [*self._targets.get(sender, ()), *left]}:
                    note(using, label, written=None)
        except Exception:
            logger.exception("A change of %s is not pushed", senders[0]._meta.label)

    def _note_rows(self, model: Model, keys: set[str] | None, using: str) -> None:
        for label, _ in self._targets.get(model, ()):
            note(using, label, written=keys)


def key_of(instance: models.Model, attribute: str) -> str:
    """The key as the database spells it. It may be assigned in another spelling, such as a UUID without hyphens."""
    return spelled_key(instance._meta.pk, getattr(instance, attribute))


def spelled_key(field: models.Field[Any, Any], value: Any) -> str:
    """The text of a value of this primary key."""
    try:
        return str(field.to_python(value))
    except ValidationError:
        return str(value)


def _watched(site: Site) -> Iterator[Model]:
    for model_mcp in site.models.values():
        if model_mcp.watch:
            yield model_mcp.model._meta.concrete_model or model_mcp.model
    if site.api_resources:
        yield from (one.model._meta.concrete_model for one in site.api.records.values())


def _family(model: Model) -> Iterator[tuple[Model, str | None]]:
    """The senders whose signals concern the model's rows, each with the attribute that holds the row's key.

    A receiver on a model gets no signals of its proxies, nor of its children by multi-table inheritance.
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
registry_changed.connect(watch.refresh, dispatch_uid="mcp_django.watch")
