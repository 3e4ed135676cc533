"""The keys of all visible rows that meet a filter, for what acts on them as a whole."""

from __future__ import annotations

from typing import Any

from django.db.models import Q

from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.policy.visible_rows import visible_keys
from mcp_django.bridge.resources.reading.filters import filter_condition
from mcp_django.bridge.resources.reading.known_values import verified
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import column_path
from mcp_django.protocol.types import JSON

#: Rows whose permission is checked between two queries.
_AT_ONCE = 500


def matching_keys(rights: ModelRights, conditions: JSON, most: int, notes: list[str]) -> list[Any] | None:
    """The keys in their order; None if there are more than ``most``. Raises InvalidQuery and TooSlow.

    Unknown values are refused, or named in the notes: see ``known_values``.
    """
    with verified(notes) as doubts:
        condition = filter_condition(rights, conditions, doubts)
    queryset = rights.rows().filter(condition).order_by("pk")
    keys: list[Any] = []
    if not rights.checks_objects:
        keys = fetch(queryset.values_list("pk", flat=True)[: most + 1])
        return keys if len(keys) <= most else None
    # Only visible rows are counted: a limit on the rows that are looked at would reveal how many are hidden. So would
    # statements that end as soon as enough rows are visible.
    following = queryset
    while True:
        batch = fetch(following.values_list("pk", flat=True)[:_AT_ONCE])
        visible = visible_keys(rights, batch, most=most + 1 - len(keys))
        keys += [key for key in batch if str(key) in visible]
        if len(batch) < _AT_ONCE:
            return keys if len(keys) <= most else None
        following = queryset.filter(Q((f"{column_path(rights.model._meta.pk)}__gt", batch[-1])))
