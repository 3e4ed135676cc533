"""The rows of a model that a principal may see: the queryset of ``get_queryset``, in a form that can be filtered."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ValidationError
from django.db import models, router
from django.db.models import Value

from mcp_django.bridge.declared.inlines import InlineMCP
from mcp_django.bridge.resources.fields.kinds import is_parent_link
from mcp_django.bridge.resources.fields.unreadable import fetch_instances
from mcp_django.core.compat import queries, translated_fields
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import has_key_in, is_in, rows_of_keys
from mcp_django.core.hooks import call_hook

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights

logger = logging.getLogger("mcp_django")

#: Stands for the queryset of a hook that failed. An empty queryset would be made for every call, needed or not.
_REFUSED: Any = object()


def rows(rights: ModelRights) -> models.QuerySet[Any]:
    """The rows that the principal may see: those that the project's hooks give, less those of a hidden owner."""
    queryset = _declared(rights)
    if isinstance(rights.model_mcp, InlineMCP):
        return _of_visible_parents(rights, rights.model_mcp, queryset)
    key = rights.model._meta.pk
    if isinstance(key, models.ForeignKey) and not is_parent_link(key):
        owner = rights.rights.of_model(key.related_model)
        if owner is not None and owner.scoped:
            queryset = queryset.filter(is_in(key, owner.rows().values(key.target_field.name)))
    return queryset


def _of_visible_parents(rights: ModelRights, inline: InlineMCP, queryset: models.QuerySet[Any]) -> models.QuerySet[Any]:
    """The rows of an inline that stand on the pages of parents which the principal may see."""
    parent = rights.rights.of_model(inline.parent.model)
    if parent is None:
        return queryset.none()
    if inline.owner is None:
        return queryset  # They are reached from a parent alone.
    owner: Any = inline.owner
    if owner.db_constraint and not owner.null and not parent.scoped:
        return queryset  # Each stands on the page of a parent that is seen.
    return queryset.filter(is_in(owner, parent.rows().values(owner.target_field.name)))


def instances(rights: ModelRights, keys: Sequence[Any]) -> models.QuerySet[Any]:
    """The rows of these keys with all that ``get_queryset`` adds to them, for the project's own code to read."""
    queryset = _declared(rights).filter(has_key_in(rights.model, keys)).order_by()
    admin = rights.model_mcp.model_admin
    if admin is not None and admin.list_select_related:
        related = admin.list_select_related
        return queryset.select_related(*(() if related is True else related))  # type: ignore[misc]
    return queryset


def _declared(rights: ModelRights) -> models.QuerySet[Any]:
    queryset: models.QuerySet[Any] = rights.ask_hook("get_queryset", _REFUSED)
    if queryset is _REFUSED:
        return rights.model._default_manager.none()
    if isinstance(queryset, models.Manager):
        # The admin only calls methods that both have, so a Manager works there too.
        queryset = queryset.all()
    queryset = translated_fields.as_named(queryset)
    if queries.is_sliced_or_combined(queryset):
        logger.error(
            "%s.get_queryset returns a sliced or combined queryset, which cannot be filtered; no row is shown",
            rights.model_mcp,
        )
        return rights.model._default_manager.none()
    if rights.rights.from_primary and not queries.names_database(queryset):
        queryset = queryset.using(router.db_for_write(rights.model))
    if queries.picks_rows(queryset):
        # Its own order decides which row of each group it picks.
        return rows_of_keys(queryset, queryset.values("pk"))
    if queries.may_double_rows(queryset):
        return rows_of_keys(queryset, queryset.order_by().values("pk"))
    return queries.not_reversed(queryset)


def visible_keys(
    rights: ModelRights, keys: Sequence[Any], *, using: str | None = None, most: int | None = None
) -> set[str]:
    """Those of the keys that are the principal's to see, as text. ``using``: the database to ask.

    Where the permission is checked for each row, the database is asked even without keys, so that hidden rows take the
    same statements as no rows. The project's hook is asked until ``most`` rows are visible.
    """
    values = []
    for key in keys:
        try:
            values.append(rights.primary_key.kind.read(rights.primary_key.field, key))
        except ValidationError:
            continue
    if rights.checks_objects:
        found = _with_using(rights.rows().filter(has_key_in(rights.model, values or [Value(None)])), using)
        return _permitted(rights, values, fetch_instances(found), most)
    queryset = _with_using(rights.rows().filter(has_key_in(rights.model, values)), using)
    return {str(key) for key in fetch(queryset.values_list("pk", flat=True))}


def _with_using(queryset: models.QuerySet[Any], using: str | None) -> models.QuerySet[Any]:
    return queryset if using is None else queryset.using(using)


def _permitted(rights: ModelRights, keys: Sequence[Any], found: Sequence[models.Model], most: int | None) -> set[str]:
    """The keys of the first rows, in the order of the keys, that the project's hook permits."""
    places = {key: place for place, key in enumerate(keys)}
    in_order = sorted(found, key=lambda row: places.get(row.pk, len(places)))
    return set(islice((str(row.pk) for row in in_order if may_view(rights, row)), most))


def may_view(rights: ModelRights, row: models.Model) -> bool:
    """Whether the project's hook lets the principal see the row, where it is asked for each row."""
    if not rights.checks_objects:
        return True
    ask = partial(rights.model_mcp.has_view_permission, rights.rights.request, row)
    return call_hook(ask, False, rights.model_mcp, "has_view_permission")
