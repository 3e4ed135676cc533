"""The field policy: what of a model one principal may read, and the only place where a name becomes a field.

``Rights`` is computed once per request. A model, field or row that is not in it does not exist for the principal, in
filters, orders, searches, schemas and error texts alike.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models import Case, Exists, F, OuterRef, Q, When

from mcp_django.access.scopes import READ
from mcp_django.interrupts import was_interrupted
from mcp_django.resources.kinds import AnyField, Kind, kind_of

if TYPE_CHECKING:
    from mcp_django.access.requests import MCPRequest
    from mcp_django.options import ModelMCP
    from mcp_django.sites import MCPSite

logger = logging.getLogger("mcp_django")

T = TypeVar("T")


def ask(hook: Callable[[], T], default: T, name: str) -> T:
    """What the project's hook says. One that fails is logged by its name, and counts as ``default``: as a refusal.

    In a request that was given up meanwhile it raises what the hook raised.
    """
    try:
        return hook()
    except Exception:
        if was_interrupted():
            raise  # Not the hook's fault, and no answer can be made of what it did not come to say.
        logger.exception("%s failed; taken as a refusal", name)
        return default


@dataclass(frozen=True, slots=True)
class Column:
    """A readable field of a model."""

    name: str
    field: AnyField
    kind: Kind
    #: For a foreign key: the rights on the model that it points to.
    related: ModelRights | None = None

    @property
    def attname(self) -> str:
        return self.field.attname

    @property
    def masked(self) -> bool:
        """Whether the value is a key that may point to a row which the principal cannot see."""
        return self.related is not None and self.related.scoped

    def expression(self) -> Any:
        """The column in a query: the key of a hidden related row reads as null."""
        if self.related is None or not self.masked:
            return F(self.attname)
        visible = self.related.rows().filter(**{self._target: OuterRef(self.attname)})
        return Case(When(Exists(visible), then=F(self.attname)), default=None)

    def condition(self, lookup: str, value: Any) -> Q:
        """``Q(name__lookup=value)``, which cannot find a hidden related row."""
        if self.related is None or not self.masked:
            # A relation itself knows few lookups; the column that it ends in, which is the same one, knows them all.
            plain = not isinstance(self.field, models.ForeignKey) or lookup in ("exact", "in", "isnull")
            path = self.attname if plain else f"{self.field.name}__{self._target}"
            return Q((f"{path}__{lookup}", value))
        visible = self.related.rows()
        if lookup == "isnull":
            hidden = ~Q((f"{self.attname}__in", visible.values(self._target))) | Q((f"{self.attname}__isnull", True))
            return hidden if value else ~hidden
        found = visible.filter(Q((f"{self._target}__{lookup}", value)))
        return Q((f"{self.attname}__in", found.values(self._target)))

    @property
    def _target(self) -> str:
        """Where the relation ends, as a path from its model: more than one name where that key is a relation too."""
        names, field = [], self.field
        while isinstance(field, models.ForeignKey):
            field = field.target_field
            names.append(field.name)
        return "__".join(names)


class ModelRights:
    """What one principal may read of one model."""

    def __init__(self, rights: Rights, model_mcp: ModelMCP) -> None:
        self.rights = rights
        self.model_mcp = model_mcp
        self.model = model_mcp.model
        self.label = model_mcp.label

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Readable fields by name, the primary key first."""
        names: list[str] = list(self._ask("get_fields", ()))
        excluded = set(self._ask("get_exclude", names))
        columns: dict[str, Column] = {}
        primary_key = self.model._meta.pk
        for name in [primary_key.name, *names]:
            column = None if name in excluded and name != primary_key.name else self._column(name)
            if column is not None:
                columns[column.name] = column
        return columns

    def _column(self, name: str) -> Column | None:
        try:
            field = self.model._meta.get_field(name)
        except FieldDoesNotExist:
            return None
        if not isinstance(field, models.Field) or not field.concrete or field.many_to_many:
            return None
        kind = kind_of(field, named=self.model_mcp.names(field))
        if kind is None or self.model_mcp.hides(field):
            return None
        # The key of a visible row is no secret, though it may be the key of another row too.
        if not isinstance(field, models.ForeignKey) or field.primary_key:
            return Column(field.name, field, kind)
        related = self.rights.of_model(field.related_model)
        # What depends on each related row cannot be said in a condition.
        if related is None or related.model_mcp.checks_objects:
            return None
        # A relation by another field than the key shows that field.
        target = field.target_field
        return (
            Column(field.name, field, kind, related) if target.primary_key or target.name in related.columns else None
        )

    @property
    def primary_key(self) -> Column:
        return self.columns[self.model._meta.pk.name]

    @cached_property
    def has_readable_key(self) -> bool:
        """Whether the primary key may be read: without it no row could be named, so that the model is not there."""
        return self._column(self.model._meta.pk.name) is not None

    @property
    def ordering(self) -> Sequence[Any]:
        """The order of rows where the agent names none, as declared."""
        return list(self._ask("get_ordering", ()))

    @property
    def description(self) -> str:
        return str(self._ask("get_description", ""))

    def _ask(self, hook: str, default: Any) -> Any:
        """What a ``get_…`` of the ModelMCP says; ``default`` where it fails."""
        name = f"{self.model_mcp}.{hook}"
        return ask(lambda: getattr(self.model_mcp, hook)(self.rights.request), default, name)

    @cached_property
    def filterable(self) -> dict[str, Column]:
        nothing: list[str] = []
        names = self._ask("get_filter_fields", nothing)
        if names is None:
            return self.columns
        return {name: column for name, column in self.columns.items() if name in names}

    @cached_property
    def searchable(self) -> list[str]:
        """ORM paths of the search fields that the policy lets through, with the lookups that ModelAdmin gives them."""
        paths = []
        prefixes = {"^": "istartswith", "=": "iexact", "@": "search"}
        for declared in self._ask("get_search_fields", ()):
            lookup = prefixes.get(declared[:1], "icontains")
            name, _, explicit = declared.lstrip("^=@").partition("__")
            column = self.columns.get(self.model._meta.pk.name if name == "pk" else name)
            if column is None or column.related is not None or lookup == "search":
                continue
            if explicit and (explicit not in column.kind.lookups or explicit in ("in", "isnull", "range")):
                continue
            paths.append(f"{column.attname}__{explicit or lookup}")
        return paths

    @cached_property
    def orderable(self) -> dict[str, Column]:
        """Columns that rows may be ordered by: not those whose order would tell of hidden rows."""
        return {name: column for name, column in self.columns.items() if column.kind.orderable and not column.masked}

    def rows(self) -> models.QuerySet[Any]:
        """The rows that the principal may see, unordered."""
        return self._queryset.order_by()

    @cached_property
    def _queryset(self) -> models.QuerySet[Any]:
        queryset = self._declared_queryset()
        key = self.model._meta.pk
        if isinstance(key, models.ForeignKey) and not _is_parent_link(key):
            owner = self.rights.of_model(key.related_model)
            if owner is not None and owner.scoped:
                queryset = queryset.filter(pk__in=owner.rows().values(key.target_field.name))
        return queryset

    def _declared_queryset(self) -> models.QuerySet[Any]:
        queryset: models.QuerySet[Any] = self._ask("get_queryset", self.model._default_manager.none())
        if queryset.query.is_sliced or queryset.query.combinator:
            logger.error(
                "%s.get_queryset returns a sliced or combined queryset, which cannot be filtered; no row is shown",
                self.model_mcp,
            )
            return self.model._default_manager.none()
        return queryset

    @cached_property
    def scoped(self) -> bool:
        """Whether the principal may see some rows and not others."""
        return self.model_mcp.checks_objects or not is_unscoped(self._queryset)


