"""Records that a DRF serializer of the project writes, within the field policy.

The serializer shapes a record, and never shows more than the rights allow. It reads the ``source`` of each field
through the rights, step by step: a field of a model that the principal may not read is taken out of the serializer, and
a related row that the principal may not see reads as null. Where a field would write the text of a row, it writes its
key. What the project's own code makes of a row
(``SerializerMethodField``, an overridden ``to_representation``, a property of the model) is shown as it is, like a
computed column.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from enum import Enum
from functools import partial
from itertools import islice
from typing import Any, TypeGuard

from django.db import models
from django.db.models import Manager, Q, QuerySet
from pydantic import BaseModel
from pydantic_core import to_jsonable_python
from rest_framework import fields as drf
from rest_framework import relations, serializers
from rest_framework.request import Request
from rest_framework.settings import api_settings

from mcp_django.bridge.declared.secrets import is_secret_name
from mcp_django.bridge.resources import uris
from mcp_django.bridge.resources.fields import kinds
from mcp_django.bridge.resources.fields.columns import MAX_RELATED, Column, Relation
from mcp_django.bridge.resources.fields.errors import InvalidQuery
from mcp_django.bridge.resources.policy import row_values
from mcp_django.bridge.resources.policy.policy import ModelRights
from mcp_django.bridge.resources.reading.selection import is_order_hidden, readable_order
from mcp_django.bridge.resources.reading.sources import Lead, follow, why_refused, why_source_refused
from mcp_django.core.compat.queries import gives_instances, has_default_order, is_sliced_or_combined
from mcp_django.core.db.bounds import fetch
from mcp_django.core.db.column_paths import has_key_in
from mcp_django.exceptions import field_error
from mcp_django.protocol.types import JSON
from mcp_django.protocol.unknown_names import unknown_name

_KINDS: Mapping[type, kinds.Kind] = {
    int: kinds.INTEGER,
    Decimal: kinds.DECIMAL,
    datetime.datetime: kinds.DATETIME,
    datetime.date: kinds.DATE,
    datetime.time: kinds.TIME,
    datetime.timedelta: kinds.DURATION,
}


def write_value(value: Any, as_text: Callable[[Any], Any] = str, depth: int = 0) -> Any:
    """A value of a serializer as JSON: exact, and as the values of rows are written.

    ``as_text`` gives what JSON has no form for.
    """
    if value is None or isinstance(value, bool | float):
        return value
    if isinstance(value, Enum):
        return write_value(value.value, as_text, depth)
    if isinstance(value, str):
        return str(value)
    for cls in type(value).__mro__:
        if cls in _KINDS:
            return _KINDS[cls].write(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    if isinstance(value, BaseModel) or (dataclasses.is_dataclass(value) and not isinstance(value, type)):
        value = to_jsonable_python(value, fallback=as_text)
    if not isinstance(value, Mapping | list | tuple | set | frozenset):
        return as_text(value)
    if depth >= kinds.MAX_JSON_DEPTH:
        return f"… (deeper than {kinds.MAX_JSON_DEPTH} levels)"
    if isinstance(value, Mapping):
        return {str(as_text(name)): write_value(item, as_text, depth + 1) for name, item in value.items()}
    return [write_value(item, as_text, depth + 1) for item in value]


AnySerializer = serializers.Serializer[Any]
Field = drf.Field[Any, Any, Any, Any]

_ISO_8601 = "iso-8601"
#: Where some rows may not be shown, this many times more rows are looked at than are listed.
_MAX_LOOKS = 10

_COLLECTIONS = (list, tuple, set, frozenset)
#: Other values that hold rows are iterators and raw queries, among others.
_KNOWN = (*_COLLECTIONS, str, bytes, Mapping, QuerySet)
#: Fields that read other values of a row than its key.
_OF_ROWS = (serializers.Serializer, relations.SlugRelatedField, relations.HyperlinkedRelatedField)
#: Fields that are given a row and never write its text.
_GIVEN_ROWS = (*_OF_ROWS, relations.PrimaryKeyRelatedField, drf.SerializerMethodField, drf.ModelField)
#: Fields that go through whatever they are given.
_LISTS = (serializers.ListSerializer, relations.ManyRelatedField, drf.ListField)


class RecordSerializer:
    """The serializer of one record, with no more in it than the principal may read.

    Raises whatever the project's serializer raises: such a record cannot be given.
    """

    def __init__(self, rights: ModelRights, instance: models.Model | None = None) -> None:
        cls = rights.serializer_class
        if not (isinstance(cls, type) and issubclass(cls, serializers.Serializer)):
            raise TypeError(f"{rights.model_mcp}.serializer_class is {cls!r}, which is no Serializer")
        self.rights = rights
        self.notes: list[str] = []
        #: Where each field that is left leads to.
        self.leads: dict[Field, Lead] = {}
        #: ``Serializer.field`` → why nobody is shown what it reads.
        self.refused: dict[str, str] = {}
        self._visible: dict[tuple[str, Any], bool] = {}
        context = {"request": _drf_request(rights), "view": None, "format": None}
        self.serializer: AnySerializer = cls(instance, context=context)
        self._restrict(self.serializer, rights)

    def values(self, instance: models.Model, fields: Sequence[str] = ()) -> JSON:
        """The record as JSON values: whole, or those of its ``fields``. Raises InvalidQuery."""
        allowed = list(self.serializer.fields)
        if unknown := [name for name in fields if name not in allowed]:
            raise InvalidQuery([field_error("fields", unknown_name("field", name, allowed), name) for name in unknown])
        if fields and not is_own(self.serializer, "to_representation"):
            for name in set(self.serializer.fields) - set(fields):
                del self.serializer.fields[name]
        given = self.serializer.to_representation(instance)
        if not isinstance(given, Mapping):
            raise TypeError(f"{type(self.serializer).__name__} gives {type(given).__name__}, and a record is an object")
        key_of = partial(self._key_of, None)
        return {
            str(name): write_value(row_values.without_rows(value, key_of), self._as_text)
            for name, value in given.items()
            if not fields or name in fields
        }

    # Restricting a serializer.

    def _restrict(self, serializer: AnySerializer, rights: ModelRights | None) -> None:
        """Take out what may not be read, and let the rest read through the rights."""
        taken = set()
        for name, field in list(serializer.fields.items()):
            lead = None if field.write_only else follow(rights, _source(field))
            if lead is None or _is_hidden(field, lead, rights) or not self._may_show(field, lead, rights):
                taken.add(name)
                del serializer.fields[name]
                if why := why_source_refused(rights, [*_source(field), *_slugs(field)]):
                    self.refused[f"{type(serializer).__name__}.{name}"] = why
            else:
                self.leads[field] = lead
                self._guard(field, lead, rights)
        if taken and is_own(serializer, "to_representation"):
            # A field that was taken out stays out, even if the project's code puts it in again.
            vars(serializer)["to_representation"] = partial(_without, taken, serializer.to_representation)

    def _may_show(self, field: Field, lead: Lead, rights: ModelRights | None) -> bool:
        """Whether the principal may see what the field shows. Restricts nested serializers."""
        inner = innermost(field)
        if lead.is_key and isinstance(inner, _OF_ROWS):
            return False
        if isinstance(inner, serializers.Serializer):
            inner_rights, model = lead.rights, getattr(getattr(inner, "Meta", None), "model", None)
            if inner_rights is None and model is not None:
                inner_rights = self.rights.rights.of_model(model)
                if inner_rights is None or not inner_rights.has_rows:
                    return False
            self._restrict(inner, inner_rights)
            return True
        if isinstance(inner, relations.SlugRelatedField):
            return follow(lead.rights, _slugs(inner)) is not None
        if isinstance(inner, relations.HyperlinkedRelatedField) and not is_own(inner, "get_url"):
            found = follow(lead.rights, [inner.lookup_field])
            return inner.lookup_field == "pk" or (found is not None and found.known)
        return not (isinstance(field, drf.ModelField) and (rights is None or lead.rights is not None or lead.is_key))

    def _guard(self, field: Field, lead: Lead, rights: ModelRights | None) -> None:
        inner = innermost(field)
        _write_as_ours(inner)
        if not isinstance(inner, _GIVEN_ROWS) and not is_own(inner, "to_representation"):
            vars(inner)["to_representation"] = partial(self._without_rows, lead.rights, inner.to_representation)
        if isinstance(inner, relations.SlugRelatedField) and not is_own(inner, "to_representation"):
            vars(inner)["to_representation"] = partial(self._slug, inner, lead.rights)
        if isinstance(field, drf.ModelField):
            if lead.column is not None and lead.column.kind.linked and rights is not None:
                vars(field)["get_attribute"] = partial(_link, rights, lead.column)
                vars(field)["to_representation"] = str
        elif is_own(field, "get_attribute"):
            given = field.get_attribute
            vars(field)["get_attribute"] = lambda instance: self._shown(given(instance), None, field)
        elif _source(field):
            vars(field)["get_attribute"] = partial(self._attribute, field, rights)

    # Reading.

    def _attribute(self, field: Field, rights: ModelRights | None, instance: Any) -> Any:
        """What ``Field.get_attribute`` gives, read through the rights."""
        try:
            value = self._read(field, rights, instance, _source(field))
            is_key = _wants_key(field) and value is not None and not hasattr(value, "pk")
            return relations.PKOnlyObject(pk=value) if is_key else value
        except (AttributeError, KeyError):
            if field.default is not drf.empty:
                return field.get_default()
            if field.allow_null:
                return None
            if not field.required:
                raise drf.SkipField from None
            raise

    def _read(self, field: Field, rights: ModelRights | None, value: Any, names: Sequence[str]) -> Any:
        for name in names:
            if value is None:
                # Missing or hidden: it reads the same.
                return None if field.default is drf.empty else field.get_default()
            if why_refused(type(value), name):
                return None
            lead = None
            if isinstance(value, models.Model):
                rights = rights or self.rights.rights.of_model(type(value))
                lead = None if rights is None else follow(rights, [name])
                if lead is None:
                    return None
            attribute = name
            if lead is not None and name == names[-1] and _wants_key(field) and _is_by_key(lead.column):
                # The key is enough, so that its row need not be read.
                lead = Lead(column=lead.column, is_key=True)
            if lead is not None and lead.is_key and lead.column is not None:
                attribute = lead.column.attname
            row, value = value, drf.get_attribute(value, [attribute])
            if lead is not None and lead.relation is not None:
                value = _linked(lead.relation, row, value)
            rights = None if lead is None else lead.rights
            if lead is not None and lead.is_key and lead.column is not None:
                value = value if self._may_see_key(lead.column, value) else None
            else:
                value = self._shown(value, rights, field)
        return value

    def _slug(self, field: Any, rights: ModelRights | None, instance: Any) -> Any:
        return self._read(field, rights, instance, _slugs(field))

    def _shown(self, value: Any, rights: ModelRights | None, field: Field) -> Any:
        """The value, with no row in it that the principal may not see, and no more rows than MAX_RELATED."""
        if isinstance(value, models.Model):
            return value if self._may_see(value, rights) else None
        if isinstance(value, Manager):
            value = value.all()
        if isinstance(value, QuerySet) and gives_instances(value):
            return self._shown_rows(value, rights or self.rights.rights.of_model(value.model), field)
        if isinstance(field, _LISTS) and not isinstance(value, _KNOWN):
            value = _begun(value)
        if isinstance(value, dict) and any(isinstance(item, models.Model) for item in value.values()):
            return {key: item for key, item in value.items() if self._shown(item, rights, field) is not None}
        if isinstance(value, _COLLECTIONS) and any(isinstance(item, models.Model) for item in value):
            return self._listed((item for item in value if self._shown(item, rights, field) is not None), field)
        return value

    def _shown_rows(self, queryset: QuerySet[Any], rights: ModelRights | None, field: Field) -> Any:
        if rights is None or not rights.has_rows:
            return []
        if has_default_order(queryset) and is_order_hidden(rights):
            queryset = queryset.order_by(*readable_order(rights))
        looks = (MAX_RELATED + 1) * (_MAX_LOOKS if rights.checks_objects else 1)
        if rights.checks_objects or is_sliced_or_combined(queryset):
            return self._listed((item for item in queryset[:looks] if self._may_see(item, rights)), field)
        if rights.scoped:
            queryset = queryset.filter(has_key_in(rights.model, rights.rows().using(queryset.db).values("pk")))
        if isinstance(field, serializers.ListSerializer) and is_own(field, "to_representation"):
            return queryset  # The serializer may narrow it, as in a view.
        first = queryset[:looks]
        return self._listed(first if isinstance(first, list) else fetch(first), field)

    def _without_rows(self, rights: ModelRights | None, write: Callable[[Any], Any], value: Any) -> Any:
        """What a field writes of a value: of a row it would write the text, and gets the key instead."""
        found = row_values.without_rows(value, partial(self._key_of, rights))
        return None if found is None else write(found)

    def _as_text(self, value: Any) -> Any:
        """What is written of a value that is of no type of JSON: of a row, its key."""
        return row_values.as_text(value, partial(self._key_of, None))

    def _key_of(self, rights: ModelRights | None, row: models.Model) -> str | None:
        """The key of a row, if the principal may see it. ``rights``: those of the relation that leads to it."""
        if rights is None or not isinstance(row, rights.model):
            rights = self.rights.rights.of_model(type(row))
        return row_values.key_text(rights, row) if rights is not None and self._may_see(row, rights) else None

    def _listed(self, items: Iterable[Any], field: Field) -> list[Any]:
        limit, found = MAX_RELATED, list(items)
        note = f"{field.field_name} lists at most {limit} rows."
        if len(found) > limit and note not in self.notes:
            self.notes.append(note)
        return found[:limit]

    def _may_see(self, instance: models.Model, rights: ModelRights | None) -> bool:
        rights = rights or self.rights.rights.of_model(type(instance))
        if rights is None or instance.pk is None:
            return False
        key = (rights.label, row_values.key_text(rights, instance))
        if key not in self._visible:
            self._visible[key] = row_values.is_visible(rights, instance)
        return self._visible[key]

    def _may_see_key(self, column: Column, key: Any) -> bool:
        if key is None or column.related is None or not column.hides_rows:
            return True
        found = column.related.rows().filter(Q((column.target, key)))
        return bool(fetch(found.values_list("pk")[:1]))


def is_own(item: Any, method: str) -> bool:
    """Whether the project, and not DRF, defines the method of a field or serializer."""
    return not getattr(type(item), method).__module__.startswith("rest_framework.")


def innermost(field: Field) -> Any:
    """The field that writes a single value: of a list of lists, for example, the field of its items."""
    while (child := getattr(field, "child", None) or getattr(field, "child_relation", None)) is not None:
        field = child
    return field


def _begun(value: Any) -> Any:
    """The values of an iterator or a raw query, for example. If they are rows, no more than are ever looked at."""
    if not isinstance(value, Iterable):
        return value
    rest = iter(value)
    items = list(islice(rest, (MAX_RELATED + 1) * _MAX_LOOKS))
    return items if any(isinstance(item, models.Model) for item in items) else [*items, *rest]


def _linked(relation: Relation, row: models.Model, value: Any) -> Any:
    """The rows that a relation gives, without those that only hidden rows of its through model join."""
    if relation.links is None or not relation.links.scoped or not isinstance(value, Manager):
        return value
    queryset = value.all()
    visible = relation.rows_of(getattr(row, relation.owner_attname)).using(queryset.db)
    return queryset.filter(has_key_in(queryset.model, visible.values("pk")))


def _drf_request(rights: ModelRights) -> Request:
    """The request as a serializer knows it from a view."""
    request = rights.rights.request
    wrapped = Request(request)
    wrapped.user, wrapped.auth = request.user, getattr(request, "auth", None)
    return wrapped


def _source(field: Field) -> Sequence[str]:
    """The attributes that a field goes through; none if it is given the row itself."""
    if isinstance(field, drf.ModelField):
        return [field.model_field.name]
    return [] if field.source == "*" else field.source_attrs


def _slugs(field: Field) -> Sequence[str]:
    """The attributes that a field reads of the row, or of each row, that it leads to."""
    inner = innermost(field)
    return inner.slug_field.split("__") if isinstance(inner, relations.SlugRelatedField) else []


def _wants_key(field: Field) -> bool:
    return isinstance(field, relations.RelatedField) and field.use_pk_only_optimization()


def _is_by_key(column: Column | None) -> TypeGuard[Column]:
    """Whether the column is a foreign key that holds the primary key of another row."""
    return column is not None and isinstance(column.field, models.ForeignKey) and column.field.target_field.primary_key


def _link(rights: ModelRights, column: Column, instance: Any) -> str | None:
    """The link to a stored file, or to bytes, as rows carry it."""
    return uris.file_uri(rights.model, instance.pk, column.name) if getattr(instance, column.attname) else None


def _is_hidden(field: Field, lead: Lead, rights: ModelRights | None) -> bool:
    """Whether its name is excluded, or looks like a secret that ``fields`` does not name."""
    name = str(field.field_name)
    if rights is not None and name in rights.excluded:
        return True
    if lead.known and _source(field):
        return False  # The rights have allowed it already.
    names = [item for item in (name, *_source(field)) if is_secret_name(item)]
    return any(rights is None or not rights.model_mcp.declares(item) for item in names)


def _without(names: set[str], given: Callable[[Any], Any], instance: Any) -> Any:
    value = given(instance)
    if not isinstance(value, Mapping):
        return value
    return {name: item for name, item in value.items() if name not in names}


def _as_it_is(value: Any) -> Any:
    return value


def _write_as_ours(field: Field) -> None:
    """Make the field write dates and durations as rows do, unless the project sets a format."""
    if isinstance(field, drf.DateTimeField):
        given = getattr(field, "format", api_settings.DATETIME_FORMAT)
        if isinstance(given, str) and given.lower() == _ISO_8601:
            field.format = None
    elif isinstance(field, drf.DurationField) and not hasattr(field, "format"):
        field.format = None
        is_plain = type(field).to_representation is drf.DurationField.to_representation
        if is_plain and not hasattr(api_settings, "DURATION_FORMAT"):
            # Releases without the setting know one format alone.
            vars(field)["to_representation"] = _as_it_is
