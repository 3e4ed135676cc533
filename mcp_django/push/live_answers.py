"""Answers of live queries: a digest of what their clients know, and the models that it was made of.

For one page, or a table of groups, the digest is of what ``resources/read`` gives. For a set, the clients are notified
when a visible row of all that meet a query is written, enters or leaves: the digest is of the keys of its rows, and
only the rows that a change touched are looked at as long as no other rows are concerned.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from django.db import connections, models
from django.db.models import QuerySet

from mcp_django.bridge.resources import queries, uris
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy import visible_rows, ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.bridge.resources.reading import rows
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.core.events.changed_rows import Changes, ModelChange
from mcp_django.exceptions import FieldError, field_error
from mcp_django.protocol.errors import TooSlow
from mcp_django.protocol.jsonrpc import encode

if TYPE_CHECKING:
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

#: The number of keys that are remembered of one collection, or of one query with equal rights.
MAX_WATCHED_KEYS = 1_000

#: Hash → the set of keys with that hash, as long as a subscription remembers it.
_remembered: WeakValueDictionary[int, frozenset[str]] = WeakValueDictionary()


def once(keys: frozenset[str]) -> frozenset[str] | None:
    """One shared set for all subscriptions with equal keys; None if there are more than MAX_WATCHED_KEYS."""
    if len(keys) > MAX_WATCHED_KEYS:
        return None
    found = _remembered.get(hash(keys))
    if found == keys:
        return found
    _remembered[hash(keys)] = keys
    return keys


def keys_of(rights: ModelRights, queryset: QuerySet[Any]) -> frozenset[str] | None:
    """The keys of those rows of the queryset that are visible; None if there are more than MAX_WATCHED_KEYS."""
    limit = MAX_WATCHED_KEYS
    keys = [str(key) for key in fetch(queryset.values_list("pk", flat=True)[: limit + 1])]
    if len(keys) > limit:
        return None
    return frozenset(visible_rows.visible_keys(rights, keys) if rights.checks_objects else keys)


_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class LiveAnswer:
    """The part of a query's answer that is remembered."""

    digest: str
    #: Labels of the concrete models whose changes may change the answer.
    labels: frozenset[str]
    #: The time that it took.
    seconds: float
    #: A set: the keys of its rows. None: they are too many to remember, or to read in time.
    keys: frozenset[str] | None = None
    #: A set: what the digest is made of beside the keys.
    shape: str = ""

    def with_keys(self, keys: frozenset[str] | None) -> LiveAnswer:
        """The same set with other rows."""
        return self if keys == self.keys else replace(self, keys=keys, digest=_set_digest(self.shape, keys))


