"""Generic foreign keys, which point to rows of any model: the row as its URI, its model as a label, and the way back.

A model that the principal may not view stays hidden: its content type reads as null, and no condition finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby, pairwise
from typing import TYPE_CHECKING, Any

from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db import models
from django.db.models import F, Func, OuterRef, Q, Subquery, Value
from django.db.models.functions import Cast, Concat, Substr
from django.utils.functional import cached_property

from mcp_django.bridge.declared.admin_form import generic_keys
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields.columns import Column, Computed, Relation
from mcp_django.bridge.resources.fields.kinds import CONTENT_TYPE, INTEGER, TEXT, UUID
from mcp_django.bridge.resources.policy import visible_rows, ways
from mcp_django.core.compat.connections import has_uuid_type
from mcp_django.core.db.column_paths import column_path, is_in
from mcp_django.core.types import AnyField

if TYPE_CHECKING:
    from mcp_django.bridge.resources.policy.policy import ModelRights, Rights

Model = type[models.Model]


# The row that a generic foreign key points to.


def links(rights: ModelRights) -> Iterator[Computed]:
    """The generic foreign keys that the principal may read."""
    for field in generic_keys(rights.model):
        if field.name in rights.shown and not rights.model_mcp.hides(field) and not _is_excluded(rights, field):
            yield Computed(field.name, field.name.replace("_", " "), partial(_uri, rights, field))


def _is_excluded(rights: ModelRights, field: Any) -> bool:
    """Whether one of its two columns is excluded."""
    return field.ct_field in rights.excluded or field.fk_field in rights.excluded


def _uri(rights: ModelRights, field: Any, instance: models.Model) -> str | None:
    """The URI of the row; None where there is none, or none that the principal can see."""
    from django.contrib.contenttypes.models import ContentType

    kind: Any = rights.model._meta.get_field(field.ct_field)
    kind_id = getattr(instance, kind.attname)
    key = getattr(instance, field.fk_field)
    if kind_id is None or key is None:
        return None
    try:
        model = ContentType.objects.get_for_id(kind_id).model_class()
        related = None if model is None else rights.rights.of_model(model)
        if model is None or related is None or not ways.is_open(related, "record"):
            return None
        # As the other model writes it: the key may be kept here as text, of a UUID for example.
        key = model._meta.pk.to_python(key)
    except (ObjectDoesNotExist, ValidationError):
        return None
    return uris.record_uri(model, key) if visible_rows.visible_keys(related, [str(key)]) else None


# Its model.


def type_column(rights: ModelRights, field: models.ForeignKey[Any, Any]) -> Column | None:
    """The column of a foreign key to ContentType, read as labels of models; None for any other field."""
    if field.related_model is not _content_type() or not field.target_field.primary_key:
        return None
    return Column(field.name, field, CONTENT_TYPE, types=ContentTypes(rights.rights))


def _content_type() -> Any:
    """The model of content types; None where they are not installed."""
    from django.apps import apps

    return apps.get_model("contenttypes", "ContentType") if apps.is_installed("django.contrib.contenttypes") else None


class ContentTypes:
    """The content types of the models that the principal may view, as parts of queries: no row is read here."""

    def __init__(self, rights: Rights) -> None:
        self._rights = rights

    @cached_property
    def _models(self) -> Mapping[str, Model]:
        return {rights.label: rights.model for rights in self._rights.models()}

    def labels(self) -> list[str]:
        return list(self._models)

    def label_at(self, path: str) -> Any:
        """The label of the content type whose key stands at the path, as an expression; null for a hidden one."""
        label = Concat(F("app_label"), Value("."), F("model"), output_field=models.CharField())
        return Subquery(rows_of_types(self._models.values()).filter(pk=OuterRef(path)).values(_mcp_label=label))

    def condition(self, field: AnyField, lookup: str, value: Any) -> Q:
        """A condition on the column that holds the key of a content type."""
        if lookup == "isnull":
            known = is_in(field, rows_of_types(self._models.values()).values("pk"))
            return ~known | Q((f"{column_path(field)}__isnull", True)) if value else known
        wanted = {label.lower() for label in (value if lookup == "in" else [value])}
        found = rows_of_types(model for label, model in self._models.items() if label in wanted)
        return is_in(field, found.values("pk"))


def rows_of_types(found: Iterable[Model]) -> models.QuerySet[Any]:
    """The content types of exactly these models: a proxy has one of its own."""
    condition = Q(("pk__in", []))
    names = sorted((model._meta.app_label, str(model._meta.model_name)) for model in found)
    for app_label, pairs in groupby(names, key=lambda pair: pair[0]):
        condition |= Q(app_label=app_label, model__in=[name for _, name in pairs])
    rows: models.QuerySet[Any] = _content_type()._base_manager.filter(condition)
    return rows


# The way back.


def relations(rights: ModelRights) -> dict[str, Relation]:
    """The generic relations of the model whose other side shows both the content type and the key."""
    found: dict[str, Relation] = {}
    for field in rights.model._meta.private_fields:
        if not isinstance(field, models.ForeignObject) or not hasattr(field, "object_id_field_name"):
            continue
        related = rights.rights.of_model(field.related_model)
        if related is None or related.checks_objects or not related.has_rows:
            continue
        if field.name in rights.excluded:
            continue
        relation = None if rights.model_mcp.hides(field) else _relation(rights, related, field, field.name)
        if relation is not None:
            found[field.name] = relation
    return found


def of_inline(rights: ModelRights, related: ModelRights, inline: Any, name: str) -> Relation | None:
    """The rows of a generic inline, a GenericInlineModelAdmin, as a relation of its parent."""
    from django.contrib.contenttypes.fields import GenericRelation

    field = GenericRelation(inline.model, object_id_field=inline.ct_fk_field, content_type_field=inline.ct_field)
    return _relation(rights, related, field, name)


def _relation(rights: ModelRights, related: ModelRights, field: Any, name: str) -> Relation | None:
    model = rights.model._meta.concrete_model if field.for_concrete_model else rights.model
    kind = related.columns.get(field.content_type_field_name)
    key = related.columns.get(field.object_id_field_name)
    # The rows of a proxy carry the type of its concrete model, which may be hidden from the principal.
    if kind is None or key is None or model is None or rights.rights.of_model(model) is None:
        return None
    of_text = key.kind is TEXT and rights.primary_key.kind in (INTEGER, UUID)
    if not of_text and (key.kind is not rights.primary_key.kind or key.kind not in (INTEGER, TEXT, UUID)):
        return None
    types = rows_of_types([model])
    if kind.related is not None:
        types = types.filter(pk__in=kind.related.rows().values("pk"))
    is_attribute = field.name == name
    return GenericRelated(name, related, field, is_attribute, owner=rights.primary_key, kind=kind, types=types)


@dataclass(frozen=True, slots=True, kw_only=True)
class GenericRelated(Relation):
    """The rows whose generic foreign key points to a row."""

    #: The primary key of this model.
    owner: Column
    #: The content type of a related row, as its column.
    kind: Column
    #: The one content type that leads here.
    types: models.QuerySet[Any]

    @property
    def grouping(self) -> str:
        return f"grouped by {self._owner_column}, with {self.kind.name} in the filter"

    @property
    def owner_field(self) -> AnyField:
        return self.owner.field

    @property
    def _owner_column(self) -> str:
        name: str = self.field.object_id_field_name
        return name

    @property
    def _is_text(self) -> bool:
        """Whether a related row holds the key as text, as Django keeps keys of any type."""
        return self.related.columns[self._owner_column].kind is TEXT and self.owner.kind is not TEXT

    def held(self, owner: Any) -> Any:
        return str(owner) if self._is_text else owner

    def _owned_by(self, owner: Any) -> Q:
        if self._is_text:
            owner = _as_text(owner, self.owner) if isinstance(owner, F) else str(owner)
        return self._of_type & Q((self._owner_column, owner))

    def _owned_by_any(self, owners: Sequence[Any]) -> Q:
        # Without arguments, super() does not know the class that ``slots`` makes anew.
        return self._of_type & super(GenericRelated, self)._owned_by_any(owners)

    @property
    def _of_type(self) -> Q:
        return is_in(self.kind.field, self.types.values("pk"))


def _as_text(key: F, column: Column) -> Any:
    return _UUIDText(key) if column.kind is UUID else Cast(key, models.TextField())


class _UUIDText(Func):
    """A UUID as text with hyphens: databases without a type for UUIDs store it without them."""

    arity = 1
    output_field = models.TextField()
    _ENDS = (1, 9, 13, 17, 21, 33)

    def as_sql(self, compiler: Any, connection: Any, *args: Any, **context: Any) -> Any:
        [key] = self.get_source_expressions()
        if has_uuid_type(connection):
            return compiler.compile(Cast(key, models.TextField()))
        parts: list[Any] = []
        for start, end in pairwise(self._ENDS):
            parts += [Value("-"), Substr(key, start, end - start)]
        return compiler.compile(Concat(*parts[1:], output_field=models.TextField()))
