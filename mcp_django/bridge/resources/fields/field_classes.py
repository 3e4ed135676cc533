"""Which classes of model fields have the same values as the Django class that they are made from.

A subclass of CharField may encrypt its values, or hash them. So a field is shown as its Django class only where no
class between the two has a part in what is stored, read or compared. A class of a package that has a part in it is
shown if this file, or ``FIELD_KINDS``, says what its values are.
"""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import FunctionType
from typing import Any

from django import forms
from django.db import models
from django.db.models import fields

from mcp_django.bridge.declared.secrets import is_secret_class
from mcp_django.types import AnyField

#: Classes of packages that have a part in their values, with the kind of these. None: the kind of their Django class,
#: since what they override changes no value.
KNOWN: Mapping[str, str | None] = {
    "colorfield.fields.ColorField": None,
    "django_ckeditor_5.fields.CKEditor5Field": "text",
    "django_countries.fields.CountryField": "text",
    "django_fsm.FSMFieldMixin": None,
    "djmoney.models.fields.CurrencyField": None,
    "djmoney.models.fields.MoneyField": "decimal",
    "easy_thumbnails.fields.ThumbnailerField": None,
    "easy_thumbnails.fields.ThumbnailerImageField": None,
    "imagekit.models.fields.ProcessedImageField": None,
    "jsonfield.fields.JSONCharField": "json",
    "jsonfield.fields.JSONField": "json",
    "model_utils.fields.MonitorField": None,
    "model_utils.fields.SplitField": "text",
    "model_utils.fields.StatusField": None,
    "multiselectfield.db.fields.MultiSelectField": "json",
    "oscar.models.fields.NullCharField": "text",
    "oscar.models.fields.UppercaseCharField": "text",
    "parler.fields.TranslationsForeignKey": None,
    "phonenumber_field.modelfields.PhoneNumberField": "text",
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
    get_limit_choices_to get_pk_value_on_save has_default non_db_attrs pre_save related_accessor_class run_validators
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