class Viewer:
    """Answers queries for one principal, with the rights that its request has.

    Rows are read where they are written: a replica that lags would give the answer from before a change.
    """

    def __init__(self, site: Site, request: MCPRequest) -> None:
        self.rights = Rights(site, request, from_primary=True)
        self._tables = list(_watched_tables(site))
        #: The models that each query looks at beside its own: see ``queries.followed``.
        self._followed: dict[uris.Target, Mapping[str, list[type[models.Model]]]] = {}
        #: (label, keys) → those of the keys that are visible.
        self._visible: dict[tuple[str, frozenset[str]], set[str]] = {}

    @classmethod
    def of(cls, site: Site, request: MCPRequest) -> Viewer:
        """The viewer of the request's principal, kept on the request."""
        kept: dict[str, Viewer] = request.__dict__.setdefault("_mcp_viewers", {})
        if site.name not in kept:
            kept[site.name] = cls(site, request)
        return kept[site.name]

    def sees(self, target: uris.Target) -> bool:
        """Whether this principal may make the query, and every model that it looks at is watched."""
        return self.model(target) is not None and not self.errors(target)

    def model(self, target: uris.Target) -> ModelRights | None:
        """The rights on the model of a query, if the principal may make it."""
        return ways.reach(self.rights, target)

    def errors(self, target: uris.Target) -> list[FieldError]:
        """The errors of the query by its parameters. It makes no database query."""
        model = self.model(target)
        if model is None:
            return []
        try:
            followed = self._models_beside(model, target)
        except InvalidQuery as error:
            return queries.in_query(error)
        message = f"looks at rows of other models, whose changes are not reported here. Watch {model.label} without it."
        return [
            field_error(place, message)
            for place, steps in followed.items()
            if not all(self._is_watched(step) for step in steps)
        ]

    def answer(self, target: uris.Target) -> LiveAnswer | None:
        """The present answer; None if the principal may not see the model. Raises InvalidQuery and TooSlow."""
        model = self.model(target)
        if model is None:
            return None
        begun, asked = time.monotonic(), _Words()
        with ExitStack() as listening:
            # Every statement on the way has a part in the answer, also those of the project's hooks.
            for alias in connections:
                listening.enter_context(connections[alias].execute_wrapper(asked))
            found = _read_set(model, target) if target.is_set else _read_answer(model, target)
        labels = {label for names, label in self._tables if names <= asked.words}
        # Django executes no statement for conditions that nothing can meet, so models are added by name.
        named = (step for steps in self._models_beside(model, target).values() for step in steps)
        labels.update(label_of(step) for step in (model.model, *named))
        return replace(found, labels=frozenset(labels), seconds=time.monotonic() - begun)

    def visible(self, model: ModelRights, keys: frozenset[str]) -> set[str]:
        """Those of the keys that are visible: asked once, for all queries. Raises TooSlow."""
        if (model.label, keys) not in self._visible:
            self._visible[model.label, keys] = visible_rows.visible_keys(model, sorted(keys))
        return self._visible[model.label, keys]

    def rights_on(self, concrete: str) -> Iterator[ModelRights]:
        """The models that the principal may see whose changes are those of a concrete model: it and its proxies."""
        for model_mcp in self.rights.site.models.values():
            if model_mcp.watch and label_of(model_mcp.model) == concrete:
                found = self.rights.of_label(model_mcp.label)
                if found is not None:
                    yield found

    def looks_at_itself(self, model: ModelRights, target: uris.Target) -> bool:
        """Whether a row of the query depends on other rows of its own model."""
        own = label_of(model.model)
        return any(label_of(step) == own for steps in self._models_beside(model, target).values() for step in steps)

    def _models_beside(self, model: ModelRights, target: uris.Target) -> Mapping[str, list[type[models.Model]]]:
        if target not in self._followed:
            self._followed[target] = queries.followed(model, target)
        return self._followed[target]

    def _is_watched(self, model: type[models.Model]) -> bool:
        declared = self.rights.site.models.get(Rights.label_of(model))
        return declared is not None and declared.watch


class _Words:
    """Records every token of the executed SQL, to find the tables that it read."""

    def __init__(self) -> None:
        self.words: set[str] = set()

    def __call__(self, execute: Callable[..., Any], sql: Any, params: Any, many: bool, context: Any) -> Any:
        if isinstance(sql, str):
            self.words.update(_WORD.findall(sql))
        return execute(sql, params, many, context)


def _watched_tables(site: Site) -> Iterator[tuple[set[str], str]]:
    """The words of each table's name, with the label of the model whose change a change of the table is."""
    for model_mcp in site.models.values():
        if not model_mcp.watch:
            continue
        label, opts = label_of(model_mcp.model), model_mcp.model._meta
        # A change in the table between of a many-to-many field is reported as a change of both its ends.
        between: list[Any] = [field.remote_field.through for field in opts.many_to_many]
        for table in (opts.db_table, *(through._meta.db_table for through in between if through._meta.auto_created)):
            yield set(_WORD.findall(table)), label


def label_of(model: type[models.Model]) -> str:
    """The label under which changes of the model are reported."""
    return (model._meta.concrete_model or model)._meta.label_lower


def _read_answer(model: ModelRights, target: uris.Target) -> LiveAnswer:
    found = queries.answer(model, target, watched=True)
    # The cursor of the next page holds the position of the last row, which is no part of the answer.
    return _live_answer(_digest([found.values, found.notes, found.next_cursor is not None]))


