"""Watched sets: clients are notified when a visible row of all that meet a query is written, enters or leaves.

Only the rows that a change touched are looked at, and not the whole set again, as long as no other rows are concerned.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

from mcp_django.bridge.resources import queries, uris
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading import rows
from mcp_django.core.db.bounds import fetch
from mcp_django.core.events.changes import Changes, ModelChange
from mcp_django.push.keys import once
from mcp_django.push.live_answers import LiveAnswer, Viewer, label_of


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
    found = rows.matching(model, queries.record_query(target.query)).filter(pk__in=values)
    return {str(key) for key in fetch(found.values_list("pk", flat=True))}


def _shows(viewer: Viewer, label: str, change: ModelChange) -> bool:
    """Whether the principal sees a changed row of another model, or may have seen one that was deleted."""
    keys = None if change.written is None else frozenset(change.written | change.deleted)
    return any(
        keys is None or (bool(change.deleted) and not model.scoped) or bool(viewer.visible(model, keys))
        for model in viewer.rights_on(label)
    )
