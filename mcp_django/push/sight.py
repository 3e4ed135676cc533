"""The rows that a principal sees of those that an event concerns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from mcp_django.bridge.resources import catalog
from mcp_django.bridge.resources.policy import visible_rows, ways
from mcp_django.bridge.resources.policy.policy import ModelRights, Rights
from mcp_django.core.events.changed_rows import ModelChange
from mcp_django.push.prefetch import Visible
from mcp_django.push.subscriptions import Subscription, watched_keys

_KEYS_PER_QUERY = 1_000


class Sight:
    """The visible rows of a principal: the database gets each query once, for all of its subscriptions."""

    def __init__(
        self, rights: Rights, subscriptions: Iterable[Subscription], visible_to_others: Visible | None = None
    ) -> None:
        self._rights = rights
        self._visible_to_others = visible_to_others
        self._watched: dict[str, set[str]] = defaultdict(set)
        for subscription in subscriptions:
            if subscription.target is not None and subscription.target.is_of_record:
                self._watched[subscription.target.label].add(subscription.key)
        #: (label, alias) → the visible keys of the watched records, and of the rows that an event touched.
        self._records: dict[tuple[str, str], set[str]] = {}
        self._touched: dict[tuple[str, str], set[str]] = {}
        self._collections: dict[str, frozenset[str] | None] = {}

    def model(self, subscription: Subscription) -> ModelRights | None:
        """The rights on the model of a subscription, if the principal may read that now."""
        return model_of(subscription, self._rights)

    def declared(self, uri: str) -> bool:
        """Whether the principal may read this project-declared resource."""
        return catalog.find_declared(self._rights.site, self._rights.request, uri) is not None

    def row(self, subscription: Subscription) -> bool:
        """Whether the principal may see the declared resource of one row now."""
        return subscription.look_at_row(self._rights.site, self._rights.request)

    def record(self, model: ModelRights, key: str, alias: str) -> bool:
        """Whether a record is visible. Those that the subscriptions watch are looked for together."""
        place, watched = (model.label, alias), self._watched[model.label]
        if place not in self._records or key not in watched:
            watched.add(key)
            self._records[place] = self._visible(model, watched, alias)
        return key in self._records[place]

    def touched(self, model: ModelRights, change: ModelChange, alias: str) -> set[str]:
        """The keys of the visible rows of the change."""
        place = (model.label, alias)
        if place not in self._touched:
            self._touched[place] = self._visible(model, (change.written or set()) | change.deleted, alias)
        return self._touched[place]

    def collection(self, model: ModelRights) -> frozenset[str] | None:
        """The keys of all visible rows: see ``Subscription.keys``."""
        if model.label not in self._collections:
            self._collections[model.label] = watched_keys(model)
        return self._collections[model.label]

    def _visible(self, model: ModelRights, keys: Collection[str], alias: str) -> set[str]:
        others = self._visible_to_others
        if others is None or not others.holds(model):
            return _visible(model, keys, alias)
        place = (model.label, alias, frozenset(keys))
        if place not in others.found:
            others.found[place] = _visible(model, keys, alias)
        return others.found[place]


def model_of(subscription: Subscription, rights: Rights) -> ModelRights | None:
    if subscription.target is None:
        return None
    if subscription.is_part:
        return rights.of_label(subscription.target.label)
    return ways.reach(rights, subscription.target)


def _visible(model: ModelRights, keys: Collection[str], alias: str) -> set[str]:
    found: set[str] = set()
    waiting = sorted(keys)
    for start in range(0, len(waiting), _KEYS_PER_QUERY):
        found |= visible_rows.visible_keys(model, waiting[start : start + _KEYS_PER_QUERY], using=alias or None)
    return found
