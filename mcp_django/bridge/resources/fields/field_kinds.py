"""The kind of a field: that of the known class that it is made from.

A subclass of CharField may encrypt its values, or hash them. So a field has the kind of its Django class only where no
class between the two has a part in what is stored, read or compared. Other fields are hidden until a ModelMCP names
them, unless this file or ``FIELD_KINDS`` says what the values of their class are.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db import connections, models
from django.db.models import fields
from django.utils.module_loading import import_string
from django.utils.text import format_lazy
from django.utils.translation import gettext_lazy as _

from mcp_django.bridge.declared.secrets import is_secret_class
from mcp_django.bridge.resources.fields import kinds, parsing
from mcp_django.bridge.resources.fields.kinds import Kind
from mcp_django.bridge.resources.fields.parsing import column_of, refuse, steps_to_column
from mcp_django.conf import get_conf, kept_with_settings
from mcp_django.core.compat.queries import prepare_lookup
from mcp_django.core.types import AnyField

#: Classes of packages that have a part in their values, with the kind of these. None: the kind of their Django class,
#: since what they override changes no value.
KNOWN: Mapping[str, str | None] = {
    "colorfield.fields.ColorField": None,
    "django_ckeditor_5.fields.CKEditor5Field": "text",
    "django_countries.fields.CountryField": "text",
    "django_date_extensions.fields.ApproximateDateField": "approximate date",
    "django_fsm.FSMFieldMixin": None,
    "djmoney.models.fields.CurrencyField": None,
    "djmoney.models.fields.MoneyField": None,
    "easy_thumbnails.fields.ThumbnailerField": None,
    "easy_thumbnails.fields.ThumbnailerImageField": None,
    "filer.fields.multistorage_file.MultiStorageFileField": None,
    "imagekit.models.fields.ProcessedImageField": None,
    "jsonfield.fields.JSONCharField": "json",
    "jsonfield.fields.JSONField": "json",
    "localflavor.au.models.AUBusinessNumberField": None,
    "localflavor.au.models.AUCompanyNumberField": None,
    "localflavor.au.models.AUTaxFileNumberField": None,
    "localflavor.br.models.BRCNPJField": None,
    "localflavor.es.models.ESIdentityCardNumberField": None,
    "localflavor.generic.models.BICField": None,
    "localflavor.nl.models.NLZipCodeField": None,
    "machina.models.fields.ExtendedImageField": None,
    "machina.models.fields.MarkupTextField": None,
    "markupfield.fields.MarkupField": None,
    "model_utils.fields.MonitorField": None,
    "model_utils.fields.SplitField": "text",
    "model_utils.fields.StatusField": None,
    "modeltranslation.fields.TranslationField": None,
    "multiselectfield.db.fields.MultiSelectField": "json",
    "oscar.models.fields.NullCharField": "text",
    "oscar.models.fields.UppercaseCharField": "text",
    "parler.fields.TranslationsForeignKey": None,
    "phonenumber_field.modelfields.PhoneNumberField": "text",
    "smart_selects.db_fields.ChainedForeignKey": None,
    "smart_selects.db_fields.GroupedForeignKey": None,
    "smart_selects.db_fields.IntrospectiveFieldMixin": None,
    "stdimage.models.JPEGField": None,
    "stdimage.models.StdImageField": None,
    "timezone_field.fields.TimeZoneField": "text",
    "treebeard.ltree.fields.PathField": "text",
    "wagtail.images.models.WagtailImageField": None,
}

#: What a class may override: it concerns forms, checks, migrations and saving.
_HARMLESS = frozenset(
    """__init__ __repr__ __str__ __init_subclass__ __class_getitem__ __annotate__ __annotate_func__
    check clean clone deconstruct default_error_messages default_validators description empty_strings_allowed
    empty_values error_messages forward_related_accessor_class generate_filename get_choices get_default
    get_limit_choices_to get_pk_value_on_save has_default non_db_attrs pre_save related_accessor_class
    related_query_name run_validators
    save_form_data validate validators value_to_string _description _get_default""".split()  # noqa: SIM905 - a list of so many strings is a page long
)

#: What Django asks of a field that has it, and that no plain field has.
_OPTIONAL = frozenset({"from_db_value", "get_placeholder", "get_placeholder_sql", "resolve_expression", "__getattr__"})

_CLASSES = (*(cls for cls in vars(fields).values() if isinstance(cls, type)), models.OneToOneField, models.FileField)
#: Every name that Django may ask of a field.
_ASKED = _OPTIONAL.union(*(vars(base) for cls in _CLASSES if issubclass(cls, models.Field) for base in cls.__mro__))


@lru_cache(maxsize=1_000)
def partners(model: Any) -> Mapping[str, str]:
    """Names of amounts, each with the name of its currency field: without that, an amount means nothing."""
    money = [field for field in model._meta.concrete_fields if "djmoney.models.fields.MoneyField" in _paths_of(field)]
    return {field.name: field.currency_field_name or f"{field.name}_currency" for field in money}


def _paths_of(field: AnyField) -> Iterator[str]:
    return map(path_of, type(field).__mro__)


def path_of(cls: type[Any]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def differences(field: AnyField, base: type[Any]) -> Iterator[str]:
    """Names of what a field overrides of the class ``base`` that it is made from, if it may change values."""
    for cls in _between(field, base):
        if type(cls) not in (type, ABCMeta):
            yield "metaclass"
        yield from (name for name, value in list(vars(cls).items()) if _may_change_values(name, value, field, base))
    # A copy: Django keeps what it computes on the field, in any thread.
    yield from (name for name, value in list(vars(field).items()) if _replaces_method(name, value, field, base))


def is_named_as_secret(field: AnyField, base: type[Any]) -> bool:
    """Whether one of the classes between says by its name that the values are secrets."""
    return any(is_secret_class(cls) for cls in _between(field, base))


def _between(field: AnyField, base: type[Any]) -> Iterator[type[Any]]:
    """The classes of a field that ``base`` does not have, without those that are known to change no value."""
    return (cls for cls in type(field).__mro__ if cls not in base.__mro__ and KNOWN.get(path_of(cls), "") is not None)


def _may_change_values(name: str, value: Any, field: AnyField, base: Any) -> bool:
    if name in _HARMLESS or name.startswith("_check"):
        return False
    if name == "formfield":
        return not field.is_relation and _is_typed_unseen(field)
    if name == "get_internal_type":
        return bool(field.get_internal_type() != base.get_internal_type(field))
    # Python itself puts other names of this form into a class, none of which can be called.
    return callable(value) if name.startswith("__") else name in _ASKED


def _is_typed_unseen(field: AnyField) -> bool:
    """Whether forms show dots in the place of the value."""
    try:
        form_field = field.formfield()
    except Exception:  # noqa: BLE001 - then it cannot be said
        return True
    return isinstance(getattr(form_field, "widget", None), forms.PasswordInput)


def _replaces_method(name: str, value: Any, field: AnyField, base: type[Any]) -> bool:
    """Whether an attribute of the field instance replaces what its class would do."""
    if name == "instance_lookups":
        # Django gives a generated field those of its output.
        output: Any = field.output_field if isinstance(field, models.GeneratedField) else None
        given_by_django = {} if output is None else output.get_class_lookups()
        return not value.items() <= given_by_django.items()
    if name in _OPTIONAL or name in ("attr_class", "descriptor_class"):
        return True
    given = inspect.getattr_static(base, name, None)
    return isinstance(given, _METHODS) and name not in _HARMLESS


_METHODS = (FunctionType, classmethod, staticmethod)


#: The kinds that ``FIELD_KINDS`` may name, by their names in describe_models.
NAMED: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        kinds.INTEGER, kinds.BOOLEAN, kinds.TEXT, kinds.ADDRESS, kinds.NUMBER, kinds.DECIMAL, kinds.DATE,
        kinds.DATETIME, kinds.TIME, kinds.DURATION, kinds.UUID, kinds.DATA, kinds.FILE,
    )
}  # fmt: skip


def _read_approximate_date(field: AnyField, value: Any) -> str:
    # The class itself refuses what is no date. What it takes is stored as it is.
    return str(column_of(field).get_prep_value(parsing.read_text(field, value)))


#: Of django-date-extensions: a text in which a month or a day of 00 is not known, so that texts sort as dates do.
APPROXIMATE_DATE = Kind(
    "approximate date", {"type": "string", "description": "As 2021-03-00, where 00 is a day or a month not known."},
    kinds.DURATION.lookups, _read_approximate_date, lambda value: value if isinstance(value, str) else repr(value),
    json_types=frozenset({str, type(None)}),
)  # fmt: skip
#: What converts a value of an unknown class first, for kinds that would leave it as it is.
_MADE: Mapping[Kind, Callable[[Any], Any]] = {kinds.INTEGER: int, kinds.NUMBER: float}

#: The classes of fields that take their values from other fields.
_RELATIONS = frozenset({models.OneToOneField, models.ForeignKey, models.GeneratedField})


def kind_of(field: AnyField, *, named: bool) -> Kind | None:
    """The kind of a column; None if it is hidden. ``named``: whether a ModelMCP names the field."""
    return look_up(field, named=named)[0]


def look_up(field: AnyField, *, named: bool) -> tuple[Kind | None, Any]:
    """The kind of a column, or None and the reason why it is hidden, which is translated when it is read."""
    return _looked_up(_This(field), named=named)


@dataclass(frozen=True, slots=True, eq=False)
class _This:
    """A field in a cache. Django takes two for equal that have the same number, which a package may give to both."""

    field: AnyField

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _This) and self.field is other.field

    def __hash__(self) -> int:
        return id(self.field)


@kept_with_settings
def _looked_up(this: _This, *, named: bool) -> tuple[Kind | None, Any]:
    field = this.field
    *relations, column = steps_to_column(field)
    for relation in () if named else relations:
        base = next(cls for cls in type(relation).__mro__ if cls in _RELATIONS)
        for difference in differences(relation, base):
            return None, _strange(relation, difference)
    for cls in type(column).__mro__:
        kind = _kind_of_class(cls, column, named=named)
        if kind is None:
            continue
        if named:
            return converted(kind) if any(differences(column, cls)) else kind, ""
        is_key = bool(relations) or column.primary_key
        if kind.converted and is_key and cls not in _declared():
            # Two keys that are read as the same value would be taken for one row.
            said = _("is a key, and a {name}, which may read two values as the same one")
            return None, format_lazy(said, name=type(column).__name__)
        doubt = _doubt(column, cls)
        return None if doubt else kind, doubt
    return None, format_lazy(_("is a {name}, a class that is not known"), name=type(column).__name__)


def _doubt(field: AnyField, base: type[Any]) -> Any:
    """Why a field may hold other values than those of the class ``base`` that it is made from, or secrets."""
    if is_named_as_secret(field, base):
        said = _("is a {name}, a class that is named as if its values were secrets")
        return format_lazy(said, name=type(field).__name__)
    found = list(differences(field, base))
    if not found or (kinds.KINDS.get(base) is kinds.TEXT and _MARKED_UP.issuperset(found) and _is_marked_up(field)):
        return ""
    return _strange(field, found[0])


#: What a field of marked-up text overrides.
_MARKED_UP = frozenset({"contribute_to_class", "get_db_prep_value", "get_prep_value", "to_python"})


def _is_marked_up(field: AnyField) -> bool:
    """Whether objects have the stored text of the field as ``raw`` of what renders it, as in django-markupfield."""
    with suppress(Exception):  # A class may raise anything for a row that is not whole.
        row = models.Model.__new__(field.model)
        vars(row).update({one.attname: None for one in field.model._meta.concrete_fields}, **{field.attname: _PROBE})
        found = getattr(row, field.attname)
        return (
            found is not _PROBE
            and found.raw == _PROBE
            and all(
                field.get_db_prep_value(value, connections["default"], prepared=False) == _PROBE
                for value in (found, _PROBE)
            )
        )
    return False


_PROBE = "*a* text"


def _strange(field: AnyField, difference: str) -> Any:
    said = _("is a {name}, a class that is not known and has its own {difference}")
    return format_lazy(said, name=type(field).__name__, difference=difference)


def _kind_of_class(cls: type[Any], field: AnyField, *, named: bool) -> Kind | None:
    name = KNOWN.get(path_of(cls))
    kind = kinds.KINDS.get(cls) or _declared().get(cls) or (_of_package(name) if name else None)
    return kind or _kind_on_postgresql(cls, field, named=named)


def _kind_on_postgresql(cls: type[Any], field: AnyField, *, named: bool) -> Kind | None:
    # A class of that module can only be here where its driver is installed.
    if not cls.__module__.startswith("django.contrib.postgres."):
        return None
    from mcp_django.bridge.resources.fields import postgresql

    return postgresql.kind_of(cls, field, named=named)


@cache
def _of_package(name: str) -> Kind:
    """The kind of a class in ``KNOWN``: what it stores is no secret either, so a search may look for parts of it."""
    return APPROXIMATE_DATE if name == APPROXIMATE_DATE.name else replace(converted(NAMED[name]), searchable=True)


@kept_with_settings
def _declared() -> Mapping[Any, Kind]:
    """What ``FIELD_KINDS`` says. An entry that cannot be used shows nothing: the system checks report it."""
    found = {}
    for path, name in get_conf().FIELD_KINDS.items():
        with suppress(ImportError, KeyError, TypeError):
            found[import_string(path)] = converted(NAMED[name])
    return found


@cache
def converted(kind: Kind) -> Kind:
    """The kind of a field whose class converts its values.

    The database stores other values. So they are compared as a whole, after the class has converted them, or only with
    null if a filter could not write them. A search for parts could reveal what the class hides.
    """
    if kind.converted:
        return kind
    is_compared = "exact" in kind.lookups and NAMED.get(kind.name) is kind
    made = _MADE.get(kind)

    def read(field: AnyField, value: Any) -> Any:
        # The bounds of an integer are those of the column, which the class may have chosen.
        value, column = kind.read(models.BigIntegerField(), value), column_of(field)
        try:
            prepare_lookup(column, "exact", value)
            column.get_db_prep_value(value, connections["default"], prepared=False)
        except Exception:  # noqa: BLE001 - a class may raise anything for a value that it does not take
            raise ValidationError("is no value of this field") from None
        return value

    return replace(
        kind, lookups=("exact", "in", "isnull") if is_compared else ("isnull",), read=read if is_compared else refuse,
        write=kind.write if made is None else lambda value: kind.write(made(value)), orderable=False, readers={},
        converted=True, searchable=False,
    )  # fmt: skip