class Rights:
    """What one principal may read on one site, for one request."""

    def __init__(self, site: MCPSite, request: MCPRequest) -> None:
        self.site = site
        self.request = request
        self._models: dict[str, ModelRights | None] = {}

    @classmethod
    def of(cls, site: MCPSite, request: MCPRequest) -> Rights:
        """The rights of the request's principal, kept on the request."""
        kept: dict[str, Rights] = request.__dict__.setdefault("_mcp_rights", {})
        if site.name not in kept:
            kept[site.name] = cls(site, request)
        return kept[site.name]

    def of_label(self, label: str) -> ModelRights | None:
        """The rights on ``app_label.model_name``; None if there is no such model for this principal."""
        if label not in self._models:
            self._models[label] = self._look_up(label)
        return self._models[label]

    def of_model(self, model: Any) -> ModelRights | None:
        return self.of_label(f"{model._meta.app_label.lower()}.{model._meta.model_name}")

    def models(self) -> list[ModelRights]:
        """The models that the principal may view, in the order of their labels."""
        found = (self.of_label(label) for label in sorted(self.site.models))
        return [rights for rights in found if rights is not None]

    def _look_up(self, label: str) -> ModelRights | None:
        model_mcp = self.site.models.get(label)
        if model_mcp is None or READ not in self.request.mcp.scopes:
            return None
        allowed = ask(lambda: model_mcp.has_view_permission(self.request), False, f"{model_mcp}.has_view_permission")
        found = ModelRights(self, model_mcp)
        return found if allowed and found.has_readable_key else None


def _is_parent_link(field: models.ForeignKey[Any, Any]) -> bool:
    """Whether the relation leads from a child of multi-table inheritance to the rest of the same row."""
    return bool(getattr(field.remote_field, "parent_link", False))


def is_unscoped(queryset: models.QuerySet[Any]) -> bool:
    """Whether the queryset holds every row of its table."""
    query = queryset.query
    return not (
        query.where or query.is_sliced or query.distinct or query.combinator or query.extra or query.is_empty()
    ) and (all(join.join_type is None for join in query.alias_map.values() if hasattr(join, "join_type")))


def nearest(name: str, allowed: Iterable[str]) -> str:
    """`` Did you mean x?``, or nothing where no allowed name is near."""
    matches = difflib.get_close_matches(name, list(allowed), n=1, cutoff=0.6)
    return f" Did you mean {matches[0]}?" if matches else ""


def unknown_name(what: str, name: str, allowed: Sequence[str]) -> str:
    """The text for a name that is not there: the nearest right one, and all that are allowed."""
    return f"no {what} {name[:100]!r}.{nearest(name[:100], allowed)} Allowed: {', '.join(allowed) or 'none'}."