def _read_set(model: ModelRights, target: uris.Target) -> LiveAnswer:
    """The columns and the keys of a set, in whatever order."""
    query = queries.record_query(target.query)
    # One row is read too: only then the tables are known that its columns look at.
    order = [model.primary_key.name] if model.primary_key.can_order else []
    page = rows.find(model, replace(query, limit=1, total=False, order_by=order), watched=True)
    keys = None
    with suppress(TooSlow):
        keys = keys_of(model, rows.matching(model, query))
    keys = keys if keys is None else once(keys)
    # Where the keys are not known, rows that enter or leave show only if the model becomes scoped, or no longer is.
    shape = _digest([page.columns, keys is None and model.scoped])
    return replace(_live_answer(_set_digest(shape, keys)), keys=keys, shape=shape)


def _live_answer(digest: str) -> LiveAnswer:
    return LiveAnswer(digest, labels=frozenset(), seconds=0.0)


def _set_digest(shape: str, keys: frozenset[str] | None) -> str:
    return _digest([shape, None if keys is None else sorted(keys)])


def _digest(value: Any) -> str:
    return hashlib.sha256(encode(value)).hexdigest()


def after(
    viewer: Viewer, target: uris.Target, before: LiveAnswer, changes: Changes, *, rights_changed: bool
) -> tuple[LiveAnswer | None, bool]:
    """The set after changes, and whether its clients are notified in any case; else they are if the digest differs.

    Raises InvalidQuery and TooSlow.
    """
    begun = time.monotonic()
    model = viewer.model(target)
    if model is None:
        return None, False
    own = label_of(model.model)
    touched = _by_label(changes, {own, *before.labels})
    notify, now = False, before
    if own in touched:
        notify, keys = _own_rows(viewer, model, target, before, touched[own])
        now = before.with_keys(keys)
    beside = [label for label in touched if label != own or viewer.looks_at_itself(model, target)]
    is_unknown = own in touched and touched[own].written is None
    if not (rights_changed or beside or is_unknown):
        return replace(now, seconds=time.monotonic() - begun), notify
    notify = notify or any(_shows(viewer, label, touched[label]) for label in beside)
    found = viewer.answer(target)
    # With other rights, a scoped set whose keys are unknown may have other rows.
    in_doubt = rights_changed and found is not None and found.keys is None and model.scoped
    return found, notify or in_doubt


def _by_label(changes: Changes, labels: Collection[str]) -> dict[str, ModelChange]:
    """The changes of these models, those of all databases together: rows are read from one."""
    found: dict[str, ModelChange] = {}
    for (_, label), change in changes.items():
        if label in labels:
            found.setdefault(label, ModelChange()).merge(change.written, change.deleted)
    return found


def _own_rows(
    viewer: Viewer, model: ModelRights, target: uris.Target, before: LiveAnswer, change: ModelChange
) -> tuple[bool, frozenset[str] | None]:
    """Whether rows of the set were written, have entered or have left; and the keys of those that it has now."""
    if change.written is None:
        return True, before.keys
    touched = frozenset(change.written | change.deleted)
    found = _matching(model, target, viewer.visible(model, touched))
    if before.keys is not None:
        keys = (before.keys - touched) | found
        return bool(found or before.keys & touched), before.keys if keys == before.keys else once(keys)
    unseen = not model.scoped or (bool(change.deleted) and model.model_mcp.notify_unseen_deletes)
    return bool(found) or unseen, None


def _matching(model: ModelRights, target: uris.Target, visible: Collection[str]) -> set[str]:
    """Those of the visible rows that meet the query."""
    if not visible:
        return set()
    field = model.primary_key
    values = [field.kind.read(field.field, key) for key in sorted(visible)]
    found = rows.matching(model, queries.record_query(target.query)).filter(has_key_in(model.model, values))
    return {str(key) for key in fetch(found.values_list("pk", flat=True))}


def _shows(viewer: Viewer, label: str, change: ModelChange) -> bool:
    """Whether the principal sees a changed row of another model, or may have seen one that was deleted."""
    keys = None if change.written is None else frozenset(change.written | change.deleted)
    return any(
        keys is None or (bool(change.deleted) and not model.scoped) or bool(viewer.visible(model, keys))
        for model in viewer.rights_on(label)
    )
