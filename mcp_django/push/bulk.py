"""Telling of what Django sends no signal for: a queryset that reports what it does in bulk, and ``changed``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import connections, models, router

from mcp_django.conf import get_conf
from mcp_django.events.transaction import note
from mcp_django.push.receivers import Target, key_of, watch

Row = TypeVar("Row", bound=models.Model)
_Row_co = TypeVar("_Row_co", bound=models.Model, covariant=True)

if TYPE_CHECKING:

    class _Base(models.QuerySet[Any, Any]):
        """A queryset of Django's, which the mixin stands before."""

        _for_write: bool
        _fields: Any

        def _clone(self) -> Any: ...
        def _chain(self) -> Any: ...

else:
    _Base = object

#: Attribute of the rows → the values of those that were changed, as text. None: nobody knows which rows they were.
Keys = Mapping[str, Collection[str]] | None

#: Databases bound the values of one statement: SQLite to 32,766 (sqlite.org/limits.html).
_MOST_KEYS_IN_A_CONDITION = 10_000


class WatchedQuerySetMixin(_Base):
    """A queryset that tells subscribers of ``bulk_create``, ``bulk_update`` and ``update``, also the async ones.

    They do what Django's own do. Of a model that nobody watches they cost a look into a dictionary. Where the keys of
    the rows cannot be known, or there are more than MAX_CHANGED_KEYS, subscribers are told that the model changed.
    """

    tells_of_updates = True
    #: What this queryset does is told by its caller.
    _is_told_of = False

    def _clone(self) -> Any:
        clone = super()._clone()
        clone._is_told_of = self._is_told_of
        return clone

    def bulk_create(self, objs: Iterable[Row], *args: Any, **kwargs: Any) -> list[Row]:
        rows, key = list(objs), self.model._meta.pk
        # A row that is in the way of one that brings its key is changed under a key of its own.
        other_keys = _argument(args, kwargs, 2, "update_conflicts") and not self._conflict_on_key(args, kwargs)
        other_keys = other_keys and (key.has_default() or any(row.pk is not None for row in rows))
        made: list[Row] = super().bulk_create(rows, *args, **kwargs)
        targets = self._targets()
        if targets and rows:
            _note(targets, self.db, None if other_keys else _keys_of(targets, rows))
        return made

    bulk_create.alters_data = True  # type: ignore[attr-defined]

    def bulk_update(self, objs: Iterable[Any], fields: Iterable[str], *args: Any, **kwargs: Any) -> int:
        rows = tuple(objs)
        silent = self._chain()
        silent._is_told_of = True
        changed: int = _unwatched(silent).bulk_update(rows, fields, *args, **kwargs)
        targets = self._targets()
        if targets and changed:
            _note(targets, silent.db, _keys_of(targets, rows))
        return changed

    bulk_update.alters_data = True  # type: ignore[attr-defined]

    def update(self, **kwargs: Any) -> int:
        targets = self._targets()
        if not targets or self._is_told_of:
            return super().update(**kwargs)
        self._for_write = True
        changed, keys = self._by_key(targets, lambda rows: _unwatched(rows).update(**kwargs))
        self._result_cache = None
        if changed:
            attributes = {attribute for _, attribute in targets}
            _note(targets, self.db, None if _changes_key(self.model, attributes, kwargs) else keys)
        return changed

    update.alters_data = True  # type: ignore[attr-defined]

    def _raw_delete(self, using: str | None) -> int:
        targets = self._targets()
        if not targets:
            return super()._raw_delete(using)
        rows = self.using(using)
        rows._for_write = True
        deleted, keys = rows._by_key(targets, lambda rows: _unwatched(rows)._raw_delete(rows.db))
        if deleted:
            _note(targets, rows.db, keys, deleted=True)
        return deleted

    _raw_delete.alters_data = True  # type: ignore[attr-defined]

    def _targets(self) -> Sequence[Target]:
        return watch.targets_of(self.model)

    def _conflict_on_key(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
        """Whether nothing but the primary key can tell the rows that ``bulk_create`` finds in its way."""
        named = _argument(args, kwargs, 4, "unique_fields")
        return bool(named) and set(named) <= {"pk", self.model._meta.pk.name}

    def _by_key(self, targets: Sequence[Target], work: Callable[[Any], int]) -> tuple[int, Keys]:
        """Do something to the rows of the queryset; how many there were, and their keys.

        The keys are read first, and the rows are then those that have them *and* still meet the conditions, so that no
        row is changed which is not told: one that came to meet the conditions between the two counts as come later.
        """
        limit = min(get_conf().MAX_CHANGED_KEYS, _MOST_KEYS_IN_A_CONDITION)
        attributes = sorted({attribute for _, attribute in targets if attribute is not None})
        if not self._has_plain_rows():
            return work(self), None
        found = list(self._locked().values_list("pk", *attributes)[: limit + 1])
        if len(found) > limit:
            return work(self), None
        rows = self.using(self.db).filter(pk__in={row[0] for row in found})
        keys = {attribute: {str(row[place]) for row in found} for place, attribute in enumerate(attributes, 1)}
        return work(rows), keys

    def _has_plain_rows(self) -> bool:
        """Whether a condition may be added, and each row has a key of its own."""
        query = self.query
        return not (query.combinator or query.is_sliced or query.distinct_fields or self._fields is not None)

    def _locked(self) -> Any:
        """The rows in no order, from the database that is written to, as the statement that follows will see them."""
        connection = connections[self.db]
        rows = self.using(self.db).order_by()
        rows.query.select_for_update = False
        if not connection.in_atomic_block:
            return rows
        if connection.vendor == "mysql":
            # A plain read sees the rows of when the transaction began, and a writing statement those of now.
            return rows.select_for_update()
        if connection.vendor == "sqlite":
            # A transaction that has begun by reading is refused to write once somebody else has written, and does not
            # even wait: so its lock is taken first, as the statement itself would take it.
            quote, opts = connection.ops.quote_name, self.model._meta
            column = quote(opts.pk.column)
            with connection.cursor() as cursor:
                cursor.execute(f"UPDATE {quote(opts.db_table)} SET {column} = {column} WHERE 1 = 0")  # noqa: S608
        return rows


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
    """Tell subscribers that rows of a model were written or deleted in a way that Django sends no signal for.

    ``model`` is a model, or its ``"app_label.ModelName"``; ``pks`` are keys, or rows, and None means that nobody knows
    which; ``using`` is the alias of the database, by default the one that the model is written to. It is told when the
    transaction commits, and not at all if it is rolled back. Nothing happens where nobody may watch the model.

    Raises LookupError for a model that is not installed, ConnectionDoesNotExist for an unknown alias, ValueError for a
    value that is no key of the model, and TypeError for what is no model, or no list of keys.
    """
    model = _installed(model)
    alias = using or router.db_for_write(model)
    connections[alias]  # An alias that is misspelt is not silence.
    keys = None if pks is None else _read_keys(model, pks)
    targets = watch.targets_of(model)
    if keys is not None and not keys:
        return
    attributes = _names_of_key(model)
    known = None if keys is None else {attribute: keys for _, attribute in targets if attribute in attributes}
    _note(targets, alias, known)


def _installed(model: Any) -> type[models.Model]:
    """The model as it is installed: migrations have models of their own, which nobody watches."""
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
    """Whether an update of these values gives rows other keys."""
    keys = [field for field in model._meta.concrete_fields if field.primary_key or field.attname in attributes]
    return bool({*(field.name for field in keys), *(field.attname for field in keys)}.intersection(values))


def _keys_of(targets: Iterable[Target], rows: Iterable[models.Model]) -> Keys:
    """The keys of rows in hand. None where the database has made keys that it did not give back."""
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
