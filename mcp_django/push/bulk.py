"""Reports changes for which Django sends no signal: bulk operations of querysets, ``changed`` and ``updated``."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import DEFAULT_DB_ALIAS, connections, models, router

from mcp_django.bridge.resources import uris
from mcp_django.bridge.sites import all_sites
from mcp_django.core.compat import queries
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.db.locked_rows import locked
from mcp_django.core.events import changed_rows
from mcp_django.core.events.transaction import note
from mcp_django.push.left_behind import Target
from mcp_django.push.receivers import key_of, watch

logger = logging.getLogger("mcp_django")

Row = TypeVar("Row", bound=models.Model)
_Row_co = TypeVar("_Row_co", bound=models.Model, covariant=True)

#: Attribute of the rows → the values of the changed rows, as text. None: it is unknown which rows were changed.
Keys = Mapping[str, Collection[str]] | None


class WatchedQuerySetMixin(queries.QuerySetHooks):
    """A queryset that notifies subscribers of ``bulk_create``, ``bulk_update`` and ``update``, also the async ones.

    The methods do what Django's own do. For a model that nobody can watch they cost one dictionary lookup. Where the
    keys of the rows cannot be known, or are more than MAX_CHANGED_KEYS, the whole model counts as changed.
    """

    reports_updates = True
    #: The caller of this queryset reports the change.
    _is_reported = False
    _carried = ("_is_reported",)

    def bulk_create(self, objs: Iterable[Row], *args: Any, **kwargs: Any) -> list[Row]:
        rows, key = list(objs), self.model._meta.pk
        # With update_conflicts, an existing row may be changed whose key is not that of the given row.
        other_keys = _argument(args, kwargs, 2, "update_conflicts") and not self._conflict_on_key(args, kwargs)
        other_keys = other_keys and (key.has_default() or any(row.pk is not None for row in rows))
        made: list[Row] = super().bulk_create(rows, *args, **kwargs)
        targets = self._targets()
        if targets and rows:
            _note(targets, self.db, None if other_keys else _readable(lambda: _keys_of(targets, rows)))
        return made

    bulk_create.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(self, objs: Iterable[Any], fields: Iterable[str], *args: Any, **kwargs: Any) -> int:
        rows = tuple(objs)
        silent = self._copied()
        silent._is_reported = True
        changed: int = _unwatched(silent).bulk_update(rows, fields, *args, **kwargs)
        targets = self._targets()
        if targets and changed:
            _note(targets, silent.db, _readable(lambda: _keys_of(targets, rows)))
        return changed

    bulk_update.alters_data = True  # type: ignore[attr-defined]

    def update(self, **kwargs: Any) -> int:
        targets = self._targets()
        if not targets or self._is_reported:
            return super().update(**kwargs)
        queries.write_to(self)
        changed, keys = self._by_key(targets, lambda rows: _unwatched(rows).update(**kwargs))
        queries.forget_rows(self)
        if changed:
            attributes = {attribute for _, attribute in targets}
            _note(targets, self.db, None if _changes_key(self.model, attributes, kwargs) else keys)
        return changed

    update.alters_data = True  # type: ignore[attr-defined]

    def _delete_at_once(self, using: str | None) -> int:
        targets = self._targets()
        if not targets:
            return super()._delete_at_once(using)
        rows = self.using(using)
        queries.write_to(rows)
        deleted, keys = rows._by_key(targets, lambda rows: _unwatched(rows)._delete_at_once(rows.db))
        if deleted:
            _note(targets, rows.db, keys, deleted=True)
        return deleted

    _delete_at_once.alters_data = True  # type: ignore[attr-defined]

    def _targets(self) -> Sequence[Target]:
        return watch.targets_of(self.model)

    def _conflict_on_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether the primary key alone decides which existing rows ``bulk_create`` updates."""
        named = _argument(args, kwargs, 4, "unique_fields")
        return bool(named) and set(named) <= {"pk", self.model._meta.pk.name}

    def _by_key(self, targets: Sequence[Target], work: Callable[[Any], int]) -> tuple[int, Keys]:
        """Do ``work`` to the rows of the queryset. Returns the number of rows and their keys.

        The keys are read first. The work is then done to the rows that have these keys *and* still meet the conditions,
        so that every changed row is reported. A row that meets the conditions only after the read is left alone, as if
        it had come later.
        """
        # Databases bound the values of one statement, SQLite to 32,766 (sqlite.org/limits.html).
        limit = changed_rows.MAX_CHANGED_KEYS
        attributes = sorted({attribute for _, attribute in targets if attribute is not None})
        if not queries.has_plain_rows(self):
            return work(self), None
        found = list(locked(self).values_list("pk", *attributes)[: limit + 1])
        if len(found) > limit:
            return work(self), None
        rows = self.using(self.db).filter(has_key_in(self.model, {row[0] for row in found}))
        return work(rows), _readable(
            lambda: {attribute: {str(row[place]) for row in found} for place, attribute in enumerate(attributes, 1)}
        )


def _unwatched(rows: Any) -> Any:
    """The queryset's methods as they are without ours."""
    return super(WatchedQuerySetMixin, rows)


class WatchedQuerySet(WatchedQuerySetMixin, models.QuerySet[_Row_co, _Row_co]):
    """Django's queryset, reporting what it does in bulk."""


class WatchedManager(models.Manager.from_queryset(WatchedQuerySet)):  # type: ignore[misc]
    """Django's manager, reporting what it does in bulk: ``objects = WatchedManager()``.

    With ``base_manager_name = "objects"`` in the model's Meta, what Django itself does in bulk is reported too:
    relations that are set from the other side, and those that a deleted row leaves empty (SET_NULL).
    """


