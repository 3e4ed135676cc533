"""The field policy: what of a model one principal may read, and the only place where a name becomes a field.

``Rights`` is computed once per request. A model, field or row that is not in it does not exist for the principal:
not in filters, orders, searches or schemas, and not in error texts.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.functional import cached_property

from mcp_django.access import overrides
from mcp_django.access.permissions import ALLOWED, Decision, decide, decide_by_override
from mcp_django.bridge.declared.options import searched_by, shows_every_row
from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.bridge.resources.fields.columns import Column, Computed, Relation
from mcp_django.bridge.resources.fields.field_kinds import kind_of, partners
from mcp_django.bridge.resources.fields.kinds import DATA, DATETIME, is_parent_link, split_path
from mcp_django.bridge.resources.policy import generic, row_values, visible_rows
from mcp_django.bridge.resources.policy.searching import AdminSearch, SearchField, search_field
from mcp_django.conf import get_conf, kept_with_settings
from mcp_django.core.compat import queries
from mcp_django.core.compat.translated_fields import language, localized
from mcp_django.core.db.column_paths import rows_of_keys
from mcp_django.core.hooks import call_hook
from mcp_django.core.types import AnyField
from mcp_django.exchange import scopes
from mcp_django.exchange.principals import Superuser

if TYPE_CHECKING:
    from mcp_django.access.overrides import Override, Restrictions
    from mcp_django.bridge.declared.inlines import InlineMCP
    from mcp_django.bridge.declared.options import ModelMCP
    from mcp_django.exchange.requests import MCPRequest
    from mcp_django.exchange.site import Site

T = TypeVar("T")

#: The smallest group of a model without rows, where its options do not say.
_SMALLEST_WITHOUT_ROWS = 5


class _EveryName:
    """A container that holds every name."""

    def __contains__(self, name: object) -> bool:
        return True


class ModelRights:
    """What one principal may read of one model."""

    def __init__(self, rights: Rights, model_mcp: ModelMCP) -> None:
        self.rights = rights
        self.model_mcp = model_mcp
        self.model = model_mcp.model
        self.label = model_mcp.label
        self._own: dict[str, Column | None] = {}

    @cached_property
    def shown(self) -> dict[str, None]:
        """Names of the fields and computed values of a row: as declared, without those that are excluded."""
        names = [name for name in self._declared_names() if isinstance(name, str)]
        if beside := partners(self.model):
            names = [part for name in names for part in (name, beside.get(name, name))]
        return dict.fromkeys(name for name in names if name not in self.excluded)

    def _declared_names(self) -> Iterable[Any]:
        names: Iterable[Any] = self.ask_hook("get_fields", ())
        return names

    @cached_property
    def excluded(self) -> Container[str]:
        """Names that are not readable: every name, if the hook of the project fails."""
        names = self.ask_hook("get_exclude", None)
        if names is None:
            return _EveryName()
        return frozenset(_spellings(self.model, [*names, *self.restrictions]))

    @property
    def restrictions(self) -> Set[str]:
        """The names of its fields, relations and computed values that administrators switched off."""
        return self.rights.restrictions.fields.get(self.label, frozenset())

    @cached_property
    def columns(self) -> dict[str, Column]:
        """Readable fields by name, the primary key first."""
        columns: dict[str, Column] = {}
        for name in [self.model._meta.pk.name, *self.shown]:
            column = self._own.get(name) or self._column(name)
            if column is not None:
                columns[column.name] = column
        return columns

    @cached_property
    def listed(self) -> list[Column]:
        """Columns of other models that a page of rows shows where an agent names no fields, as the admin's list has."""
        found = (self.column(path) for path in self.ask_hook("get_listed_paths", ()))
        return [column for column in found if column is not None and column.via and not column.kind.linked]

    def own_column(self, name: str) -> Column | None:
        """One of ``columns``. Only the rights on the model that it points to are computed, not those on all others."""
        if "columns" in self.__dict__:
            return self.columns.get(name)
        if name not in self._own:
            self._own[name] = self._column(name) if self._is_shown(name) else None
        return self._own[name]

    def _is_shown(self, name: str) -> bool:
        """Whether the options show the field of that name, by its name or by that of its column."""
        if name == self.model._meta.pk.name:
            return True
        try:
            field = self.model._meta.get_field(name)
        except FieldDoesNotExist:
            return False
        return field.name == name and (name in self.shown or getattr(field, "attname", name) in self.shown)

    def _column(self, name: str) -> Column | None:
        column = _column_of(self.model_mcp, name)
        if column is not None and (found := localized(column.field, self.model_mcp.hides)) is not None:
            if not found.fields:
                return None
            column = replace(column, field=found.fields[0], translated=found if found.falls_back else None)
        if column is None or not isinstance(field := column.field, models.ForeignKey):
            return column
        related = self._related(field.related_model)
        if field.primary_key:
            # The key of a visible row is no secret, though it may be the key of another row too.
            return Column(column.name, field, column.kind, related)
        if related is None:
            return generic.type_column(self, field)
        # A relation by another field than the key shows that field.
        return Column(column.name, field, column.kind, related) if related.shows(field.target_field) else None

    def shows(self, field: AnyField) -> bool:
        """Whether the field is readable. Does not use ``columns``, which may depend on the result."""
        return field.primary_key or (field.name in self.shown and self._column(field.name) is not None)

    @property
    def has_rows(self) -> bool:
        """Whether rows may be shown one by one, and not only in groups."""
        return self.model_mcp.rows

    def _related(self, model: Any) -> ModelRights | None:
        """The rights on a related model; None if the permission is checked for each row, which no condition can do."""
        related = self.rights.of_model(model)
        return None if related is None or related.checks_objects else related

    @cached_property
    def checks_objects(self) -> bool:
        """Whether the permission is checked for each row."""
        return self.model_mcp.checks_objects(self.rights.request)

    @cached_property
    def object_hooks(self) -> Sequence[str]:
        """The project's hooks that decide for this principal which fields a row shows: pages leave the form out."""
        return self.model_mcp.object_hooks(self.rights.request)

    @cached_property
    def shows_by_object(self) -> bool:
        """Whether a record may have more fields than a page."""
        return self.model_mcp.shows_by_object(self.rights.request)

    @cached_property
    def relations(self) -> dict[str, Relation]:
        """Relations to many rows, by the name that a filter uses: those of this model, and those to it."""
        opts = self.model._meta
        found: dict[str, Relation] = {}
        if get_conf().MAX_RELATION_DEPTH < 1:
            return found
        for field in opts.many_to_many:
            related = self._related(field.related_model)
            if related is not None and related.has_rows and self.shows_relation(field):
                found[field.name] = Relation(field.name, related, field, forward=True, links=self._links(field))
        # Django lists relations of many to many here even if they have no name: related_name="+".
        for reverse in (one for one in opts.related_objects if not one.hidden):
            related = None if reverse.name in self.excluded else self._related(reverse.related_model)
            # This side shows only what the other side shows.
            if related is not None and related.has_rows and related.shows_relation(reverse.field):
                links = self._links(reverse.field) if reverse.field.many_to_many else None
                found[reverse.name] = Relation(reverse.name, related, reverse.field, links=links)
        found |= generic.relations(self)
        for inline in self.rights.site.inlines.get(self.model, ()):
            name, relation = self._inline(inline)
            if relation is not None and name not in self.excluded and name not in self.columns:
                found.setdefault(name, relation)
        return found

    def _inline(self, inline: InlineMCP) -> tuple[str, Relation | None]:
        """The rows that an inline of this model shows, as a relation."""
        related = self.rights.of_inline(inline)
        if inline.owner is None:
            name = str(inline.opts.model_name)
            return name, None if related is None else generic.of_inline(self, related, inline.inline, name)
        link = inline.owner.remote_field
        name = str(inline.opts.model_name) if link.hidden else link.name
        is_shown = related is not None and related.shows_relation(inline.owner)
        return name, Relation(name, related, inline.owner) if related is not None and is_shown else None

    @property
    def may_be_told_of(self) -> bool:
        """Whether a note may depend on the visible rows, without revealing one that is hidden, or a single one."""
        # Rows that are reached from a parent alone may be those of a hidden parent.
        return self.is_listed and not self.checks_objects and self.smallest_group <= 1

    @property
    def is_listed(self) -> bool:
        """Whether the model can be asked by itself, and is not only a relation of the parent of an inline."""
        return self.rights.site.models.get(self.label) is self.model_mcp

    def _links(self, field: Any) -> ModelRights | None:
        """The rights on the through model of a many-to-many field."""
        return self._related(field.remote_field.through)

    def _shows_links(self, field: Any) -> bool:
        """Whether the rows of a many-to-many field's through model may be read; True if it is not exposed."""
        through = field.remote_field.through
        if self.rights.label_of(through) not in self.rights.site.models:
            return True
        links = self._links(field)
        return (
            links is not None
            and links.has_rows
            and all(name in links.columns for name in (field.m2m_field_name(), field.m2m_reverse_field_name()))
        )

    def shows_relation(self, field: Any) -> bool:
        """Whether the field, which points to another model, may be read here."""
        if field.many_to_many:
            # A manager of tags, say, also says that it is many-to-many, and is joined in its own way.
            is_plain = isinstance(field, models.ManyToManyField) and field.name in self.shown
            return is_plain and not self.model_mcp.hides(field) and self._shows_links(field)
        return field.name in self.columns and not is_parent_link(field)

    @cached_property
    def computed(self) -> dict[str, Computed]:
        """Values that a row shows and that are no columns of it."""
        found = {link.name: link for link in generic.links(self)}
        for name, title, value_of, order in self.ask_hook("get_computed", ()):
            if name in self.excluded or (_is_hidden_name(name) and not self.model_mcp.declares(name)):
                continue
            bare = order.removeprefix("-") if isinstance(order, str) else ""
            column = self.column(bare) if bare else None
            if column is not None and not column.can_order:
                column = None
            value = partial(self._value, value_of)
            found[name] = Computed(name, title, value, column, descending=bool(bare) and bare != order)
        return found

    def _value(self, value_of: Callable[[Any], Any], row: models.Model) -> Any:
        """A computed value of a row. Raises whatever the project's function raises."""
        return row_values.without_rows(value_of(row), partial(row_values.key_of, self.rights))

    def column(self, path: str, depth: int | None = None) -> Column | None:
        """The readable field that a path leads to through foreign keys: ``name``, ``origin__name``. Else None.

        This is where a name from outside becomes a field.
        """
        depth = get_conf().MAX_RELATION_DEPTH if depth is None else depth
        head, rest = split_path(path)
        column = self.primary_key if head == "pk" else self.own_column(head)
        if column is None or not rest:
            return column
        related = self.beyond(column.name)
        inner = related.column(rest, depth - 1) if related is not None and depth > 0 else None
        return None if inner is None else replace(inner, name=path, via=(column, *inner.via))

    def knows(self, path: str) -> bool:
        """Whether a path leads to a column or a relation, through relations of either kind."""
        head, rest = split_path(path)
        relation = self.relations.get(head)
        if not rest:
            return self.own_column(head) is not None or relation is not None or head == "pk"
        related = self.beyond(head)
        return related is not None and (related.knows(rest) or (relation is not None and rest == "count"))

    def beyond(self, name: str) -> ModelRights | None:
        """The model that a foreign key or a relation leads to, if paths may go on there.

        They do not go to a model without rows. What a foreign key itself holds is a value of its own row.
        """
        # No relation has the name of a column. Most paths are columns, and relations take their time to find.
        by = self.own_column(name) or self.relations.get(name)
        return by.related if by is not None and by.related is not None and by.related.has_rows else None

    @cached_property
    def serializer_class(self) -> Any:
        """The serializer that writes a record; None: its values are written as they are."""
        return self.ask_hook("get_serializer_class", None)

    @cached_property
    def last_modified_field(self) -> str | None:
        """The field with the time of a row's last change, if the principal may read it."""
        name = self.ask_hook("get_last_modified_field", None)
        column = self.own_column(name) if isinstance(name, str) else None
        return None if column is None or column.kind is not DATETIME else column.name

    @property
    def annotations(self) -> Mapping[str, Any]:
        """``audience`` and ``priority`` of the model's resources, as declared."""
        return dict(self.ask_hook("get_annotations", {}))

    @cached_property
    def primary_key(self) -> Column:
        name = self.model._meta.pk.name
        # There are no rights on a model whose key is hidden.
        return self.own_column(name) or self.columns[name]

    @property
    def has_readable_key(self) -> bool:
        """Whether the primary key may be read: without it no row could be named, and the model is hidden."""
        return self.own_column(self.model._meta.pk.name) is not None

    @property
    def ordering(self) -> Sequence[Any]:
        """The order of rows where the agent names none, as declared."""
        declared = self.ask_hook("get_ordering", ())
        return declared if isinstance(declared, list | tuple) else ()

    @property
    def description(self) -> str:
        return str(self.ask_hook("get_description", ""))

    def ask_hook(self, hook: str, default: Any) -> Any:
        """The result of a ``get_…`` of the ModelMCP; ``default`` if it fails."""
        return call_hook(lambda: getattr(self.model_mcp, hook)(self.rights.request), default, self.model_mcp, hook)

    @cached_property
    def filter_names(self) -> frozenset[str] | None:
        """Fields and paths that a filter may name, if the project restricts them."""
        nothing: list[str] = []
        names = self.ask_hook("get_filter_fields", nothing)
        return None if names is None else frozenset(names)

    @cached_property
    def filterable(self) -> dict[str, Column]:
        """The model's own columns that a filter may name."""
        names = self.filter_names
        if names is None:
            return self.columns
        return {name: column for name, column in self.columns.items() if name in names}

    @cached_property
    def searchable(self) -> list[SearchField]:
        """The search fields that the policy lets through, with the lookups that ModelAdmin gives them."""
        found = (search_field(self, declared) for declared in self._search_fields or ())
        # The admin joins the tables, so that it would also find a row by a related one that is hidden.
        by_admin = self.searched_by == "admin"
        return [field for field in found if field is not None and not (by_admin and field.hides_rows)]

    @cached_property
    def unsearchable(self) -> list[str]:
        """Declared search fields that lead into values of the model's own columns, such as JSON: none looks there."""
        paths = [declared.lstrip("^=@") for declared in self._search_fields or ()]
        heads = {path: self.columns.get(path.partition("__")[0]) for path in paths}
        return [path for path, column in heads.items() if column is not None and column.kind is DATA]

    @cached_property
    def _search_fields(self) -> Sequence[str] | None:
        return list(fields) if (fields := self.ask_hook("get_search_fields", None)) is not None else None

    @cached_property
    def searched_by(self) -> str:
        """What finds the rows of a search: see ``options.searched_by``."""
        return call_hook(
            lambda: searched_by(self.model_mcp, self.rights.request), "nothing", self.model_mcp, "get_search"
        )

    @cached_property
    def admin_search(self) -> AdminSearch | None:
        """The ModelAdmin's own search, where it is to be called.

        Where all of its fields are hidden it is not called: Django's own part of it would find every row.
        """
        admin = self.model_mcp.model_admin
        if admin is None or self.searched_by != "admin" or (not self.searchable and self._search_fields != []):
            return None
        return AdminSearch(admin, tuple(field.declared for field in self.searchable))

    @property
    def can_search(self) -> bool:
        return self.admin_search is not None or bool(self.searchable)

    def column_and_lookup(self, path: str) -> tuple[Column | None, str]:
        """The column of a path, and the lookup that it may end in."""
        column = self.column(path)
        if column is None:
            path, _, lookup = path.rpartition("__")
            return (self.column(path) if path and lookup else None), lookup
        return column, ""

    @cached_property
    def orderable(self) -> dict[str, Column]:
        """Own columns that rows may be ordered by: not those whose order would reveal hidden rows."""
        return {name: column for name, column in self.columns.items() if column.can_order}

    def rows(self) -> models.QuerySet[Any]:
        """The rows that the principal may see, unordered."""
        return self._queryset.order_by()

    def bare_rows(self) -> models.QuerySet[Any]:
        """The same rows without what ``get_queryset`` adds to them: an aggregate would count rows that it joins."""
        rows = self.rows()
        if queries.has_one_table(rows):
            return rows
        return rows_of_keys(rows, rows.values("pk"))

    def of_row(self, row: models.Model) -> ModelRights:
        """What the principal may read of this row."""
        if not self.shows_by_object:
            return self
        ask = partial(self.model_mcp.get_object_fields, self.rights.request, row)
        return RecordRights(self, call_hook(ask, (), self.model_mcp, "get_object_fields"))

    def of_new_row(self, names: Iterable[str]) -> ModelRights:
        """What the principal may read of a row that it is about to make: the form for it shows the fields ``names``."""
        return RecordRights(self, names) if self.shows_by_object else self

    def instances(self, keys: Sequence[Any]) -> models.QuerySet[Any]:
        """Rows of these keys as the project's own code knows them, with all that ``get_queryset`` adds."""
        return visible_rows.instances(self, keys)

    @cached_property
    def _queryset(self) -> models.QuerySet[Any]:
        return visible_rows.rows(self)

    @cached_property
    def smallest_group(self) -> int:
        """The smallest number of rows that a group must have to be shown. Where the hook fails, no group is shown."""
        shows_none: int | None = sys.maxsize
        own: int | None = self.ask_hook("get_min_group_rows", shows_none)
        smallest = get_conf().MIN_GROUP_ROWS if own is None else own
        if self.has_rows:
            return smallest
        # A group of one row is the row.
        return max(smallest, _SMALLEST_WITHOUT_ROWS if own is None else 2)

    @cached_property
    def scoped(self) -> bool:
        """Whether the principal may see some rows and not others."""
        if self.checks_objects:
            return True
        return not (shows_every_row(self.model_mcp) or queries.has_every_row(self._queryset))


