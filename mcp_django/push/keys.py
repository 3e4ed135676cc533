"""The keys that subscriptions remember of what is visible, so that their clients are notified when a row goes."""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

from django.db.models import QuerySet

from mcp_django.bridge.resources.policy import visible_rows
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.core.db.bounds import fetch

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
