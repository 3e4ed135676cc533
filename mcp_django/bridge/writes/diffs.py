"""What a form would change, or has changed, of its own record: for the agent, and for people who are asked."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from django.db import models

from mcp_django.bridge.writes import states
from mcp_django.protocol.types import JSON

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights
    from mcp_django.bridge.writes.filling import GivenForm
    from mcp_django.bridge.writes.states import State


def diff_of(rights: ModelRights, before: State | None, after: State, main: GivenForm) -> list[JSON]:
    """``{"field", "before", "after"}`` of each value that differs, without those that only saving makes."""
    left_out = made_when_saved(rights, before, main)
    return [one for one in whole_diff_of(rights, before, after, main) if one["field"] not in left_out]


def whole_diff_of(rights: ModelRights, before: State | None, after: State, main: GivenForm) -> list[JSON]:
    """The same, with the values that saving makes."""
    found = [*states.differences(before, after, rights), *states.of_form_alone(main)]
    return [one for one in found if not _is_unset(one, before, main)]


def _is_unset(one: JSON, before: State | None, main: GivenForm) -> bool:
    """Whether it is a field of a new row that has no value."""
    return before is None and one["after"] in (None, "", [], {}) and one["field"] not in main.values


def made_when_saved(rights: ModelRights, before: State | None, main: GivenForm) -> Collection[str]:
    """Fields whose values are made when the row is saved: each preview would show others."""
    if before is not None:
        return []
    return [name for name, column in rights.columns.items() if name not in main.values and _is_made(column.field)]


def _is_made(column: models.Field[Any, Any]) -> bool:
    is_computed = hasattr(column.db_default, "resolve_expression")
    is_called = column.has_default() and callable(column.default)
    return bool(is_set_by_itself(column) or is_computed or is_called or column.primary_key)


def is_set_by_itself(column: models.Field[Any, Any]) -> bool:
    """Whether nobody gives it a value: the time of saving, or what the database computes from other columns."""
    return bool(getattr(column, "auto_now", False) or getattr(column, "auto_now_add", False) or column.generated)