def changed(model: type[models.Model] | str, pks: Iterable[Any] | None = None, *, using: str | None = None) -> None:
    """Notify subscribers that rows of a model were written or deleted in a way for which Django sends no signal.

    ``model`` is a model, or its ``"app_label.ModelName"``. ``pks`` are keys or rows; None means that the rows are
    unknown. ``using`` is the alias of the database, by default the one that the model is written to. Subscribers are
    notified when the transaction commits, and not at all if it is rolled back. Nothing happens if nobody can watch the
    model.

    Raises LookupError for a model that is not installed, ConnectionDoesNotExist for an unknown alias, ValueError for a
    value that is no key of the model, and TypeError if ``model`` is no model, or ``pks`` no list of keys.
    """
    model = _installed(model)
    alias = using or router.db_for_write(model)
    connections[alias]  # A misspelt alias must raise, not be ignored.
    keys = None if pks is None else _read_keys(model, pks)
    targets = watch.targets_of(model)
    if keys is not None and not keys:
        return
    attributes = _names_of_key(model)
    known = None if keys is None else {attribute: keys for _, attribute in targets if attribute in attributes}
    _note(targets, alias, known)


def _installed(model: Any) -> type[models.Model]:
    """The installed model: migrations have historical models, which have no watchers."""
    if isinstance(model, str):
        if model.count(".") != 1:
            raise LookupError(f"changed() takes the name of a model as 'app_label.ModelName', and not {model!r}.")
        return apps.get_model(model)
    if not isinstance(model, type) or not issubclass(model, models.Model) or model._meta.abstract:
        raise TypeError(f"changed() takes a model, or its name as 'app_label.ModelName', and not {model!r}.")
    return apps.get_model(model._meta.label)


def _read_keys(model: type[models.Model], pks: Iterable[Any]) -> set[str]:
    if isinstance(pks, str | bytes) or not isinstance(pks, Iterable):
        raise TypeError(f"changed() takes a list of keys, and not {pks!r}.")
    keys, field = set(), model._meta.pk
    for value in pks:
        key = value.pk if isinstance(value, model._meta.concrete_model or model) else value
        try:
            if key is None or isinstance(key, models.Model):
                raise ValidationError("no key")
            keys.add(str(field.to_python(key)))
        except ValidationError as error:
            raise ValueError(f"{value!r} is no key of {model._meta.label}.") from error
    return keys


def _names_of_key(model: type[models.Model]) -> set[str]:
    """The attributes that hold the primary key of a row: with multi-table inheritance those of its parents too."""
    field: Any = model._meta.pk
    names = {field.attname}
    while field.remote_field is not None and field.remote_field.parent_link:
        field = field.target_field
        names.add(field.attname)
    return names


def _argument(args: Sequence[Any], kwargs: Mapping[str, Any], place: int, name: str) -> Any:
    return args[place] if len(args) > place else kwargs.get(name)


def _changes_key(model: type[models.Model], attributes: Collection[str | None], values: Collection[str]) -> bool:
    """Whether an update of these values changes the keys of rows."""
    keys = [field for field in model._meta.concrete_fields if field.primary_key or field.attname in attributes]
    return bool({*(field.name for field in keys), *(field.attname for field in keys)}.intersection(values))


def _readable(keys: Callable[[], Keys]) -> Keys:
    """What ``keys`` returns. None if it fails: the rows are written, so the project's own call must not fail."""
    try:
        return keys()
    except Exception:
        logger.exception("The keys of changed rows cannot be read; their model counts as changed")
        return None


def _keys_of(targets: Iterable[Target], rows: Iterable[models.Model]) -> Keys:
    """The keys of given rows. None where the database has generated keys and did not return them."""
    keys: dict[str, set[str]] = {attribute: set() for _, attribute in targets if attribute is not None}
    for row in rows:
        for attribute, values in keys.items():
            value = getattr(row, attribute)
            if value is None or hasattr(value, "resolve_expression"):
                return None
            values.add(key_of(row, attribute))
    return keys


def _note(targets: Iterable[Target], alias: str, keys: Keys, *, deleted: bool = False) -> None:
    for label, attribute in targets:
        known = keys.get(attribute) if keys is not None and attribute is not None else None
        if known is not None and deleted:
            note(alias, label, deleted=known)
        else:
            note(alias, label, written=known)


def updated(uri: str, *, using: str = DEFAULT_DB_ALIAS) -> None:
    """Notify subscribers of a ``@resource(…, watch=True)`` that it has changed.

    ``uri`` is that of the resource, or one of the URIs of a template. Subscribers are notified when the transaction on
    the database ``using`` commits, and not at all if it is rolled back; in each process, and only those that may read
    the resource.

    Raises LookupError where no resource has the URI, ValueError where it is declared without ``watch``, and
    ConnectionDoesNotExist for an unknown alias.
    """
    if uri.startswith(uris.SCHEME):
        raise LookupError(f"{uri} is a resource of a model. mcp_django.changed(model, keys) reports its changes.")
    found = [resource for site in all_sites() if (resource := site.find_resource(uri)) is not None]
    if not found:
        raise LookupError(f"No resource has the URI {uri!r}.")
    watched = {(resource.uri, resource.spelled(uri)) for resource in found if resource.watch}
    if not watched:
        raise ValueError(f"Nobody can watch {uri}: declare it with @resource({found[0].uri!r}, watch=True).")
    for label, key in sorted(watched):
        note(using, label, written={key})