class RecordRights(ModelRights):
    """What one principal may read of one row, where the project's hooks decide by the row: more fields than of each.

    Only a record is read with them: a filter, an order or an aggregate would compare rows that show other fields.
    """

    def __init__(self, rights: ModelRights, names: Iterable[str]) -> None:
        super().__init__(rights.rights, rights.model_mcp)
        self._names = list(names)

    def _declared_names(self) -> Iterable[Any]:
        return [*super()._declared_names(), *self._names]


class Rights:
    """What one principal may read on one site, for one request."""

    def __init__(self, site: Site, request: MCPRequest, *, from_primary: bool = False) -> None:
        self.site = site
        self.request = request
        #: Whether rows are read from the database that they are written to, unless the project names another one.
        self.from_primary = from_primary
        #: What administrators decided about tools, if it was read already.
        self.overrides: Mapping[str, Override] | None = None
        self._usable: dict[str, bool] = {}
        self._models: dict[str, ModelRights | None] = {}
        self._keys_alone: dict[str, ModelRights | None] = {}
        self._inlines: dict[InlineMCP, ModelRights | None] = {}

    @classmethod
    def of(cls, site: Site, request: MCPRequest) -> Rights:
        """The rights of the request's principal, kept on the request."""
        kept: dict[tuple[str, str, bool, str], Rights] = request.__dict__.setdefault("_mcp_rights", {})
        # Rights differ inside `using_tool()` and `supposing()`, so each has its own cache entry.
        name = (site.name, request.used_tool, request.supposed is not None, language())
        if name not in kept:
            decided = next((one.overrides for one in kept.values() if one.site is site), None)
            kept[name] = cls(site, request)
            kept[name].overrides = decided
        return kept[name]

    def forget(self) -> None:
        """Called when nobody needs them any more. Rights on models point back here, a cycle that Python frees late."""
        self._models.clear()
        self._keys_alone.clear()
        self._inlines.clear()

    def of_label(self, label: str) -> ModelRights | None:
        """The rights on ``app_label.model_name``; None if there is no such model for this principal."""
        if label not in self._models:
            self._models[label] = self._look_up(label)
        return self._models[label]

    def of_model(self, model: Any) -> ModelRights | None:
        """The rights on a model to which a row leads: those of its label, or on its keys alone."""
        label = self.label_of(model)
        key_mcp = self.site.keys_alone.get(model) if label not in self.site.models else None
        if key_mcp is not None and label not in self._keys_alone:
            self._keys_alone[label] = self._rights_on(key_mcp)
        return self._keys_alone.get(label) or self.of_label(label)

    @staticmethod
    def label_of(model: Any) -> str:
        return f"{model._meta.app_label.lower()}.{model._meta.model_name}"

    def of_inline(self, inline: InlineMCP) -> ModelRights | None:
        """The rights on the model in an inline of another one: by its own options, if it has any."""
        if self.site.is_registered(inline.model):
            declared = self.of_label(inline.label)
            return declared if declared is not None and declared.has_rows and not declared.checks_objects else None
        if self.site.models.get(inline.label) is inline:
            return self.of_label(inline.label)
        if inline not in self._inlines:
            self._inlines[inline] = self._rights_on(inline)
        return self._inlines[inline]

    def models(self) -> list[ModelRights]:
        """The models that the principal may view, in the order of their labels."""
        found = (self.of_label(label) for label in sorted(self.site.models))
        return [rights for rights in found if rights is not None]

    def decided_by(self, decided: Mapping[str, Override]) -> None:
        """Use these overrides of tools, by name, and what is restricted beside them, from now on."""
        before, self.overrides = self.overrides, decided
        self._usable.clear()
        if before is not None and overrides.restrictions_in(before) is not overrides.restrictions_in(decided):
            self.forget()

    @property
    def decided(self) -> Mapping[str, Override]:
        """What administrators decided, read if it was not yet."""
        if self.overrides is None:
            self.overrides = overrides.tools.of_request(self.site, self.request)
        return self.overrides

    @property
    def restrictions(self) -> Restrictions:
        """The models and fields that administrators closed. What code exposes is asked of a user in no database."""
        if isinstance(self.request.user, Superuser):
            return overrides.NO_RESTRICTIONS
        return overrides.restrictions_in(self.decided)

    def may_use(self, tool: str) -> bool:
        """Whether administrators let the principal use a query tool. See ``ways`` for what this closes."""
        if tool not in self._usable:
            decision = decide_by_override(self.request, self.decided.get(tool, overrides.ON))
            self._usable[tool] = decision is ALLOWED
        return self._usable[tool]

    def _look_up(self, label: str) -> ModelRights | None:
        model_mcp = self.site.models.get(label)
        return None if model_mcp is None else self._rights_on(model_mcp)

    def decision(self, model_mcp: ModelMCP) -> Decision:
        """Whether the principal may view the model, as far as scope, switch and permission decide."""
        scope, hook = scopes.of_model(model_mcp.label), model_mcp.has_view_permission
        switch = overrides.OFF if model_mcp.label in self.restrictions.models else None
        return decide(self.request, scope, switch, hook, model_mcp, "has_view_permission")

    def _rights_on(self, model_mcp: ModelMCP) -> ModelRights | None:
        if self.decision(model_mcp) is not ALLOWED:
            return None
        found = ModelRights(self, model_mcp)
        return found if found.has_readable_key else None


def _is_hidden_name(name: str) -> bool:
    """Whether a computed value is hidden unless the options name it: a secret, or the text of the row (``__str__``)."""
    return name.startswith("__") or is_secret_name(name)


@kept_with_settings
def _column_of(model_mcp: ModelMCP, name: str) -> Column | None:
    """A field as a column by the options alone, the same for every principal: without what a foreign key points to."""
    try:
        field = model_mcp.model._meta.get_field(name)
    except FieldDoesNotExist:
        return None
    if not isinstance(field, models.Field) or not field.concrete or field.many_to_many or model_mcp.hides(field):
        return None
    kind = kind_of(field, named=model_mcp.names(field))
    return None if kind is None else Column(field.name, field, kind)


def _spellings(model: type[models.Model], names: Iterable[str]) -> Iterator[str]:
    """The names, and the other names of the same fields: ``origin_id`` beside ``origin``, ``flight_set``."""
    named = frozenset(names)
    yield from named
    for field in model._meta.get_fields() if named else ():
        if isinstance(field, models.ForeignObjectRel):
            called = {field.name, field.get_accessor_name() or field.name}
        else:
            called = {field.name, getattr(field, "attname", field.name)}
        if called & named:
            yield from called
